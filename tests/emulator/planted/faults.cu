// Kernels with one mistake each, and what it is. Every one has a right twin, so that it is the mistake that is found.

// Neighbours write one element: a race on global memory.
extern "C" __global__ void global_race(u32* to) { to[threadIdx.x / 2] = threadIdx.x; }
extern "C" __global__ void global_right(u32* to) { to[threadIdx.x] = threadIdx.x; }

// Blocks write one element each time: a race between blocks.
extern "C" __global__ void block_race(u32* to) {
    if (threadIdx.x == 0) *to = *to + 1;
}
extern "C" __global__ void block_right(u32* to) {
    if (threadIdx.x == 0) atomicAdd(to, 1u);
}

// Threads read what their neighbour writes, and do not wait.
extern "C" __global__ void missing_barrier(u32* to) {
    FLEETCAL_SHARED(u32, tile, 256);
    tile[threadIdx.x] = threadIdx.x;
    to[blockIdx.x * blockDim.x + threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}
extern "C" __global__ void right_barrier(u32* to) {
    FLEETCAL_SHARED(u32, tile, 256);
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    to[blockIdx.x * blockDim.x + threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

// The next trip overwrites the tile while slower threads still read it: the second barrier of the loop is missing.
extern "C" __global__ void missing_second_barrier(u32* to, u64 trips) {
    FLEETCAL_SHARED(u32, tile, 256);
    u32 sum = 0;
    for (u64 trip = 0; trip < trips; ++trip) {
        tile[threadIdx.x] = threadIdx.x + u32(trip);
        __syncthreads();
        sum += tile[blockDim.x - 1 - threadIdx.x];
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void both_barriers(u32* to, u64 trips) {
    FLEETCAL_SHARED(u32, tile, 256);
    u32 sum = 0;
    for (u64 trip = 0; trip < trips; ++trip) {
        tile[threadIdx.x] = threadIdx.x + u32(trip);
        __syncthreads();
        sum += tile[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Half of the block waits at a barrier that the rest never reaches.
extern "C" __global__ void divergent_barrier(u32* to) {
    if (threadIdx.x < blockDim.x / 2) __syncthreads();
    to[threadIdx.x] = 1;
}
// Each half waits at a barrier of its own.
extern "C" __global__ void two_barriers(u32* to) {
    if (threadIdx.x < blockDim.x / 2) {
        __syncthreads();
    } else {
        to[threadIdx.x] = 1;
        __syncthreads();
    }
}

// One element too far, on either side, by reading and by writing; on shared memory too.
extern "C" __global__ void write_behind(u32* to, u64 elements) { to[threadIdx.x + (threadIdx.x == 5 ? elements : 0)] = 1; }
extern "C" __global__ void write_before(u32* to) { to[threadIdx.x == 5 ? -1 : int(threadIdx.x)] = 1; }
extern "C" __global__ void read_behind(u32* to, u64 elements) {
    const u32 value = to[elements];
    if (value == 77) to[threadIdx.x] = value;
}
extern "C" __global__ void shared_behind(u32* to, u64 reach) {
    FLEETCAL_SHARED(u32, first, 32);
    FLEETCAL_SHARED(u32, second, 32);
    first[threadIdx.x + reach] = 1;
    second[threadIdx.x] = 2;
    __syncthreads();
    to[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
}
// 8 bytes at an address that is a multiple of 4.
extern "C" __global__ void misaligned(u32* to) { *reinterpret_cast<u64*>(to + 1) = 1; }

// A flag that is raised without a fence, and its right twin; block 0 hands an element on to the others.
extern "C" __global__ void missing_fence(u32* to) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        to[1] = 42;
        atomicExch(&to[0], 1u);
    } else {
        while (atomicAdd(&to[0], 0u) == 0) {}
        __threadfence();
        to[1 + blockIdx.x] = to[1];
    }
}
extern "C" __global__ void right_fence(u32* to) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        to[1] = 42;
        __threadfence();
        atomicExch(&to[0], 1u);
    } else {
        while (atomicAdd(&to[0], 0u) == 0) {}
        __threadfence();
        to[1 + blockIdx.x] = to[1];
    }
}

// Half of a wave does not come to a meeting that names all of it.
extern "C" __global__ void missing_lanes(u32* to) {
    u32 value = threadIdx.x;
    if (threadIdx.x % 2 == 0) value = __shfl_sync(~0ull >> (64 - warpSize), value, 0);
    to[threadIdx.x] = value;
}
