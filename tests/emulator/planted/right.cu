// Right kernels that use what the measured ones use: shuffles, votes, atomics, tickets and look-back.

__device__ __forceinline__ u32 wave_sum(u32 value) {
    for (int delta = warpSize / 2; delta > 0; delta /= 2) value += __shfl_down(value, delta);
    return value;
}

// The sum of an array: shuffles within waves, shared memory between them, and the last block adds the blocks up.
extern "C" __global__ void __launch_bounds__(256) sum(u32* result, u32* partial, u32* ticket, const u32* from, u64 elements) {
    FLEETCAL_SHARED(u32, of_wave, 32);
    FLEETCAL_SHARED(u32, is_last, 1);
    u32 value = 0;
    for (u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x; index < elements; index += u64(gridDim.x) * blockDim.x) {
        value += from[index];
    }
    const u32 lane = threadIdx.x % warpSize, wave = threadIdx.x / warpSize;
    value = wave_sum(value);
    if (lane == 0) of_wave[wave] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 total = 0;
        for (u32 index = 0; index < blockDim.x / warpSize; ++index) total += of_wave[index];
        partial[blockIdx.x] = total;
        __threadfence();
        is_last[0] = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last[0] && threadIdx.x == 0) {
        __threadfence();
        u32 total = 0;
        for (u32 block = 0; block < gridDim.x; ++block) total += partial[block];
        *result = total;
    }
}

// Inclusive scan of one element a thread by decoupled look-back (Merrill and Garland, 2016): a block publishes its own sum,
// then looks back over its predecessors' until one has published all that came before. State: flag << 32 | value.
extern "C" __global__ void __launch_bounds__(256) scan(u32* to, const u32* from, u64* state, u32* ticket) {
    FLEETCAL_SHARED(u32, block, 1);
    FLEETCAL_SHARED(u32, before, 1);
    FLEETCAL_SHARED(u32, sums, 256);
    if (threadIdx.x == 0) block[0] = atomicAdd(ticket, 1u);
    __syncthreads();
    const u32 own = block[0], at = threadIdx.x;
    sums[at] = from[own * blockDim.x + at];
    __syncthreads();
    for (u32 reach = 1; reach < blockDim.x; reach *= 2) {
        const u32 more = at >= reach ? sums[at - reach] : 0;
        __syncthreads();
        sums[at] += more;
        __syncthreads();
    }
    if (at == 0) {
        volatile u64* states = state;
        const u32 total = sums[blockDim.x - 1];
        u32 sum = 0;
        if (own > 0) {
            states[own] = 1ull << 32 | total;
            for (u32 other = own - 1;; ) {
                const u64 found = states[other];
                if (found >> 32 == 0) continue;
                sum += u32(found);
                if (found >> 32 == 2) break;
                --other;
            }
        }
        states[own] = 2ull << 32 | (sum + total);
        before[0] = sum;
    }
    __syncthreads();
    to[own * blockDim.x + at] = before[0] + sums[at];
}

// What does not commute shows the order: each wave writes which of its lanes hold an odd element.
extern "C" __global__ void votes(u64* to, const u32* from) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    const u64 odd = __ballot(from[at] & 1);
    const u32 first = __shfl(from[at], 0);
    const bool any = __any(from[at] > 1000000000), all = __all(from[at] < 2000000000);
    if (threadIdx.x % warpSize == 0) to[at / warpSize] = odd ^ (u64(first) << 1) ^ u64(any) ^ (u64(all) << 63);
}

// A histogram by atomics on shared memory, then on global memory.
extern "C" __global__ void histogram(u32* bins, const u32* from) {
    FLEETCAL_SHARED(u32, mine, 64);
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&mine[from[blockIdx.x * blockDim.x + threadIdx.x] % 64], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

// Bytes of neighbours lie in one word, and are no race.
extern "C" __global__ void bytes(u8* to) { to[blockIdx.x * blockDim.x + threadIdx.x] = u8(threadIdx.x); }

// Tables of the program, and rows of two dimensions in shared memory.
__constant__ u32 FACTORS[4] = {1, 2, 4, 8};
extern "C" __global__ void transpose(u32* to, const u32* from) {
    typedef u32 Row[17];
    FLEETCAL_SHARED(Row, tile, 16);
    const u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    tile[y][x] = from[blockIdx.x * 256 + threadIdx.x] * FACTORS[x % 4];
    __syncthreads();
    to[blockIdx.x * 256 + threadIdx.x] = tile[x][y];
}

// Who came when: the one kernel here whose result is the order.
extern "C" __global__ void order(u32* to, u32* ticket) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(ticket, 1u);
}
