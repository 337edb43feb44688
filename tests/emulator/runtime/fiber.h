// Threads of a kernel: stacks that one thread of the host switches between.

#pragma once

#include <cstddef>
#include <vector>

#if !defined(__x86_64__) || defined(FLEETCAL_EMULATOR_UCONTEXT)
#define FIBERS_BY_UCONTEXT 1
#include <ucontext.h>
#endif

namespace emulator {

class Fiber {
public:
    // Begins with this function, which must never return, on this stack at the next switch.
    void prepare(char* stack, size_t bytes, void (*entry)());
    // Saves where this one stands and goes on where the other stood.
    void switch_to(Fiber& other);

private:
#if defined(FIBERS_BY_UCONTEXT)
    ucontext_t context;
#else
    void* stack_pointer = nullptr;
#endif
};

// Room for one thread: kernels keep what they can in registers, and reports of faults are made on it too.
static const size_t STACK_BYTES = 128 << 10;

// Stacks, each above an unmapped page; kept from launch to launch.
class Stacks {
public:
    char* take();
    void give_back(char* stack) { idle.push_back(stack); }

private:
    std::vector<char*> idle;
};

}  // namespace emulator
