// Reading one array again and again, all threads together: what the level that holds it gives.

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
