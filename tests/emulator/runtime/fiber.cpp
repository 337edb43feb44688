#include "fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace emulator {

#if defined(FIBERS_BY_UCONTEXT)

void Fiber::prepare(char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
}

void Fiber::switch_to(Fiber& other) { swapcontext(&context, &other.context); }

#else

// swapcontext asks the kernel for the signal mask each time; this is ten times as fast. What a call must keep in the
// System V convention: rbp, rbx, r12 to r15 and the stack pointer. Kernels do not change the floating-point control words.
extern "C" void fleetcal_emulator_switch(void** from, void* to);
asm(R"(
    .text
    .hidden fleetcal_emulator_switch
    .globl fleetcal_emulator_switch
    .type fleetcal_emulator_switch, @function
fleetcal_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size fleetcal_emulator_switch, . - fleetcal_emulator_switch
)");

void Fiber::prepare(char* stack, size_t bytes, void (*entry)()) {
    // A function begins with its return address at 16n + 8; this one never returns, so nothing is there.
    uintptr_t* top = reinterpret_cast<uintptr_t*>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(15));
    *--top = 0;
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    stack_pointer = top;
}

void Fiber::switch_to(Fiber& other) { fleetcal_emulator_switch(&stack_pointer, other.stack_pointer); }

#endif

char* Stacks::take() {
    if (!idle.empty()) {
        char* stack = idle.back();
        idle.pop_back();
        return stack;
    }
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    void* mapped = mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED || mprotect(mapped, page, PROT_NONE) != 0) {
        std::perror("fleetcal emulator: a stack");
        std::abort();
    }
    return static_cast<char*>(mapped) + page;
}

}  // namespace emulator
