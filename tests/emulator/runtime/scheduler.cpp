// Which thread runs next. Blocks start in the order of their indices, as on a device, a few of them at a time; among their
// threads chance decides, and how long each runs before the next differs from launch to launch.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

#include "launch.h"
#include "settings.h"

namespace emulator {

Launch* launch = nullptr;
Thread* current = nullptr;

namespace {

const int ERROR_LAUNCH_FAILURE = 719;
// Most threads that hold a stack at a time.
const uint32_t RESIDENT_THREADS = 4096;

uint64_t generations = 0;
uint64_t launches = 0;

Stacks& stacks() {
    static Stacks all;
    return all;
}

void thread_main() {
    launch->work.entry(launch->work.arguments);
    Thread& self = *current;
    hold(self, State::Ended);
    --self.block->live;
    if (self.block->at_barrier > 0 && self.block->at_barrier == self.block->live) barrier_reached(*self.block);
    look_for_stuck(*self.block, self.linear / launch->wave_size);
    self.fiber.switch_to(launch->scheduler);
}

SimtIndex unfolded(uint64_t linear, SimtIndex size) {
    return {unsigned(linear % size.x), unsigned(linear / size.x % size.y), unsigned(linear / size.x / size.y)};
}

void start_block(Block& block) {
    block.linear = launch->next_block++;
    block.index = unfolded(block.linear, launch->work.grid);
    block.live = block.runnable = launch->block_threads;
    block.at_barrier = block.holding = block.held = 0;
    block.interval = 0;
    block.shared_bytes = 0;
    block.shared->generation = ++generations;
    block.shared->arrays.clear();
    block.runnable_of_wave.assign((launch->block_threads + launch->wave_size - 1) / launch->wave_size, 0);
    for (Thread& thread : block.threads) {
        thread.index = unfolded(thread.linear, launch->work.block);
        thread.state = State::Runnable;
        thread.clock = Clock();
        thread.fiber.prepare(thread.stack, STACK_BYTES, thread_main);
        thread.runnable_at = launch->runnable.size();
        launch->runnable.push_back(&thread);
        ++block.runnable_of_wave[thread.linear / launch->wave_size];
    }
}

std::unique_ptr<Block> make_block() {
    auto block = std::make_unique<Block>();
    block->live = 0;
    block->threads.resize(launch->block_threads);
    for (uint32_t linear = 0; linear < launch->block_threads; ++linear) {
        Thread& thread = block->threads[linear];
        thread.stack = stacks().take();
        thread.block = block.get();
        thread.linear = linear;
        thread.lane = linear % launch->wave_size;
    }
    void* memory = mmap(nullptr, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block->shared = std::make_unique<Region>(RegionKind::Shared, reinterpret_cast<uint64_t>(memory), SHARED_BYTES);
    block->shared->owner = block.get();
    add_region(block->shared.get());
    return block;
}

void drop_block(Block& block) {
    for (Thread& thread : block.threads) stacks().give_back(thread.stack);
    remove_region(block.shared.get());
    munmap(reinterpret_cast<void*>(block.shared->start), SHARED_BYTES);
}

void run_threads() {
    while (launch->fault.error == 0) {
        for (auto& block : launch->slots) {
            if (block->live == 0 && launch->next_block < launch->blocks) start_block(*block);
        }
        if (launch->runnable.empty()) return;
        current = launch->runnable[launch->random.below(uint32_t(launch->runnable.size()))];
        launch->left = 1 + launch->random.below(launch->quantum);
        launch->scheduler.switch_to(current->fiber);
        // A block may have ended; until one has, nobody looks at the slots.
        while (launch->fault.error == 0 && !launch->runnable.empty() && current->block->live > 0) {
            current = launch->runnable[launch->random.below(uint32_t(launch->runnable.size()))];
            launch->left = 1 + launch->random.below(launch->quantum);
            launch->scheduler.switch_to(current->fiber);
        }
    }
}

}  // namespace

Fault run(const Work& work) {
    Launch here(work, settings().seed * 0x2545f4914f6cdd1dull + ++launches);
    launch = &here;
    here.generation = ++generations;
    here.blocks = work.grid.x * work.grid.y * work.grid.z;
    here.block_threads = work.block.x * work.block.y * work.block.z;
    here.wave_size = settings().wave_size;
    here.quantum = 1u << here.random.below(9);
    here.ordering.start(here.block_threads);
    const uint32_t resident = 3 + here.random.below(3);
    const uint32_t slots = std::min({here.blocks, resident, std::max(1u, RESIDENT_THREADS / here.block_threads)});
    for (uint32_t slot = 0; slot < slots; ++slot) here.slots.push_back(make_block());
    run_threads();
    for (auto& block : here.slots) drop_block(*block);
    launch = nullptr;
    current = nullptr;
    return here.fault;
}

void hold(Thread& thread, State state) {
    thread.state = state;
    Thread* last = launch->runnable.back();
    launch->runnable[thread.runnable_at] = last;
    last->runnable_at = thread.runnable_at;
    launch->runnable.pop_back();
    --thread.block->runnable;
    --thread.block->runnable_of_wave[thread.linear / launch->wave_size];
}

void release(Thread& thread) {
    thread.state = State::Runnable;
    thread.runnable_at = launch->runnable.size();
    launch->runnable.push_back(&thread);
    ++thread.block->runnable;
    ++thread.block->runnable_of_wave[thread.linear / launch->wave_size];
}

void switch_away() { current->fiber.switch_to(launch->scheduler); }

void look_for_stuck(Block& block, unsigned wave) {
    if (block.runnable_of_wave[wave] == 0) meet_who_is_there(block, wave);
    if (block.runnable > 0 || block.live == 0) return;
    std::string words = "threads of the block wait for each other in different places:";
    int lines = 0, last_line = -1;
    for (const Thread& thread : block.threads) {
        if (thread.state == State::Ended || thread.line == last_line || ++lines > 4) continue;
        last_line = thread.line;
        words += " thread " + std::to_string(thread.linear) + (thread.state == State::AtBarrier ? " at the barrier" : " at a meeting of its wave") +
                 " of line " + std::to_string(thread.line) + ";";
    }
    if (block.live < block.threads.size()) words += " " + std::to_string(block.threads.size() - block.live) + " threads have ended;";
    words.back() = ' ';
    fault(ERROR_LAUNCH_FAILURE, "divergence: " + words);
}

std::string name_of(uint32_t block, uint32_t thread) {
    const SimtIndex b = unfolded(block, launch->work.grid), t = unfolded(thread, launch->work.block);
    char text[120];
    std::snprintf(text, sizeof(text), "block (%u,%u,%u) thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
    return text;
}

void fault(int error, const std::string& what) {
    launch->fault.error = error;
    launch->fault.words = what + ", in kernel " + launch->work.kernel + ", " + name_of(current->block->linear, current->linear);
    switch_away();
    __builtin_unreachable();
}

}  // namespace emulator
