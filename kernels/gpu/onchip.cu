// What lies on the chip of one multiprocessor: shared memory, its cache, special functions, barriers, shuffles; and atomics.
// One program holds one kernel. Every thread of the first block stores what it has come to; the others' never are, and the
// compiler cannot know that.

#define STEPS 16

#if defined(FLEETCAL_KERNEL_shared_read) || defined(FLEETCAL_KERNEL_l1_read)

#define PACKS 1024

// `reads` packs a thread, READS_AT_ONCE of them under way; neighbouring threads read neighbouring packs, and each goes on by
// `step` packs, an odd number, so that all packs are read as often before one is read once more.
template <int READS_AT_ONCE>
__device__ __forceinline__ u32 sum_of_reads(const Pack<u32, 4>* packs, u64 reads, u32 step) {
    u32 sums[READS_AT_ONCE];
#pragma unroll
    for (int index = 0; index < READS_AT_ONCE; ++index) sums[index] = 0;
    u32 at = threadIdx.x;
    for (u64 read = 0; read < reads; read += STEPS) {
#pragma unroll
        for (int start = 0; start < STEPS; start += READS_AT_ONCE) {
            Pack<u32, 4> loaded[READS_AT_ONCE];
#pragma unroll
            for (int index = 0; index < READS_AT_ONCE; ++index) {
                loaded[index] = packs[at & (PACKS - 1)];
                at += step;
            }
#pragma unroll
            for (int index = 0; index < READS_AT_ONCE; ++index) {
                sums[index] += loaded[index].lane[0] + loaded[index].lane[1];
                sums[index] += loaded[index].lane[2] + loaded[index].lane[3];
            }
        }
    }
    u32 sum = threadIdx.x;
#pragma unroll
    for (int index = 0; index < READS_AT_ONCE; ++index) sum += sums[index];
    return sum;
}

__device__ __forceinline__ void store_sum(u32* output, u32 sum, u64 reads) {
    if (blockIdx.x == 0) {
        output[threadIdx.x] = sum;
    } else if (sum == 0x9e3779b9u && reads == 0) {
        output[0] = sum;
    }
}

#if defined(FLEETCAL_KERNEL_shared_read)
// Word w of the array is w times an odd number, so that no two are alike.
#define READ(COUNT)                                                                                             \
    extern "C" __global__ void __launch_bounds__(1024)                                                          \
        onchip_shared_read_i32_c##COUNT(u32* output, const u32*, u64 reads, u64 step) {                         \
        typedef Pack<u32, 4> Words;                                                                             \
        FLEETCAL_SHARED(Words, packs, PACKS);                                                                   \
        for (u32 pack = threadIdx.x; pack < PACKS; pack += blockDim.x) {                                        \
            for (u32 lane = 0; lane < 4; ++lane) packs[pack].lane[lane] = (4 * pack + lane) * 2654435761u;      \
        }                                                                                                       \
        __syncthreads();                                                                                        \
        store_sum(output, sum_of_reads<COUNT>(packs, reads, u32(step)), reads);                                 \
    }
#else
// Every block reads the same array, which each multiprocessor's cache holds.
#define READ(COUNT)                                                                                             \
    extern "C" __global__ void __launch_bounds__(1024) onchip_l1_read_i32_c##COUNT(                             \
        u32* __restrict__ output, const u32* __restrict__ words, u64 reads, u64 step) {                         \
        const Pack<u32, 4>* packs = reinterpret_cast<const Pack<u32, 4>*>(words);                               \
        store_sum(output, sum_of_reads<COUNT>(packs, reads, u32(step)), reads);                                 \
    }
#endif

READ(1)
READ(4)
READ(8)

#elif defined(FLEETCAL_KERNEL_atomic_global_same) || defined(FLEETCAL_KERNEL_atomic_global_spread)

// Counter w begins so far below w that it is w once every thread has added to it: `reads` times each, threads t, t + counters,
// ... to counter t. A sum that is missing, or one too many, is seen.
extern "C" __global__ void __launch_bounds__(1024)
    onchip_counters(u32* counters, u64 count, u64 threads, u64 additions) {
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += u64(gridDim.x) * blockDim.x) {
        const u64 adding = threads / count + (at < threads % count ? 1 : 0);
        counters[at] = u32(at) - u32(additions * adding);
    }
}

// The summand and the number of counters are not known to the compiler, which could else add for a whole warp at once.
extern "C" __global__ void __launch_bounds__(1024)
    onchip_atomic_global_i32(u32* counters, u64 count, u64 additions, u64 summand) {
    u32* counter = counters + (u64(blockIdx.x) * blockDim.x + threadIdx.x) % count;
#pragma unroll 4
    for (u64 addition = 0; addition < additions; ++addition) atomicAdd(counter, u32(summand));
}

#elif defined(FLEETCAL_KERNEL_atomic_shared_same) || defined(FLEETCAL_KERNEL_atomic_shared_spread)

extern "C" __global__ void __launch_bounds__(1024)
    onchip_atomic_shared_i32(u32* output, u64 count, u64 additions, u64 summand) {
    FLEETCAL_SHARED(u32, counters, 1024);
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) counters[at] = at;
    __syncthreads();
    u32* counter = counters + threadIdx.x % u32(count);
