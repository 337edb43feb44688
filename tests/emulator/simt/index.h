// Where a thread stands, barriers and clocks; vectors of CUDA and HIP.

#pragma once

#define threadIdx (simt_thread_index())
#define blockIdx (simt_block_index())
#define blockDim (simt_block_dimensions())
#define gridDim (simt_grid_dimensions())
#define warpSize (int(simt_wave_size()))

typedef SimtIndex dim3;

#define SIMT_VECTORS(NAME, ELEMENT)                                                     \
    struct alignas(2 * sizeof(ELEMENT)) NAME##2 { ELEMENT x, y; };                      \
    struct NAME##3 { ELEMENT x, y, z; };                                                \
    struct alignas(4 * sizeof(ELEMENT)) NAME##4 { ELEMENT x, y, z, w; };                \
    inline NAME##2 make_##NAME##2(ELEMENT x, ELEMENT y) { return {x, y}; }              \
    inline NAME##4 make_##NAME##4(ELEMENT x, ELEMENT y, ELEMENT z, ELEMENT w) { return {x, y, z, w}; }

SIMT_VECTORS(char, signed char)
SIMT_VECTORS(uchar, unsigned char)
SIMT_VECTORS(short, short)
SIMT_VECTORS(ushort, unsigned short)
SIMT_VECTORS(int, int)
SIMT_VECTORS(uint, unsigned)
SIMT_VECTORS(longlong, long long)
SIMT_VECTORS(ulonglong, unsigned long long)
SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)
#undef SIMT_VECTORS

// A barrier is known by its line: threads of a block that wait at two of them have diverged.
#define __syncthreads() ((void)simt_barrier(__LINE__, 0))
#define __syncthreads_count(PREDICATE) (int(simt_barrier(__LINE__, (PREDICATE) != 0)))
#define __syncthreads_or(PREDICATE) (int(simt_barrier(__LINE__, (PREDICATE) != 0) != 0))
#define __syncthreads_and(PREDICATE) (int(simt_barrier(__LINE__, (PREDICATE) == 0) == 0))

inline void __threadfence() { simt_fence(); }
inline void __threadfence_block() { simt_fence(); }
inline void __threadfence_system() { simt_fence(); }

// Cycles are counted by calls: every look is a thousand later than the last, so that waiting for them ends.
inline long long clock64() { return simt_clock(); }
inline long long clock() { return simt_clock(); }
inline long long wall_clock64() { return simt_clock() / 16; }
inline void __nanosleep(unsigned) { simt_yield(); }
