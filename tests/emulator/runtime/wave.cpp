// Meetings of lanes: shuffles, votes and barriers of a wave.

#include "launch.h"

using namespace emulator;

namespace emulator {

namespace {

const int ERROR_LAUNCH_FAILURE = 719;

uint64_t bit(unsigned lane) { return uint64_t(1) << lane; }

struct Lanes {
    Thread *first, *last;
};

Lanes lanes_of(Block& block, unsigned wave) {
    const unsigned size = launch->wave_size, start = wave * size;
    const unsigned end = unsigned(block.threads.size()) < start + size ? unsigned(block.threads.size()) : start + size;
    return {&block.threads[start], &block.threads[0] + end};
}

bool waits_at(const Thread& lane, const Thread& like) {
    return lane.state == State::InWave && lane.line == like.line && lane.mask == like.mask;
}

// These lanes have met: each gets what all gave, and goes on.
void meet(Lanes lanes, const Thread& like) {
    auto exchange = std::make_shared<Exchange>();
    auto known = like.orders_memory ? std::make_shared<Knowledge>() : nullptr;
    for (Thread* lane = lanes.first; lane != lanes.last; ++lane) {
        if (!waits_at(*lane, like)) continue;
        exchange->taking_part |= bit(lane->lane);
        if (lane->predicate) exchange->holds |= bit(lane->lane);
        exchange->bits[lane->lane] = lane->bits;
        if (!known) continue;
        if (lane->clock.known) known->join(*lane->clock.known);
        known->learn_thread(launch->global(*lane), lane->clock.close());
    }
    for (Thread* lane = lanes.first; lane != lanes.last; ++lane) {
        if (!(exchange->taking_part & bit(lane->lane))) continue;
        lane->exchange = exchange;
        if (known) lane->clock.known = known;
        release(*lane);
    }
}

// Whether every lane of the mask that exists waits here.
bool is_complete(Lanes lanes, const Thread& like) {
    for (Thread* lane = lanes.first; lane != lanes.last; ++lane) {
        if ((like.mask & bit(lane->lane)) && !waits_at(*lane, like)) return false;
    }
    return true;
}

std::shared_ptr<Exchange> wait_for_lanes(uint64_t mask, int line, uint64_t bits, bool predicate, bool orders_memory) {
    Thread& self = *current;
    if (mask != 0 && !(mask & bit(self.lane))) {
        fault(ERROR_LAUNCH_FAILURE, "divergence: the mask of line " + std::to_string(line) + " does not name its own lane");
    }
    self.mask = mask;
    self.line = line;
    self.bits = bits;
    self.predicate = predicate;
    self.orders_memory = orders_memory;
    Block& block = *self.block;
    const unsigned wave = self.linear / launch->wave_size;
    hold(self, State::InWave);
    const Lanes lanes = lanes_of(block, wave);
    if (mask != 0 && is_complete(lanes, self)) meet(lanes, self);
    look_for_stuck(block, wave);
    switch_away();
    return std::move(self.exchange);
}

}  // namespace

void meet_who_is_there(Block& block, unsigned wave) {
    const Lanes lanes = lanes_of(block, wave);
    for (Thread* lane = lanes.first; lane != lanes.last; ++lane) {
        if (lane->state == State::InWave && lane->mask == 0) meet(lanes, *lane);
    }
}

}  // namespace emulator

#pragma GCC visibility push(default)
extern "C" {

unsigned long long simt_shuffle(unsigned long long mask, int line, unsigned long long bits, int source_lane) {
    const auto exchange = wait_for_lanes(mask, line, bits, false, false);
    if (source_lane == SIMT_FIRST_LANE) source_lane = __builtin_ctzll(exchange->taking_part);
    const unsigned source = unsigned(source_lane) % 64;
    return exchange->taking_part & bit(source) ? exchange->bits[source] : launch->random.next();
}

unsigned long long simt_ballot(unsigned long long mask, int line, int predicate, unsigned long long* taking_part) {
    const auto exchange = wait_for_lanes(mask, line, 0, predicate != 0, false);
    *taking_part = exchange->taking_part;
    return exchange->holds;
}

void simt_wave_barrier(unsigned long long mask, int line) { wait_for_lanes(mask, line, 0, false, true); }
}
#pragma GCC visibility pop
