#include "region.h"

#include <cinttypes>
#include <cstdio>
#include <map>

namespace emulator {

namespace {

std::map<uint64_t, Region*>& regions() {
    static std::map<uint64_t, Region*> all;
    return all;
}

// Kernels go back and forth between few arrays.
const unsigned RECENT = 4;
Region* recent[RECENT] = {};
unsigned next_recent = 0;

std::string formatted(const char* format, uint64_t a, uint64_t b) {
    char text[160];
    std::snprintf(text, sizeof(text), format, a, b);
    return text;
}

std::string in_region(const Region& region, uint64_t address) {
    const uint64_t offset = address - region.start;
    switch (region.kind) {
        case RegionKind::Device: return formatted("byte %" PRIu64 " of an allocation of %" PRIu64, offset, region.bytes);
        case RegionKind::Host: return formatted("byte %" PRIu64 " of %" PRIu64 " locked on the host", offset, region.bytes);
        case RegionKind::Module: return "the program's own data";
        case RegionKind::Shared: break;
    }
    for (const SharedArray& array : region.arrays) {
        if (offset < array.offset || offset >= array.offset + array.bytes) continue;
        return formatted("byte %" PRIu64 " of the %" PRIu64 " of shared `", offset - array.offset, array.bytes) + array.name + "`";
    }
    const SharedArray* before = nullptr;
    for (const SharedArray& array : region.arrays) {
        if (array.offset + array.bytes <= offset && (!before || before->offset < array.offset)) before = &array;
    }
    if (!before) return "shared memory that no declaration names";
    return formatted("%" PRIu64 " bytes behind the %" PRIu64 " of shared `", offset - before->offset - before->bytes, before->bytes) +
           before->name + "`";
}

}  // namespace

void add_region(Region* region) { regions()[region->start] = region; }

void remove_region(Region* region) {
    regions().erase(region->start);
    for (Region*& kept : recent) kept = nullptr;
}

Region* region_at(uint64_t address) {
    for (Region* region : recent) {
        if (region && address - region->start < region->bytes) return region;
    }
    auto after = regions().upper_bound(address);
    if (after == regions().begin()) return nullptr;
    Region* region = (--after)->second;
    if (address - region->start >= region->bytes) return nullptr;
    recent[next_recent++ % RECENT] = region;
    return region;
}

std::string place_of(uint64_t address) {
    if (const Region* region = region_at(address)) return in_region(*region, address);
    // The nearest of what the host gave out, where it is near enough to be what was meant.
    std::string words = "near no allocation";
    uint64_t nearest = 1 << 20;
    for (const auto& [start, region] : regions()) {
        if (region->kind != RegionKind::Device && region->kind != RegionKind::Host) continue;
        const bool is_behind = address >= region->end();
        const uint64_t distance = is_behind ? address - region->end() : start - address;
        if (distance >= nearest) continue;
        nearest = distance;
        words = formatted(is_behind ? "%" PRIu64 " bytes behind an allocation of %" PRIu64
                                    : "%" PRIu64 " bytes before an allocation of %" PRIu64, distance, region->bytes);
    }
    return words;
}

}  // namespace emulator
