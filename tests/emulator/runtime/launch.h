// A launch under way: blocks in slots, their threads as fibers, and who may run.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../simt/interface.h"
#include "fiber.h"
#include "knowledge.h"
#include "random.h"
#include "region.h"

namespace emulator {

struct Block;

enum class State : uint8_t { Runnable, AtBarrier, InWave, Ended };

// What lanes of a wave gave each other.
struct Exchange {
    uint64_t taking_part = 0;
    uint64_t holds = 0;
    uint64_t bits[64];
};

struct Thread {
    Fiber fiber;
    char* stack = nullptr;
    Block* block = nullptr;
    SimtIndex index;
    unsigned linear, lane;
    State state;
    size_t runnable_at;
    // Where it waits: the line, for lanes their mask (0 without one), and what they gave.
    int line;
    uint64_t mask, bits;
    bool predicate, orders_memory;
    std::shared_ptr<Exchange> exchange;
    Clock clock;
};

struct Block {
    SimtIndex index;
    uint32_t linear;
    std::vector<Thread> threads;
    unsigned live, runnable, at_barrier;
    uint32_t interval;
    // Threads whose predicate held: at the barrier that is filling, and at the last one.
    unsigned holding, held;
    // Of each wave, lanes that may run.
    std::vector<unsigned> runnable_of_wave;
    std::unique_ptr<Region> shared;
    uint64_t shared_bytes;
};

struct Fault {
    int error = 0;
    std::string words;
};

// A kernel and its arguments.
struct Work {
    std::string kernel;
    void (*entry)(void**);
    void** arguments;
    SimtIndex grid, block;
};

struct Launch {
    Launch(const Work& work_, uint64_t seed) : work(work_), random(seed) {}

    const Work& work;
    Random random;
    uint64_t generation;
    uint32_t blocks, next_block = 0, block_threads;
    unsigned wave_size;
    std::vector<std::unique_ptr<Block>> slots;
    std::vector<Thread*> runnable;
    Fiber scheduler;
    // Accesses between switches: at most, and left.
    uint32_t quantum, left;
    Ordering ordering;
    Fault fault;

    uint32_t global(const Thread& thread) const { return thread.block->linear * block_threads + thread.linear; }
};

extern Launch* launch;
extern Thread* current;

// Runs a launch to its end; its fault, where it has one.
Fault run(const Work& work);

// Moves a thread out of those that may run, or back.
void hold(Thread& thread, State state);
void release(Thread& thread);
// Lets others run until the scheduler comes back to this thread.
void switch_away();
// The current thread's block has one thread less that can run: waves and barriers that nobody will complete are found.
void look_for_stuck(Block& block, unsigned wave);
// Brings together the lanes of a wave that wait for no lane by name, once no other lane of it may run.
void meet_who_is_there(Block& block, unsigned wave);
void barrier_reached(Block& block);

// Ends the launch with an error of HIP's and words about the current thread. Only on a thread's own stack.
[[noreturn]] void fault(int error, const std::string& what);
std::string name_of(uint32_t block, uint32_t thread);

// Room of a block's shared memory, bytes.
static const uint64_t SHARED_BYTES = 64 << 10;

}  // namespace emulator