#pragma unroll 4
    for (u64 addition = 0; addition < additions; ++addition) atomicAdd(counter, u32(summand));
    __syncthreads();
    if (blockIdx.x == 0) {
        for (u32 at = threadIdx.x; at < count; at += blockDim.x) output[at] = counters[at];
    }
}

#elif defined(FLEETCAL_KERNEL_barrier)

// Barriers one after the other, counted.
extern "C" __global__ void __launch_bounds__(1024) onchip_barrier_i32(u32* output, u64 barriers) {
    u32 passed = threadIdx.x;
    for (u64 barrier = 0; barrier < barriers; barrier += STEPS) {
#pragma unroll
        for (int count = 0; count < STEPS; ++count) {
            __syncthreads();
            ++passed;
        }
    }
    if (blockIdx.x == 0) output[threadIdx.x] = passed;
}

#elif defined(FLEETCAL_KERNEL_shuffle)

// Each chain travels from lane to lane, of 32, by one at a time, and ends where it has to.
template <int CHAINS>
__device__ __forceinline__ void shuffle(u32* output, u64 shuffles) {
    u32 chain[CHAINS];
    const u32 lane = threadIdx.x % 32, from = (lane + 1) % 32;
#pragma unroll
    for (int index = 0; index < CHAINS; ++index) chain[index] = threadIdx.x * CHAINS + index;
    for (u64 count = 0; count < shuffles; count += STEPS) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int index = 0; index < CHAINS; ++index) chain[index] = from_lane(chain[index], int(from));
        }
    }
    // The mean of all chains, each without the number that it began with.
    u32 sum = 0;
#pragma unroll
    for (int index = 0; index < CHAINS; ++index) sum += chain[index] - index;
    const u32 thread = sum / (CHAINS * CHAINS);
    if (blockIdx.x == 0) {
        output[threadIdx.x] = thread * CHAINS * CHAINS == sum ? thread : ~0u;
    } else if (sum == 0x9e3779b9u && shuffles == 0) {
        output[0] = sum;
    }
}

#define SHUFFLE(CHAINS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024) onchip_shuffle_i32_c##CHAINS(u32* output, u64 shuffles) { \
        shuffle<CHAINS>(output, shuffles);                                                                      \
    }

SHUFFLE(1)
SHUFFLE(4)
SHUFFLE(8)

#else

// Special functions: each step's result is the next one's argument, by a map that draws every start to one number. An error
// of one step shrinks in the next ones, so that the end is known whatever the last bits of the function.
#if defined(FLEETCAL_KERNEL_rsqrt)
#define SPECIAL(CHAINS) onchip_rsqrt_f32_c##CHAINS
__device__ __forceinline__ float step(float value) { return fast_rsqrt(value); }
#elif defined(FLEETCAL_KERNEL_rcp)
#define SPECIAL(CHAINS) onchip_rcp_f32_c##CHAINS
__device__ __forceinline__ float step(float value) { return fast_rcp(1.0f + value); }
#elif defined(FLEETCAL_KERNEL_exp2)
#define SPECIAL(CHAINS) onchip_exp2_f32_c##CHAINS
__device__ __forceinline__ float step(float value) { return fast_exp2(-value); }
#elif defined(FLEETCAL_KERNEL_log2)
#define SPECIAL(CHAINS) onchip_log2_f32_c##CHAINS
__device__ __forceinline__ float step(float value) { return fast_log2(3.0f + value); }
#elif defined(FLEETCAL_KERNEL_sin)
#define SPECIAL(CHAINS) onchip_sin_f32_c##CHAINS
__device__ __forceinline__ float step(float value) { return fast_sin(1.0f + value); }
#else
#error "define FLEETCAL_KERNEL_ and the name of a kernel"
#endif

template <int CHAINS>
__device__ __forceinline__ void special(float* output, u64 steps) {
    float chain[CHAINS];
    // Chains that began alike would be computed once.
#pragma unroll
    for (int index = 0; index < CHAINS; ++index) chain[index] = 1.0f + float(threadIdx.x % 32 * 16 + index) / 1024.0f;
    for (u64 count = 0; count < steps; count += STEPS) {
#pragma unroll
        for (int step_index = 0; step_index < STEPS; ++step_index) {
#pragma unroll
            for (int index = 0; index < CHAINS; ++index) chain[index] = step(chain[index]);
        }
    }
    // The mean of all chains: one left out would be missed.
    float sum = 0;
#pragma unroll
    for (int index = 0; index < CHAINS; ++index) sum += chain[index];
    if (blockIdx.x == 0) {
        output[threadIdx.x] = sum / CHAINS;
    } else if (sum < -1000.0f && steps == 0) {
        output[0] = sum;
    }
}

#define ENTRY(CHAINS)                                                                                       \
    extern "C" __global__ void __launch_bounds__(1024) SPECIAL(CHAINS)(float* output, u64 steps) {          \
        special<CHAINS>(output, steps);                                                                     \
    }

ENTRY(1)
ENTRY(4)
ENTRY(8)

#endif
