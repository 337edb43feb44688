// STREAM kernels (McCalpin): copy c = a, scale b = 0.5 a, add c = a + b, triad a = b + 0.5 c.
//
// A tile is VECTORS packs of LANES elements for each thread of a block. A thread's packs lie one block apart, so that
// neighbouring threads touch neighbouring packs, and all loads of a thread are issued before its stores, so that as
// many bytes as possible are in flight. There is no guard: tiles divide the arrays (kernels/src/stream.rs), and each
// element is touched once per array.

struct Copy {
    static constexpr int INPUTS = 1;
    template <typename Element>
    static __device__ __forceinline__ Element apply(Element first, Element) { return first; }
};

struct Scale {
    static constexpr int INPUTS = 1;
    template <typename Element>
    static __device__ __forceinline__ Element apply(Element first, Element) { return Element(0.5) * first; }
};

struct Add {
    static constexpr int INPUTS = 2;
    template <typename Element>
    static __device__ __forceinline__ Element apply(Element first, Element second) { return first + second; }
};

struct Triad {
    static constexpr int INPUTS = 2;
    template <typename Element>
    static __device__ __forceinline__ Element apply(Element first, Element second) {
        return first + Element(0.5) * second;
    }
};

template <typename Kernel, typename Access, typename Element, int LANES, int VECTORS>
__device__ __forceinline__ void stream_tile(Element* __restrict__ output, const Element* __restrict__ first,
                                            const Element* __restrict__ second, u64 tile) {
    typedef Pack<Element, LANES> Vector;
    const u64 start = tile * (u64(blockDim.x) * VECTORS) + threadIdx.x;
    Vector left[VECTORS];
    Vector right[VECTORS];
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
        const u64 at = start + u64(index) * blockDim.x;
        left[index] = Access::load(reinterpret_cast<const Vector*>(first) + at);
        if (Kernel::INPUTS == 2) right[index] = Access::load(reinterpret_cast<const Vector*>(second) + at);
    }
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
        Vector result;
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            result.lane[lane] = Kernel::apply(left[index].lane[lane],
                                              Kernel::INPUTS == 2 ? right[index].lane[lane] : left[index].lane[lane]);
        }
        Access::store(reinterpret_cast<Vector*>(output) + start + u64(index) * blockDim.x, result);
    }
}

// One entry of each scheme; blocks of up to MAX_BLOCK threads may launch it. With `tile`, the grid has one block a tile;
// with `stride`, the resident blocks share the tiles out. Kernels of one input ignore the second: the launch passes the
// first again.
#define STREAM_TILE(NAME, KERNEL, ACCESS, ELEMENT, LANES, VECTORS, MAX_BLOCK)                                         \
    extern "C" __global__ void __launch_bounds__(MAX_BLOCK)                                                           \
        NAME(ELEMENT* __restrict__ output, const ELEMENT* __restrict__ first, const ELEMENT* __restrict__ second,     \
             u64) {                                                                                                   \
        stream_tile<KERNEL, ACCESS, ELEMENT, LANES, VECTORS>(output, first, second, blockIdx.x);                      \
    }

#define STREAM_STRIDE(NAME, KERNEL, ACCESS, ELEMENT, LANES, VECTORS, MAX_BLOCK)                                       \
    extern "C" __global__ void __launch_bounds__(MAX_BLOCK)                                                           \
        NAME(ELEMENT* __restrict__ output, const ELEMENT* __restrict__ first, const ELEMENT* __restrict__ second,     \
             u64 tiles) {                                                                                             \
        for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {                                                \
            stream_tile<KERNEL, ACCESS, ELEMENT, LANES, VECTORS>(output, first, second, tile);                        \
        }                                                                                                             \
    }

#define STREAM_VECTORS(NAME, KERNEL, ELEMENT, LANES, VECTORS, MAX_BLOCK)                                              \
    STREAM_TILE(NAME##_w##LANES##_v##VECTORS##_tile, KERNEL, Cached, ELEMENT, LANES, VECTORS, MAX_BLOCK)              \
    STREAM_STRIDE(NAME##_w##LANES##_v##VECTORS##_stride, KERNEL, Cached, ELEMENT, LANES, VECTORS, MAX_BLOCK)

#define STREAM_WIDTH(NAME, KERNEL, ELEMENT, LANES, MAX_BLOCK_OF_8)                                                    \
    STREAM_VECTORS(NAME, KERNEL, ELEMENT, LANES, 1, 1024)                                                             \
    STREAM_VECTORS(NAME, KERNEL, ELEMENT, LANES, 2, 1024)                                                             \
    STREAM_VECTORS(NAME, KERNEL, ELEMENT, LANES, 4, 1024)                                                             \
    STREAM_VECTORS(NAME, KERNEL, ELEMENT, LANES, 8, MAX_BLOCK_OF_8)

#define STREAM_STREAMING(NAME, KERNEL, ELEMENT, LANES)                                                                \
    STREAM_TILE(NAME##_w##LANES##_v1_tile_streaming, KERNEL, Streaming, ELEMENT, LANES, 1, 1024)                      \
    STREAM_TILE(NAME##_w##LANES##_v2_tile_streaming, KERNEL, Streaming, ELEMENT, LANES, 2, 1024)                      \
    STREAM_TILE(NAME##_w##LANES##_v4_tile_streaming, KERNEL, Streaming, ELEMENT, LANES, 4, 1024)

// One program holds one kernel in one number format, so that nothing is compiled that was not asked for: the compiler
// is given FLEETCAL_KERNEL_triad and FLEETCAL_DTYPE_f32, say.
//
// MAX_BLOCK: threads of a block whose threads may hold eight packs of 16 bytes of each input. Two inputs take 64
// registers, and 64 registers a thread are all that a block of 1024 threads has.
#if defined(FLEETCAL_DTYPE_f32)
#define STREAM_KERNEL(NAME, KERNEL, MAX_BLOCK)               \
    STREAM_WIDTH(NAME##_f32, KERNEL, float, 1, 1024)         \
    STREAM_WIDTH(NAME##_f32, KERNEL, float, 2, 1024)         \
    STREAM_WIDTH(NAME##_f32, KERNEL, float, 4, MAX_BLOCK)    \
    STREAM_STREAMING(NAME##_f32, KERNEL, float, 4)
#elif defined(FLEETCAL_DTYPE_f64)
#define STREAM_KERNEL(NAME, KERNEL, MAX_BLOCK)               \
    STREAM_WIDTH(NAME##_f64, KERNEL, double, 1, 1024)        \
    STREAM_WIDTH(NAME##_f64, KERNEL, double, 2, MAX_BLOCK)   \
    STREAM_STREAMING(NAME##_f64, KERNEL, double, 2)
#else
#error "define FLEETCAL_DTYPE_f32 or FLEETCAL_DTYPE_f64"
#endif

#if defined(FLEETCAL_KERNEL_copy)
STREAM_KERNEL(stream_copy, Copy, 1024)
#elif defined(FLEETCAL_KERNEL_scale)
STREAM_KERNEL(stream_scale, Scale, 1024)
#elif defined(FLEETCAL_KERNEL_add)
STREAM_KERNEL(stream_add, Add, 512)
#elif defined(FLEETCAL_KERNEL_triad)
STREAM_KERNEL(stream_triad, Triad, 512)
#else
#error "define FLEETCAL_KERNEL_copy, _scale, _add or _triad"
#endif
