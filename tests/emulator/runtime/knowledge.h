// What happens before what, as in FastTrack (Flanagan and Freund, 2009), with the clocks of a grid: a block has intervals
// between its barriers, a thread has a clock that moves when it hands its work on in another way.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace emulator {

// A stretch of one thread's work, in which nothing that orders memory happens.
struct Segment {
    uint32_t thread;  // of the grid
    uint32_t interval;
    uint32_t clock;
};

// Work of others that happened before, learned otherwise than by barriers of the block. Never changed once shared.
struct Knowledge {
    // Of a thread, all up to and with this clock; of a block, all intervals before this.
    std::unordered_map<uint32_t, uint32_t> threads, blocks;

    void join(const Knowledge& other);
    void learn_thread(uint32_t thread, uint32_t clock);
    void learn_block(uint32_t block, uint32_t interval);
};

typedef std::shared_ptr<const Knowledge> Known;

// Both; one of them itself where the other is nothing.
Known joined(const Known& a, const Known& b);

// Where a thread stands.
struct Clock {
    uint32_t clock = 1;
    // The segment under way, an index into Ordering::segments; 0 before its first access.
    uint32_t segment = 0;
    // Its clock at its last fence; 0 before the first.
    uint32_t fenced = 0;
    Known known;
    // Read by relaxed atomics: known from the next fence on.
    Known pending;

    // The segment ends; what follows has a later clock.
    uint32_t close() {
        segment = 0;
        return clock++;
    }
};

// Segments of a launch.
class Ordering {
public:
    void start(uint32_t threads_of_block);
    // The segment under way of a thread.
    uint32_t segment_of(uint32_t thread, uint32_t interval, Clock& clock);
    const Segment& segment(uint32_t index) const { return segments[index]; }
    // Whether a segment happened before what a thread does now.
    bool is_before(uint32_t index, uint32_t thread, uint32_t interval, const Clock& clock) const;
    uint32_t block_of(uint32_t thread) const { return thread / block_threads; }

private:
    std::vector<Segment> segments;
    uint32_t block_threads = 1;
};

}  // namespace emulator
