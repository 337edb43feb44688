// What the environment says of the emulated devices. README.md lists the variables.

#pragma once

#include <cstdint>
#include <string>

namespace emulator {

struct Settings {
    uint64_t seed;
    unsigned wave_size;
    int devices;
    int compute_units;
    uint64_t memory_bytes;
    std::string name;
    std::string architecture;
    // Makes the UUIDs of this process's devices differ from those of another agent's.
    std::string identity;
};

// Read once.
const Settings& settings();

}  // namespace emulator
