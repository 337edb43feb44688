// Which devices there are, and what they say of themselves.

#include <cstdio>
#include <cstring>
#include <vector>

#include "../runtime/settings.h"
#include "hip.h"

using namespace emulator;

namespace {

thread_local int selected = 0;

std::vector<uint64_t>& used_bytes() {
    static std::vector<uint64_t> all(size_t(settings().devices > 0 ? settings().devices : 0));
    return all;
}

// As on AMD's, 16 hexadecimal digits; the same in every process of one identity.
void uuid_of(int device, char* to) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const char letter : settings().identity + '/' + std::to_string(device)) {
        hash = (hash ^ uint8_t(letter)) * 0x100000001b3ull;
    }
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)hash);
    std::memcpy(to, digits, 16);
}

const int SHARED_BLOCK_BYTES = 64 << 10;
const int L2_BYTES = 4 << 20;
const int CLOCK_KHZ = 1000000;

// hipDeviceAttribute_t from ROCm 5 on; -1 for what is not answered.
int64_t attribute(int which, int device) {
    const int units = settings().compute_units;
    switch (which) {
        case 0: return 0;                      // EccEnabled
        case 3: return 1;                      // CanMapHostMemory
        case 5: return CLOCK_KHZ;              // ClockRate
        case 6: return 0;                      // ComputeMode
        case 8: return 0;                      // ConcurrentKernels
        case 10: return 0;                     // CooperativeLaunch
        case 16: return 0;                     // Integrated
        case 17: return 0;                     // IsMultiGpuBoard
        case 18: return 0;                     // KernelExecTimeout
        case 19: return L2_BYTES;              // L2CacheSize
        case 23: return 0;                     // ComputeCapabilityMajor
        case 24: return 0;                     // ManagedMemory
        case 26: case 27: case 28: return 1024;                 // MaxBlockDimX, Y, Z
        case 29: return 0x7fffffff;            // MaxGridDimX
        case 30: case 31: return 65535;        // MaxGridDimY, Z
        case 56: return 1024;                  // MaxThreadsPerBlock
        case 57: return 2048;                  // MaxThreadsPerMultiProcessor
        case 59: return 256;                   // MemoryBusWidth
        case 60: return CLOCK_KHZ;             // MemoryClockRate
        case 61: return 0;                     // ComputeCapabilityMinor
        case 63: return units;                 // MultiprocessorCount
        case 67: return device + 1;            // PciBusId
        case 68: return 0;                     // PciDeviceId
        case 69: return 0;                     // PciDomainID
        case 71: case 72: return 65536;        // MaxRegistersPerBlock, PerMultiprocessor
        case 74: case 75: case 76: return SHARED_BLOCK_BYTES;   // MaxSharedMemoryPerBlock, optin, per multiprocessor
        case 83: return 1 << 16;               // TotalConstantMemory
        case 87: return settings().wave_size;  // WarpSize
        case 88: return 0;                     // MemoryPoolsSupported
        case 89: return 1;                     // VirtualMemoryManagementSupported
        case 10000: return CLOCK_KHZ / 16;     // ClockInstructionRate
        case 10002: return SHARED_BLOCK_BYTES; // MaxSharedMemoryPerMultiprocessor
        case 10015: return units;              // PhysicalMultiProcessorCount
        default: return -1;
    }
}

}  // namespace

namespace emulator {

int current_device() { return selected; }
bool is_device(int device) { return device >= 0 && device < settings().devices; }

bool take_memory(int device, uint64_t bytes) {
    uint64_t& used = used_bytes()[size_t(device)];
    if (bytes > settings().memory_bytes - used) return false;
    used += bytes;
    return true;
}

void give_memory(int device, uint64_t bytes) { used_bytes()[size_t(device)] -= bytes; }

}  // namespace emulator

// That rows say `emulated`: whoever loads the library as libamdhip64 looks for this.
HIP_API int fleetcal_emulator_version() { return 1; }

HIP_API int hipInit(unsigned) { return SUCCESS; }

HIP_API int hipDriverGetVersion(int* version) {
    *version = 50422804;
    return SUCCESS;
}

HIP_API int hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }

HIP_API int hipGetDeviceCount(int* count) {
    *count = settings().devices;
    return said(*count > 0 ? SUCCESS : NO_DEVICE);
}

HIP_API int hipSetDevice(int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    selected = device;
    return SUCCESS;
}

HIP_API int hipGetDevice(int* device) {
    *device = selected;
    return SUCCESS;
}

HIP_API int hipDeviceGet(int* device, int ordinal) {
    if (!is_device(ordinal)) return said(INVALID_DEVICE);
    *device = ordinal;
    return SUCCESS;
}

HIP_API int hipDeviceGetName(char* name, int bytes, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    std::snprintf(name, size_t(bytes), "%s", settings().name.c_str());
    return SUCCESS;
}

HIP_API int hipDeviceGetUuid(char* uuid, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    uuid_of(device, uuid);
    return SUCCESS;
}

HIP_API int hipDeviceGetPCIBusId(char* text, int bytes, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    std::snprintf(text, size_t(bytes), "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

HIP_API int hipDeviceTotalMem(size_t* bytes, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    *bytes = settings().memory_bytes;
    return SUCCESS;
}

HIP_API int hipMemGetInfo(size_t* free, size_t* total) {
    ENTER;
    *total = settings().memory_bytes;
    *free = *total - used_bytes()[size_t(selected)];
    return SUCCESS;
}

HIP_API int hipDeviceGetAttribute(int* value, int which, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    const int64_t known = attribute(which, device);
    if (known < 0) return said(INVALID_VALUE);
    *value = int(known);
    return SUCCESS;
}

// The name of the architecture is in no attribute. The rest of the structures is zero.
static int properties(char* to, size_t bytes, size_t architecture_at, int device) {
    if (!is_device(device)) return said(INVALID_DEVICE);
    std::memset(to, 0, bytes);
    std::snprintf(to, 256, "%s", settings().name.c_str());
    std::snprintf(to + architecture_at, 256, "%s", settings().architecture.c_str());
    return SUCCESS;
}

HIP_API int hipGetDevicePropertiesR0600(char* to, int device) { return properties(to, 1472, 1160, device); }
HIP_API int hipGetDevicePropertiesR0000(char* to, int device) { return properties(to, 792, 396, device); }
HIP_API int hipGetDeviceProperties(char* to, int device) { return hipGetDevicePropertiesR0000(to, device); }

HIP_API int hipDeviceCanAccessPeer(int* can, int device, int peer) {
    if (!is_device(device) || !is_device(peer)) return said(INVALID_DEVICE);
    *can = device != peer;
    return SUCCESS;
}

HIP_API int hipDeviceEnablePeerAccess(int peer, unsigned) { return is_device(peer) ? SUCCESS : said(INVALID_DEVICE); }
HIP_API int hipDeviceDisablePeerAccess(int peer) { return is_device(peer) ? SUCCESS : said(INVALID_DEVICE); }

HIP_API int hipDeviceSynchronize() {
    ENTER;
    return SUCCESS;
}
