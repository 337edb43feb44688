// Every access of a kernel to memory comes by here before it happens.

#pragma once

#include <cstdint>

namespace emulator {

enum class Access { Read, Write, AtomicRead, AtomicWrite };

// Faults where the bytes belong to no allocation, or where the access races with an earlier one.
void check(uint64_t address, uint64_t bytes, Access access);
// Now and then lets others run before an access.
void preempt();

}  // namespace emulator
