// Stands in for gpu/compat.h when the device sources run on the host: same names, and every access through Cached and
// Streaming is counted by array, direction and element.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(THREADS)
#define FLEETCAL_SHARED(TYPE, NAME, COUNT) static TYPE NAME[COUNT]

struct Index { unsigned x; };
static Index blockIdx, threadIdx, blockDim, gridDim;
static long long clock64() { static long long cycles = 0; return ++cycles; }
#define FLEETCAL_CLOCK_BITS ~0ull

struct Array {
    const char* name;
    std::vector<char> bytes;
    std::vector<u32> reads, writes;
};
static Array arrays[3];
static size_t element_bytes;

// Finds the array of an access and counts its elements; ends the program on an access outside all arrays.
static void count(const void* at, size_t bytes, std::vector<u32> Array::*counts) {
    for (Array& array : arrays) {
        const char* start = array.bytes.data();
        const char* from = static_cast<const char*>(at);
        if (from < start || from + bytes > start + array.bytes.size()) continue;
        if (size_t(from - start) % bytes != 0) { std::printf("misaligned access of %zu bytes\n", bytes); std::exit(1); }
        for (size_t offset = 0; offset < bytes; offset += element_bytes) {
            ++(array.*counts)[(from - start + offset) / element_bytes];
        }
        return;
    }
    std::printf("access outside the arrays\n");
    std::exit(1);
}

template <typename Element, int LANES>
struct Pack { Element lane[LANES]; };

struct Cached {
    template <typename Value>
    static Value load(const Value* from) { count(from, sizeof(Value), &Array::reads); return *from; }

    template <typename Value>
    static void store(Value* to, const Value& value) { count(to, sizeof(Value), &Array::writes); *to = value; }
};

struct Streaming : Cached {};

// Runs a kernel thread by thread.
template <typename... Arguments>
static void launch(u64 blocks, u64 threads, void (*entry)(Arguments...), Arguments... arguments) {
    gridDim.x = unsigned(blocks);
    blockDim.x = unsigned(threads);
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) entry(arguments...);
    }
}
