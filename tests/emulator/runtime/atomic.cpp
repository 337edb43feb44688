// Atomics and fences, and what they order: a fence before an atomic write hands on what its thread has done and knows; an
// atomic read of it, with a fence behind, takes that over. So it is in C++ (fences, release sequences), on CUDA and on AMD.
//
// Two ways in which this is milder: what a thread learned between its fence and its atomic write is handed on too, and so
// are intervals of its block that ended in between.

#include "../simt/interface.h"
#include "access.h"
#include "launch.h"

using namespace emulator;

namespace {

// What atomic writes of the launch have handed on, by address.
struct Released {
    uint64_t generation = 0;
    std::unordered_map<uint64_t, Known> at;
};

Released& released() {
    static Released all;
    if (all.generation != launch->generation) {
        all.generation = launch->generation;
        all.at.clear();
    }
    return all;
}

// What the current thread hands on: its own work up to its last fence, its block's ended intervals, what it knows.
Known handed_on() {
    auto known = current->clock.known ? std::make_shared<Knowledge>(*current->clock.known) : std::make_shared<Knowledge>();
    known->learn_thread(launch->global(*current), current->clock.fenced);
    if (current->block->interval > 0) known->learn_block(current->block->linear, current->block->interval);
    return known;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void simt_fence() {
    Clock& clock = current->clock;
    clock.known = joined(clock.known, clock.pending);
    clock.pending = nullptr;
    clock.fenced = clock.close();
    switch_away();
}

void simt_atomic(const void* at, unsigned long long bytes, unsigned what) {
    // Others go first often: who polls must not poll for ever, and orders of atomics are what results may depend on.
    if (launch->random.below(2) == 0) switch_away();
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    check(address, bytes, what & SIMT_WRITES ? Access::AtomicWrite : Access::AtomicRead);
    Clock& clock = current->clock;
    auto& releases = released().at;
    const auto found = releases.find(address);
    Known handed = found == releases.end() ? nullptr : found->second;
    if (handed && what & SIMT_READS) {
        Known& to = what & SIMT_ACQUIRES ? clock.known : clock.pending;
        to = joined(to, handed);
    }
    if (!(what & SIMT_WRITES)) return;
    if (what & SIMT_RELEASES) clock.fenced = clock.close();
    const Known own = clock.fenced != 0 ? handed_on() : nullptr;
    // Reading and writing in one goes on with what the last writer handed on; writing alone ends it.
    const Known next = what & SIMT_READS ? joined(own, handed) : own;
    if (next) {
        releases[address] = next;
    } else if (handed) {
        releases.erase(address);
    }
}

void __tsan_atomic_thread_fence(int) { simt_fence(); }
void __tsan_atomic_signal_fence(int) {}

static unsigned what_of(unsigned what, int order) {
    const bool acquires = order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
    const bool releases = order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE && order != __ATOMIC_CONSUME;
    return what | (acquires ? unsigned(SIMT_ACQUIRES) : 0) | (releases ? unsigned(SIMT_RELEASES) : 0);
}

#define ATOMIC_UPDATE(BITS, TYPE, NAME, RESULT)                                            \
    TYPE __tsan_atomic##BITS##_##NAME(volatile TYPE* at, TYPE value, int order) {          \
        simt_atomic((const void*)at, BITS / 8, what_of(SIMT_READS | SIMT_WRITES, order));  \
        const TYPE old = *at;                                                              \
        *at = (TYPE)(RESULT);                                                               \
        return old;                                                                        \
    }

#define ATOMICS(BITS, TYPE)                                                                             \
    TYPE __tsan_atomic##BITS##_load(const volatile TYPE* at, int order) {                               \
        simt_atomic((const void*)at, BITS / 8, what_of(SIMT_READS, order));                             \
        return *at;                                                                                     \
    }                                                                                                   \
    void __tsan_atomic##BITS##_store(volatile TYPE* at, TYPE value, int order) {                        \
        simt_atomic((const void*)at, BITS / 8, what_of(SIMT_WRITES, order));                            \
        *at = value;                                                                                    \
    }                                                                                                   \
    int __tsan_atomic##BITS##_compare_exchange_strong(volatile TYPE* at, TYPE* expected, TYPE wanted,   \
                                                      int order, int) {                                 \
        simt_atomic((const void*)at, BITS / 8, what_of(SIMT_READS | SIMT_WRITES, order));               \
        const bool same = *at == *expected;                                                             \
        if (same) *at = wanted; else *expected = *at;                                                   \
        return same;                                                                                    \
    }                                                                                                   \
    int __tsan_atomic##BITS##_compare_exchange_weak(volatile TYPE* at, TYPE* expected, TYPE wanted,     \
                                                    int order, int failure) {                           \
        return __tsan_atomic##BITS##_compare_exchange_strong(at, expected, wanted, order, failure);     \
    }                                                                                                   \
    ATOMIC_UPDATE(BITS, TYPE, exchange, value)                                                          \
    ATOMIC_UPDATE(BITS, TYPE, fetch_add, old + value)                                                   \
    ATOMIC_UPDATE(BITS, TYPE, fetch_sub, old - value)                                                   \
    ATOMIC_UPDATE(BITS, TYPE, fetch_and, old & value)                                                   \
    ATOMIC_UPDATE(BITS, TYPE, fetch_or, old | value)                                                    \
    ATOMIC_UPDATE(BITS, TYPE, fetch_xor, old ^ value)                                                   \
    ATOMIC_UPDATE(BITS, TYPE, fetch_nand, ~(old & value))

ATOMICS(8, unsigned char)
ATOMICS(16, unsigned short)
ATOMICS(32, unsigned)
ATOMICS(64, unsigned long)
}
#pragma GCC visibility pop
