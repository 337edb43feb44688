// What kernels ask of their block: where they stand, barriers and shared memory.

#include <cstring>

#include "access.h"
#include "launch.h"
#include "settings.h"

using namespace emulator;

namespace emulator {

namespace {

const int ERROR_OUT_OF_RESOURCES = 701;
const int ERROR_LAUNCH_FAILURE = 719;
// Between arrays of shared memory, bytes that belong to none.
const uint64_t RED_ZONE_BYTES = 256;

// Nobody has written it yet, and nobody should count on what it holds.
void spoil(uint64_t address, uint64_t bytes) {
    std::memset(reinterpret_cast<void*>(address), int(0x80 | launch->random.below(0x80)), bytes);
}

}  // namespace

// All threads that are left wait: they go on, in a new interval, if they wait at one barrier and nobody has ended.
void barrier_reached(Block& block) {
    const Thread* first = nullptr;
    Known known;
    for (Thread& thread : block.threads) {
        if (thread.state == State::Ended) continue;
        if (!first) first = &thread;
        if (thread.line != first->line) {
            fault(ERROR_LAUNCH_FAILURE, "divergence: thread " + std::to_string(first->linear) + " waits at the barrier of line " +
                                            std::to_string(first->line) + ", thread " + std::to_string(thread.linear) +
                                            " at that of line " + std::to_string(thread.line));
        }
        known = joined(known, thread.clock.known);
    }
    if (block.live < block.threads.size()) {
        fault(ERROR_LAUNCH_FAILURE, "divergence: threads wait at the barrier of line " + std::to_string(first->line) + ", and " +
                                        std::to_string(block.threads.size() - block.live) + " of their block have ended");
    }
    ++block.interval;
    block.held = block.holding;
    block.holding = block.at_barrier = 0;
    for (Thread& thread : block.threads) {
        thread.clock.close();
        thread.clock.known = known;
        release(thread);
    }
}

}  // namespace emulator

#pragma GCC visibility push(default)
extern "C" {

SimtIndex simt_thread_index() { return current->index; }
SimtIndex simt_block_index() { return current->block->index; }
SimtIndex simt_block_dimensions() { return launch->work.block; }
SimtIndex simt_grid_dimensions() { return launch->work.grid; }
unsigned simt_lane() { return current->lane; }
unsigned simt_wave_size() { return launch->wave_size; }

unsigned simt_barrier(int line, int predicate) {
    Block& block = *current->block;
    current->line = line;
    block.holding += predicate != 0;
    ++block.at_barrier;
    hold(*current, State::AtBarrier);
    if (block.at_barrier == block.live) {
        barrier_reached(block);
    } else {
        look_for_stuck(block, current->linear / launch->wave_size);
    }
    switch_away();
    return block.held;
}

void* simt_shared(const void* declaration, const char* name, unsigned long long bytes, unsigned long long alignment) {
    Block& block = *current->block;
    Region& shared = *block.shared;
    for (const SharedArray& array : shared.arrays) {
        if (array.declaration == declaration) return reinterpret_cast<void*>(shared.start + array.offset);
    }
    const uint64_t align = alignment < 16 ? 16 : alignment;
    const uint64_t offset = shared.arrays.empty() ? RED_ZONE_BYTES : (block.shared_bytes + RED_ZONE_BYTES + align - 1) / align * align;
    if (offset + bytes + RED_ZONE_BYTES > shared.bytes) {
        fault(ERROR_OUT_OF_RESOURCES, "shared memory: `" + std::string(name) + "` of " + std::to_string(bytes) + " bytes does not fit");
    }
    block.shared_bytes = offset + bytes;
    shared.arrays.push_back({declaration, name, offset, bytes});
    spoil(shared.start + offset, bytes);
    return reinterpret_cast<void*>(shared.start + offset);
}

long long simt_clock() {
    static long long cycles = 0;
    // The lead kernel and others wait for it to move.
    simt_yield();
    return cycles += 1000;
}

void simt_yield() { switch_away(); }

void simt_trap() { fault(ERROR_LAUNCH_FAILURE, "the kernel gave up (trap, abort or assert)"); }
}
#pragma GCC visibility pop
