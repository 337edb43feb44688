#include "knowledge.h"

namespace emulator {

void Knowledge::learn_thread(uint32_t thread, uint32_t clock) {
    uint32_t& known = threads[thread];
    if (known < clock) known = clock;
}

void Knowledge::learn_block(uint32_t block, uint32_t interval) {
    uint32_t& known = blocks[block];
    if (known < interval) known = interval;
}

void Knowledge::join(const Knowledge& other) {
    for (const auto& [thread, clock] : other.threads) learn_thread(thread, clock);
    for (const auto& [block, interval] : other.blocks) learn_block(block, interval);
}

Known joined(const Known& a, const Known& b) {
    if (!a || a == b) return b;
    if (!b) return a;
    auto both = std::make_shared<Knowledge>(*a);
    both->join(*b);
    return both;
}

void Ordering::start(uint32_t threads_of_block) {
    block_threads = threads_of_block;
    segments.assign(1, Segment{});
}

uint32_t Ordering::segment_of(uint32_t thread, uint32_t interval, Clock& clock) {
    if (clock.segment == 0) {
        clock.segment = uint32_t(segments.size());
        segments.push_back({thread, interval, clock.clock});
    }
    return clock.segment;
}

bool Ordering::is_before(uint32_t index, uint32_t thread, uint32_t interval, const Clock& clock) const {
    if (index == clock.segment) return true;
    const Segment& segment = segments[index];
    if (segment.thread == thread) return true;
    const uint32_t block = block_of(segment.thread);
    if (block == block_of(thread) && segment.interval < interval) return true;
    if (!clock.known) return false;
    const auto known_thread = clock.known->threads.find(segment.thread);
    if (known_thread != clock.known->threads.end() && known_thread->second >= segment.clock) return true;
    const auto known_block = clock.known->blocks.find(block);
    return known_block != clock.known->blocks.end() && known_block->second > segment.interval;
}

}  // namespace emulator
