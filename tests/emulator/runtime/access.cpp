#include "access.h"

#include <cinttypes>
#include <cstdio>

#include "launch.h"

namespace emulator {

namespace {

const int ERROR_ILLEGAL_ADDRESS = 700;
const int ERROR_LAUNCH_FAILURE = 719;

bool is_write(Access access) { return access == Access::Write || access == Access::AtomicWrite; }
bool is_atomic(Access access) { return access == Access::AtomicRead || access == Access::AtomicWrite; }

std::string described(Access access, uint64_t address, uint64_t bytes) {
    char text[120];
    std::snprintf(text, sizeof(text), "%s%s of %" PRIu64 " bytes at 0x%" PRIx64, is_atomic(access) ? "atomic " : "",
                  is_write(access) ? "write" : "read", bytes, address);
    return text + std::string(", ") + place_of(address);
}

[[noreturn]] void stray(uint64_t address, uint64_t bytes, Access access, const char* why) {
    fault(ERROR_ILLEGAL_ADDRESS, why + described(access, address, bytes));
}

[[noreturn]] void race(uint64_t address, uint64_t bytes, Access access, uint32_t other, const char* what) {
    const Segment& segment = launch->ordering.segment(other);
    const uint32_t block = launch->ordering.block_of(segment.thread);
    fault(ERROR_LAUNCH_FAILURE, "race: " + described(access, address, bytes) + ", while nothing orders it behind the " + what + " of " +
                                    name_of(block, segment.thread % launch->block_threads));
}

// Whether the bytes lie inside what the region gives out to this thread.
void check_place(const Region& region, uint64_t address, uint64_t bytes, Access access) {
    if (address + bytes > region.end()) stray(address, bytes, access, "out of bounds: ");
    if (is_write(access) && !region.writable) stray(address, bytes, access, "constant data: ");
    if (region.kind != RegionKind::Shared) return;
    if (region.owner != current->block) stray(address, bytes, access, "another block's: ");
    const uint64_t offset = address - region.start;
    for (const SharedArray& array : region.arrays) {
        if (offset >= array.offset && offset + bytes <= array.offset + array.bytes) return;
    }
    stray(address, bytes, access, "out of bounds: ");
}

void check_order(Region& region, uint64_t address, uint64_t bytes, Access access) {
    const uint32_t thread = launch->global(*current), interval = current->block->interval;
    Clock& clock = current->clock;
    const uint32_t own = launch->ordering.segment_of(thread, interval, clock);
    const bool writes = is_write(access), atomic = is_atomic(access);
    const auto concurrent = [&](uint32_t other) {
        return other != 0 && other != own && !launch->ordering.is_before(other, thread, interval, clock);
    };
    const auto look = [&](Cell& cell) {
        if (!(atomic && cell.write_is_atomic) && concurrent(cell.write)) {
            race(address, bytes, access, cell.write, cell.write_is_atomic ? "atomic write" : "write");
        }
        if (!writes) {
            if (cell.reads[0] == own) return void(cell.read_is_atomic[0] &= atomic);
            if (cell.reads[0] == 0 || launch->ordering.segment(cell.reads[0]).thread != thread) {
                cell.reads[1] = cell.reads[0];
                cell.read_is_atomic[1] = cell.read_is_atomic[0];
            }
            cell.reads[0] = own;
            cell.read_is_atomic[0] = atomic;
            return;
        }
        for (int reader = 0; reader < 2; ++reader) {
            if (!(atomic && cell.read_is_atomic[reader]) && concurrent(cell.reads[reader])) {
                race(address, bytes, access, cell.reads[reader], "read");
            }
            cell.reads[reader] = 0;
        }
        cell.write = own;
        cell.write_is_atomic = atomic;
    };
    const uint64_t generation = region.kind == RegionKind::Shared ? region.generation : launch->generation;
    region.shadow.for_each(address - region.start + region.start % Shadow::PAGE_BYTES, bytes, generation, look);
}

}  // namespace

void check(uint64_t address, uint64_t bytes, Access access) {
    // What is on its own stack is the thread's alone.
    if (address - reinterpret_cast<uint64_t>(current->stack) < STACK_BYTES || bytes == 0) return;
    Region* region = region_at(address);
    if (!region) stray(address, bytes, access, "out of bounds: ");
    check_place(*region, address, bytes, access);
    if (region->writable) check_order(*region, address, bytes, access);
}

void preempt() {
    if (--launch->left == 0) switch_away();
}

}  // namespace emulator
