// Allocations, copies and fills.

#include <algorithm>
#include <cstring>
#include <map>

#include <sys/mman.h>

#include "../runtime/random.h"
#include "../runtime/region.h"
#include "hip.h"

using namespace emulator;

namespace {

// On either side of an allocation, never accessible: what the checks of kernels' accesses cannot see, the page fault does.
const uint64_t RED_ZONE_BYTES = 1 << 16;
// What larger allocations hold at first is zero: filling them would make them real.
const uint64_t SPOILED_BYTES = 16 << 20;
const uint64_t PAGE_BYTES = 4096;

struct Allocation {
    Region region;
    void* mapping;
    uint64_t mapping_bytes;

    Allocation(RegionKind kind, uint64_t start, uint64_t bytes, void* mapping_, uint64_t mapping_bytes_)
        : region(kind, start, bytes), mapping(mapping_), mapping_bytes(mapping_bytes_) {}
};

std::map<uint64_t, std::unique_ptr<Allocation>>& allocations() {
    static std::map<uint64_t, std::unique_ptr<Allocation>> all;
    return all;
}

int allocate(void** to, uint64_t bytes, RegionKind kind) {
    *to = nullptr;
    if (bytes == 0) return SUCCESS;
    const int device = current_device();
    if (bytes > uint64_t(1) << 46 || (kind == RegionKind::Device && !take_memory(device, bytes))) return said(OUT_OF_MEMORY);
    const uint64_t used = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES, whole = used + 2 * RED_ZONE_BYTES;
    void* mapping = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* start = static_cast<char*>(mapping) + RED_ZONE_BYTES;
    if (mapping == MAP_FAILED || mprotect(start, used, PROT_READ | PROT_WRITE) != 0) {
        if (mapping != MAP_FAILED) munmap(mapping, whole);
        if (kind == RegionKind::Device) give_memory(device, bytes);
        return said(OUT_OF_MEMORY);
    }
    static Random garbage(1);
    if (kind == RegionKind::Device && bytes <= SPOILED_BYTES) std::memset(start, int(0x80 | garbage.below(0x80)), bytes);
    auto made = std::make_unique<Allocation>(kind, reinterpret_cast<uint64_t>(start), bytes, mapping, whole);
    made->region.device = device;
    add_region(&made->region);
    allocations()[made->region.start] = std::move(made);
    *to = start;
    return SUCCESS;
}

void drop(Allocation& allocation) {
    remove_region(&allocation.region);
    if (allocation.region.kind == RegionKind::Device) give_memory(allocation.region.device, allocation.region.bytes);
    munmap(allocation.mapping, allocation.mapping_bytes);
}

int release(void* address, RegionKind kind) {
    if (!address) return SUCCESS;
    const auto found = allocations().find(reinterpret_cast<uint64_t>(address));
    if (found == allocations().end() || found->second->region.kind != kind) return said(INVALID_VALUE);
    drop(*found->second);
    allocations().erase(found);
    return SUCCESS;
}

bool is_reachable(const void* address, size_t bytes) {
    const uint64_t start = reinterpret_cast<uint64_t>(address);
    const Region* region = region_at(start);
    return bytes == 0 || (region && start + bytes <= region->end());
}

// hipMemcpyKind.
enum Kind : int { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

int copy(void* to, const void* from, size_t bytes, int kind, Stream* stream) {
    if (kind < HOST_TO_HOST || kind > BY_ADDRESS) return said(INVALID_VALUE);
    const bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
    const bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
    if ((to_device && !is_reachable(to, bytes)) || (from_device && !is_reachable(from, bytes))) return said(INVALID_VALUE);
    return enqueue(stream, [=] {
        std::memmove(to, from, bytes);
        return int(SUCCESS);
    });
}

template <typename Word>
int fill(void* to, Word value, size_t count, Stream* stream) {
    if (!is_reachable(to, count * sizeof(Word))) return said(INVALID_VALUE);
    return enqueue(stream, [=] {
        std::fill_n(static_cast<Word*>(to), count, value);
        return int(SUCCESS);
    });
}

}  // namespace

namespace emulator {

void forget_allocations() {
    for (auto& [start, allocation] : allocations()) drop(*allocation);
    allocations().clear();
}

}  // namespace emulator

HIP_API int hipMalloc(void** to, size_t bytes) { ENTER; return allocate(to, bytes, RegionKind::Device); }
HIP_API int hipFree(void* address) { ENTER; return release(address, RegionKind::Device); }
HIP_API int hipHostMalloc(void** to, size_t bytes, unsigned) { ENTER; return allocate(to, bytes, RegionKind::Host); }
HIP_API int hipHostFree(void* address) { ENTER; return release(address, RegionKind::Host); }
HIP_API int hipHostGetDevicePointer(void** to, void* address, unsigned) { *to = address; return SUCCESS; }

HIP_API int hipMemcpy(void* to, const void* from, size_t bytes, int kind) { ENTER; return copy(to, from, bytes, kind, nullptr); }
HIP_API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, Stream* stream) { ENTER; return copy(to, from, bytes, kind, stream); }
HIP_API int hipMemcpyWithStream(void* to, const void* from, size_t bytes, int kind, Stream* stream) { ENTER; return copy(to, from, bytes, kind, stream); }
HIP_API int hipMemcpyHtoD(void* to, void* from, size_t bytes) { ENTER; return copy(to, from, bytes, HOST_TO_DEVICE, nullptr); }
HIP_API int hipMemcpyHtoDAsync(void* to, void* from, size_t bytes, Stream* stream) { ENTER; return copy(to, from, bytes, HOST_TO_DEVICE, stream); }
HIP_API int hipMemcpyDtoH(void* to, void* from, size_t bytes) { ENTER; return copy(to, from, bytes, DEVICE_TO_HOST, nullptr); }
HIP_API int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, Stream* stream) { ENTER; return copy(to, from, bytes, DEVICE_TO_HOST, stream); }
HIP_API int hipMemcpyDtoD(void* to, void* from, size_t bytes) { ENTER; return copy(to, from, bytes, DEVICE_TO_DEVICE, nullptr); }
HIP_API int hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, Stream* stream) { ENTER; return copy(to, from, bytes, DEVICE_TO_DEVICE, stream); }
HIP_API int hipMemcpyPeer(void* to, int, const void* from, int, size_t bytes) { ENTER; return copy(to, from, bytes, DEVICE_TO_DEVICE, nullptr); }
HIP_API int hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, Stream* stream) { ENTER; return copy(to, from, bytes, DEVICE_TO_DEVICE, stream); }

HIP_API int hipMemset(void* to, int value, size_t bytes) { ENTER; return fill<uint8_t>(to, uint8_t(value), bytes, nullptr); }
HIP_API int hipMemsetAsync(void* to, int value, size_t bytes, Stream* stream) { ENTER; return fill<uint8_t>(to, uint8_t(value), bytes, stream); }
HIP_API int hipMemsetD8(void* to, uint8_t value, size_t count) { ENTER; return fill(to, value, count, nullptr); }
HIP_API int hipMemsetD8Async(void* to, uint8_t value, size_t count, Stream* stream) { ENTER; return fill(to, value, count, stream); }
HIP_API int hipMemsetD16(void* to, uint16_t value, size_t count) { ENTER; return fill(to, value, count, nullptr); }
HIP_API int hipMemsetD16Async(void* to, uint16_t value, size_t count, Stream* stream) { ENTER; return fill(to, value, count, stream); }
HIP_API int hipMemsetD32(void* to, int value, size_t count) { ENTER; return fill(to, value, count, nullptr); }
HIP_API int hipMemsetD32Async(void* to, int value, size_t count, Stream* stream) { ENTER; return fill(to, value, count, stream); }
