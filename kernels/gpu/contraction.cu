// The weight gradient of a linear layer, dw[o,i] = sum over k of dy[k,o] * x[k,i], with m rows of o and n columns of i.
//
// Every output is one sum in the order of k, by fused multiply-adds, so that every variant gives the same bits
// (kernels/src/contraction.rs computes them on the host). There is no guard: tiles divide the matrix.

__device__ __forceinline__ float multiply_add(float left, float right, float sum) { return fmaf(left, right, sum); }
__device__ __forceinline__ double multiply_add(double left, double right, double sum) { return fma(left, right, sum); }

// One thread an output: a block has neighbouring columns of one row. What is read again is read through the caches.
template <typename Element>
__device__ __forceinline__ void untiled(Element* __restrict__ dw, const Element* __restrict__ dy,
                                        const Element* __restrict__ x, u32 m, u32 n, u32 k) {
    const u32 blocks_of_row = n / blockDim.x;
    const u32 row = blockIdx.x / blocks_of_row;
    const u32 column = blockIdx.x % blocks_of_row * blockDim.x + threadIdx.x;
    Element sum = 0;
    for (u32 step = 0; step < k; ++step) {
        sum = multiply_add(dy[u64(step) * m + row], x[u64(step) * n + column], sum);
    }
    dw[u64(row) * n + column] = sum;
}

// A block has ROWS x COLUMNS outputs, a thread THREAD_ROWS x THREAD_COLUMNS of them in registers; DEPTH steps of k are
// staged in shared memory at a time.
template <typename Element, int ROWS, int COLUMNS, int DEPTH, int THREAD_ROWS, int THREAD_COLUMNS>
__device__ __forceinline__ void tiled(Element* __restrict__ dw, const Element* __restrict__ dy,
                                      const Element* __restrict__ x, u32 m, u32 n, u32 k, Element* left, Element* right) {
    constexpr int THREADS_OF_ROW = COLUMNS / THREAD_COLUMNS;
    constexpr int THREADS = ROWS / THREAD_ROWS * THREADS_OF_ROW;
    const int thread = threadIdx.x;
    const int thread_row = thread / THREADS_OF_ROW * THREAD_ROWS;
    const int thread_column = thread % THREADS_OF_ROW * THREAD_COLUMNS;
    const u32 tiles_of_row = n / COLUMNS;
    const u32 row = blockIdx.x / tiles_of_row * ROWS;
    const u32 column = blockIdx.x % tiles_of_row * COLUMNS;
    Element sums[THREAD_ROWS][THREAD_COLUMNS];
#pragma unroll
    for (int at = 0; at < THREAD_ROWS; ++at) {
#pragma unroll
        for (int to = 0; to < THREAD_COLUMNS; ++to) sums[at][to] = 0;
    }
    for (u32 step = 0; step < k; step += DEPTH) {
        for (int index = thread; index < DEPTH * ROWS; index += THREADS) {
            left[index] = dy[u64(step + index / ROWS) * m + row + index % ROWS];
        }
        for (int index = thread; index < DEPTH * COLUMNS; index += THREADS) {
            right[index] = x[u64(step + index / COLUMNS) * n + column + index % COLUMNS];
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            Element lefts[THREAD_ROWS];
            Element rights[THREAD_COLUMNS];
#pragma unroll
            for (int at = 0; at < THREAD_ROWS; ++at) lefts[at] = left[depth * ROWS + thread_row + at];
#pragma unroll
            for (int to = 0; to < THREAD_COLUMNS; ++to) rights[to] = right[depth * COLUMNS + thread_column + to];
#pragma unroll
            for (int at = 0; at < THREAD_ROWS; ++at) {
#pragma unroll
                for (int to = 0; to < THREAD_COLUMNS; ++to) {
                    sums[at][to] = multiply_add(lefts[at], rights[to], sums[at][to]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int at = 0; at < THREAD_ROWS; ++at) {
#pragma unroll
        for (int to = 0; to < THREAD_COLUMNS; ++to) {
            dw[u64(row + thread_row + at) * n + column + thread_column + to] = sums[at][to];
        }
    }
}

#if defined(FLEETCAL_DTYPE_f32)
typedef float Number;
#define CONTRACTION(NAME) contraction_f32_##NAME
#elif defined(FLEETCAL_DTYPE_f64)
typedef double Number;
#define CONTRACTION(NAME) contraction_f64_##NAME
#else
#error "define FLEETCAL_DTYPE_f32 or FLEETCAL_DTYPE_f64"
#endif

extern "C" __global__ void __launch_bounds__(256)
    CONTRACTION(untiled)(Number* __restrict__ dw, const Number* __restrict__ dy, const Number* __restrict__ x, u64 m,
                         u64 n, u64 k) {
    untiled<Number>(dw, dy, x, u32(m), u32(n), u32(k));
}

#define TILE(NAME, ROWS, COLUMNS, DEPTH, THREAD_ROWS, THREAD_COLUMNS)                                                 \
    extern "C" __global__ void __launch_bounds__((ROWS) / (THREAD_ROWS) * ((COLUMNS) / (THREAD_COLUMNS)))             \
        CONTRACTION(NAME)(Number* __restrict__ dw, const Number* __restrict__ dy, const Number* __restrict__ x, u64 m, \
                          u64 n, u64 k) {                                                                             \
        FLEETCAL_SHARED(Number, left, (ROWS) * (DEPTH));                                                              \
        FLEETCAL_SHARED(Number, right, (COLUMNS) * (DEPTH));                                                          \
        tiled<Number, ROWS, COLUMNS, DEPTH, THREAD_ROWS, THREAD_COLUMNS>(dw, dy, x, u32(m), u32(n), u32(k), left,     \
                                                                         right);                                      \
    }

TILE(t32, 32, 32, 8, 4, 4)
TILE(t64, 64, 64, 8, 4, 4)
TILE(t128, 128, 128, 8, 8, 8)
