// The one source of chance: SplitMix64, so that a seed gives the same run everywhere.

#pragma once

#include <cstdint>

namespace emulator {

class Random {
public:
    explicit Random(uint64_t seed) : state(seed) {}

    uint64_t next() {
        uint64_t bits = state += 0x9e3779b97f4a7c15ull;
        bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
        bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
        return bits ^ (bits >> 31);
    }

    // Below a bound that is far smaller than 2^32.
    uint32_t below(uint32_t bound) { return uint32_t((next() >> 32) * bound >> 32); }

private:
    uint64_t state;
};

}  // namespace emulator
