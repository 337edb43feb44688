// Memory that kernels may touch. An address in none of these is a fault.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shadow.h"

namespace emulator {

struct Block;

enum class RegionKind { Device, Host, Module, Shared };

// A part of shared memory that a declaration names.
struct SharedArray {
    const void* declaration;
    const char* name;
    uint64_t offset, bytes;
};

struct Region {
    Region(RegionKind kind_, uint64_t start_, uint64_t bytes_)
        : kind(kind_), start(start_), bytes(bytes_), shadow(bytes_ + (start_ % Shadow::PAGE_BYTES)) {}

    RegionKind kind;
    uint64_t start, bytes;
    bool writable = true;
    int device = 0;
    Shadow shadow;
    // Of shared memory: whose it is now, since when, and its arrays.
    Block* owner = nullptr;
    uint64_t generation = 0;
    std::vector<SharedArray> arrays;

    uint64_t end() const { return start + bytes; }
};

// Found by any of their addresses. They stay where they are until they are removed.
void add_region(Region* region);
void remove_region(Region* region);
// The region of an address, or none.
Region* region_at(uint64_t address);
// Words on where an address lies, for people.
std::string place_of(uint64_t address);

}  // namespace emulator
