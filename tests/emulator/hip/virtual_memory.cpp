// Addresses apart from memory: reserved, mapped and opened in steps, for arrays that end where nothing is mapped.

#include <map>

#include <sys/mman.h>

#include "../runtime/region.h"
#include "hip.h"

using namespace emulator;

namespace {

const size_t GRANULARITY_BYTES = 4096;

struct Memory {
    uint64_t bytes;
    int device;
};

// Mapped addresses; a kernel may touch them once they have been opened.
struct Mapped {
    std::unique_ptr<Region> region;
    bool open = false;
};

std::map<uint64_t, Mapped>& mapped() {
    static std::map<uint64_t, Mapped> all;
    return all;
}

}  // namespace

HIP_API int hipMemGetAllocationGranularity(size_t* bytes, const void*, int) {
    *bytes = GRANULARITY_BYTES;
    return SUCCESS;
}

HIP_API int hipMemAddressReserve(void** to, size_t bytes, size_t, void*, unsigned long long) {
    ENTER;
    void* reserved = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return said(OUT_OF_MEMORY);
    *to = reserved;
    return SUCCESS;
}

HIP_API int hipMemAddressFree(void* address, size_t bytes) {
    ENTER;
    return said(munmap(address, bytes) == 0 ? SUCCESS : INVALID_VALUE);
}

HIP_API int hipMemCreate(Memory** handle, size_t bytes, const void*, unsigned long long) {
    ENTER;
    if (bytes == 0 || bytes % GRANULARITY_BYTES != 0) return said(INVALID_VALUE);
    if (!take_memory(current_device(), bytes)) return said(OUT_OF_MEMORY);
    *handle = new Memory{bytes, current_device()};
    return SUCCESS;
}

HIP_API int hipMemRelease(Memory* handle) {
    ENTER;
    give_memory(handle->device, handle->bytes);
    delete handle;
    return SUCCESS;
}

HIP_API int hipMemMap(void* address, size_t bytes, size_t offset, Memory* handle, unsigned long long) {
    ENTER;
    if (offset + bytes > handle->bytes || bytes % GRANULARITY_BYTES != 0) return said(INVALID_VALUE);
    const uint64_t start = reinterpret_cast<uint64_t>(address);
    mapped()[start].region = std::make_unique<Region>(RegionKind::Device, start, bytes);
    return SUCCESS;
}

HIP_API int hipMemSetAccess(void* address, size_t bytes, const void*, size_t) {
    ENTER;
    const auto found = mapped().find(reinterpret_cast<uint64_t>(address));
    if (found == mapped().end() || found->second.region->bytes != bytes || found->second.open) return said(INVALID_VALUE);
    if (mprotect(address, bytes, PROT_READ | PROT_WRITE) != 0) return said(OUT_OF_MEMORY);
    found->second.open = true;
    add_region(found->second.region.get());
    return SUCCESS;
}

HIP_API int hipMemUnmap(void* address, size_t bytes) {
    ENTER;
    const auto found = mapped().find(reinterpret_cast<uint64_t>(address));
    if (found == mapped().end() || found->second.region->bytes != bytes) return said(INVALID_VALUE);
    if (found->second.open) remove_region(found->second.region.get());
    mapped().erase(found);
    // Its pages go, its addresses stay reserved.
    void* again = mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return said(again == address ? SUCCESS : INVALID_VALUE);
}
