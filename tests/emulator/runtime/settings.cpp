#include "settings.h"

#include <cstdlib>

namespace emulator {

namespace {

std::string text(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

uint64_t number(const char* name, uint64_t otherwise) {
    const std::string value = text(name, "");
    return value.empty() ? otherwise : std::strtoull(value.c_str(), nullptr, 0);
}

Settings read() {
    Settings settings;
    settings.seed = number("FLEETCAL_EMULATOR_SEED", 0);
    settings.wave_size = number("FLEETCAL_EMULATOR_WAVE", 64) == 32 ? 32 : 64;
    settings.devices = int(number("FLEETCAL_EMULATOR_DEVICES", 1));
    settings.compute_units = int(number("FLEETCAL_EMULATOR_COMPUTE_UNITS", 4));
    settings.memory_bytes = number("FLEETCAL_EMULATOR_MEMORY_BYTES", uint64_t(4) << 30);
    settings.name = text("FLEETCAL_EMULATOR_NAME", "Emulated HIP device");
    settings.architecture = text("FLEETCAL_EMULATOR_ARCHITECTURE", "gfx000");
    settings.identity = text("FLEETCAL_EMULATOR_UUID", "emulated");
    return settings;
}

}  // namespace

const Settings& settings() {
    static const Settings all = read();
    return all;
}

}  // namespace emulator
