// Reductions of an array to one number, in two launches: blocks to partial results, partial results to the number.

struct Sum {
    template <typename Element>
    static __device__ __forceinline__ Element neutral() { return Element(0); }
    template <typename Element>
    static __device__ __forceinline__ Element join(Element left, Element right) { return left + right; }
};

__device__ __forceinline__ float infinity(float) { return from_bits<float>(0x7f800000ull); }
__device__ __forceinline__ double infinity(double) { return from_bits<double>(0x7ff0000000000000ull); }

// A comparison with what is no number is false, so what is no number never wins.
struct Max {
    template <typename Element>
    static __device__ __forceinline__ Element neutral() { return -infinity(Element()); }
    template <typename Element>
    static __device__ __forceinline__ Element join(Element left, Element right) { return right > left ? right : left; }
};

struct Min {
    template <typename Element>
    static __device__ __forceinline__ Element neutral() { return infinity(Element()); }
    template <typename Element>
    static __device__ __forceinline__ Element join(Element left, Element right) { return right < left ? right : left; }
};

// What the threads of a block have, joined in the first of them. The number of threads is a power of two.
template <typename Kernel, typename Element>
__device__ __forceinline__ Element joined(Element value, Element* shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = Kernel::join(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
    return shared[0];
}

// Each thread joins VECTORS packs at a time into as many results of its own, so that as many loads are in flight.
template <typename Kernel, typename Element, int LANES, int VECTORS>
__device__ __forceinline__ void partial(Element* partials, const Element* input, u64 tiles, Element* shared) {
    typedef Pack<Element, LANES> Vector;
    const Vector* packs = reinterpret_cast<const Vector*>(input);
    Vector results[VECTORS];
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) results[index].lane[lane] = Kernel::template neutral<Element>();
    }
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Vector* start = packs + tile * (u64(blockDim.x) * VECTORS) + threadIdx.x;
        Vector loaded[VECTORS];
#pragma unroll
        for (int index = 0; index < VECTORS; ++index) loaded[index] = start[u64(index) * blockDim.x];
#pragma unroll
        for (int index = 0; index < VECTORS; ++index) {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                results[index].lane[lane] = Kernel::join(results[index].lane[lane], loaded[index].lane[lane]);
            }
        }
    }
    Element value = Kernel::template neutral<Element>();
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) value = Kernel::join(value, results[index].lane[lane]);
    }
    value = joined<Kernel>(value, shared);
    if (threadIdx.x == 0) partials[blockIdx.x] = value;
}

template <typename Kernel, typename Element>
__device__ __forceinline__ void total(Element* output, const Element* partials, u64 count, Element* shared) {
    Element value = Kernel::template neutral<Element>();
    for (u64 index = threadIdx.x; index < count; index += blockDim.x) value = Kernel::join(value, partials[index]);
    value = joined<Kernel>(value, shared);
    if (threadIdx.x == 0) output[0] = value;
}

#if defined(FLEETCAL_KERNEL_sum)
typedef Sum Operation;
#define REDUCE(NAME) reduce_sum_##NAME
#elif defined(FLEETCAL_KERNEL_max)
typedef Max Operation;
#define REDUCE(NAME) reduce_max_##NAME
#elif defined(FLEETCAL_KERNEL_min)
typedef Min Operation;
#define REDUCE(NAME) reduce_min_##NAME
#else
#error "define FLEETCAL_KERNEL_sum, _max or _min"
#endif

#define PARTIAL(NAME, ELEMENT, LANES, VECTORS)                                                          \
    extern "C" __global__ void __launch_bounds__(1024)                                                  \
        REDUCE(NAME##_v##VECTORS)(ELEMENT* partials, const ELEMENT* __restrict__ input, u64 tiles) {    \
        FLEETCAL_SHARED(ELEMENT, shared, 1024);                                                         \
        partial<Operation, ELEMENT, LANES, VECTORS>(partials, input, tiles, shared);                    \
    }

#define ENTRIES(NAME, ELEMENT, LANES)                                                                   \
    PARTIAL(NAME, ELEMENT, LANES, 1)                                                                    \
    PARTIAL(NAME, ELEMENT, LANES, 2)                                                                    \
    PARTIAL(NAME, ELEMENT, LANES, 4)                                                                    \
    PARTIAL(NAME, ELEMENT, LANES, 8)                                                                    \
    extern "C" __global__ void __launch_bounds__(1024)                                                  \
        REDUCE(NAME##_total)(ELEMENT* output, const ELEMENT* __restrict__ partials, u64 count) {        \
        FLEETCAL_SHARED(ELEMENT, shared, 1024);                                                         \
        total<Operation, ELEMENT>(output, partials, count, shared);                                     \
    }

#if defined(FLEETCAL_DTYPE_f32)
ENTRIES(f32, float, 4)
#elif defined(FLEETCAL_DTYPE_f64)
ENTRIES(f64, double, 2)
#else
#error "define FLEETCAL_DTYPE_f32 or FLEETCAL_DTYPE_f64"
#endif
