// What each level of the caches gives.

#if defined(FLEETCAL_KERNEL_read)

// Reading one array again and again, all threads together: bandwidth.

// Makes the check's sum zero, before the threads add to it.
extern "C" __global__ void cache_clear(u32* sum) {
    if (blockIdx.x == 0 && threadIdx.x == 0) sum[0] = 0;
}

// First every pack once, into the sum that is checked; then `reads` times four more for each thread, that go on round the
// array where the threads before left off. `step` is what is left of the number of threads after whole arrays, in packs.
extern "C" __global__ void __launch_bounds__(1024)
    cache_read_f32(u32* sum, const Pack<u32, 4>* __restrict__ array, u64 packs, u64 reads, u64 step) {
    FLEETCAL_SHARED(u32, shared, 1024);
    const u64 threads = u64(gridDim.x) * blockDim.x;
    const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    u32 checked = 0;
    for (u64 at = thread; at < packs; at += threads) {
        const Pack<u32, 4> pack = PastFirstLevel::load(array + at);
        checked += pack.lane[0] + pack.lane[1] + pack.lane[2] + pack.lane[3];
    }
    u32 rest = 0;
    u64 at = thread % packs;
    for (u64 read = 0; read < reads; ++read) {
        Pack<u32, 4> loaded[4];
#pragma unroll
        for (int index = 0; index < 4; ++index) {
            loaded[index] = PastFirstLevel::load(array + at);
            at += step;
            at = at < packs ? at : at - packs;
        }
#pragma unroll
        for (int index = 0; index < 4; ++index) {
            rest += loaded[index].lane[0] ^ loaded[index].lane[1] ^ loaded[index].lane[2] ^ loaded[index].lane[3];
        }
    }
    shared[threadIdx.x] = checked;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, shared[0]);
    // Never: but the compiler has to read for it.
    if (rest == 0x9e3779b9u && packs == 0) sum[0] = rest;
}

#elif defined(FLEETCAL_KERNEL_chase)

// What so many loads lead to. With IN_ONE_PART, no place of the array differs in the upper half of its address, and one sum of
// 32 bits is all that stands between two loads.
template <bool IN_ONE_PART>
__device__ __forceinline__ u32 chase(u64 start, u32 at, u64 loads) {
    const u32 low = u32(start);
    const u64 high = start - low;
    for (u64 load = 0; load < loads; load += 16) {
#pragma unroll
        for (int count = 0; count < 16; ++count) {
            at = word_at(IN_ONE_PART ? high | u32(low + at) : start + at);
        }
    }
    return at;
}

// One thread on a chain: latency. It begins at the slot that the last launch came to, wherever that was at first, and works
// out where so many loads have to lead; if they did, it writes their number.
extern "C" __global__ void __launch_bounds__(32) cache_chase_i32(u32* __restrict__ output, const u32* __restrict__ array,
                                                                  u32* __restrict__ slot, u64 loads, u64 slots, u64 bits) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const u64 start = reinterpret_cast<u64>(array), first = slot[0] % slots;
    const bool in_one_part = (start & 0xffffffffull) + slots * FLEETCAL_SLOT_BYTES <= 1ull << 32;
    u32 at = u32(first) * FLEETCAL_SLOT_BYTES;
    at = in_one_part ? chase<true>(start, at, loads) : chase<false>(start, at, loads);
    const Chain chain = {slots, bits};
    output[0] = at - u32(chain.after(first, loads % slots)) * FLEETCAL_SLOT_BYTES + u32(loads);
    slot[0] = at / FLEETCAL_SLOT_BYTES;
}

#else
#error "define FLEETCAL_KERNEL_read or FLEETCAL_KERNEL_chase"
#endif
