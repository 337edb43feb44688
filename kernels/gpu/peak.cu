// Arithmetic at full rate: independent chains in registers, and nothing else. Threads of the first block store what comes
// of it; whoever reads the rest is never there, and the compiler cannot know that. What it can prove to be unused or to be
// the same twice it leaves out, and a rate then counts what never ran: so chains begin at different numbers, and all of
// them are used.

#define STEPS 16

#if defined(FLEETCAL_KERNEL_fma)

__device__ __forceinline__ float step(float value, float factor, float summand) { return fmaf(value, factor, summand); }
__device__ __forceinline__ double step(double value, double factor, double summand) {
    return fma(value, factor, summand);
}
__device__ __forceinline__ u32 step(u32 value, u32 factor, u32 summand) { return value * factor + summand; }

// Chains begin at different numbers, so that no two of them are one.
__device__ __forceinline__ float begin(int lane, int chain, float) { return 1.0f + float(lane * 16 + chain) / 1024.0f; }
__device__ __forceinline__ double begin(int lane, int chain, double) { return 1.0 + double(lane * 16 + chain) / 1024.0; }
__device__ __forceinline__ u32 begin(int lane, int chain, u32) { return u32(lane * 16 + chain); }

// What no sum of the chains is: they are positive, or end in a bit that is not set.
__device__ __forceinline__ bool is_impossible(float sum) { return sum < -1.0f; }
__device__ __forceinline__ bool is_impossible(double sum) { return sum < -1.0; }
__device__ __forceinline__ bool is_impossible(u32 sum) { return sum == 0x9e3779b9u; }

template <typename Element, int CHAINS>
__device__ __forceinline__ void chains(Element* output, u64 iterations, u64 factor_bits, u64 summand_bits, u64 elements) {
    const Element factor = from_bits<Element>(factor_bits), summand = from_bits<Element>(summand_bits);
    const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    Element chain[CHAINS];
#pragma unroll
    for (int index = 0; index < CHAINS; ++index) chain[index] = begin(int(thread & 31), index, Element());
    for (u64 iteration = 0; iteration < iterations; ++iteration) {
#pragma unroll
        for (int count = 0; count < STEPS; ++count) {
#pragma unroll
            for (int index = 0; index < CHAINS; ++index) chain[index] = step(chain[index], factor, summand);
        }
    }
    Element sum = 0;
#pragma unroll
    for (int index = 1; index < CHAINS; ++index) sum += chain[index];
    if (thread < elements) {
        output[thread] = chain[0];
    } else if (is_impossible(sum) && iterations == 0) {
        output[0] = sum;
    }
}

#if defined(FLEETCAL_DTYPE_f32)
typedef float Number;
#define PEAK(CHAINS) peak_fma_f32_c##CHAINS
#elif defined(FLEETCAL_DTYPE_f64)
typedef double Number;
#define PEAK(CHAINS) peak_fma_f64_c##CHAINS
#elif defined(FLEETCAL_DTYPE_i32)
typedef u32 Number;
#define PEAK(CHAINS) peak_fma_i32_c##CHAINS
#else
#error "define FLEETCAL_DTYPE_f32, _f64 or _i32"
#endif

#define FMA(CHAINS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024)                                                      \
        PEAK(CHAINS)(Number* output, u64 iterations, u64 factor_bits, u64 summand_bits, u64 elements) {     \
        chains<Number, CHAINS>(output, iterations, factor_bits, summand_bits, elements);                    \
    }

FMA(4)
FMA(8)
FMA(16)

#elif defined(FLEETCAL_KERNEL_mma)

// One tensor instruction of a warp, D = A * B + D, on NVIDIA devices from compute capability 8.0 on. Fragments are laid
// out as the PTX manual has them (section "Matrix multiply-accumulate operation using mma instruction"): with
// g = lane / 4 and t = lane % 4, element c0 of D stands in row g and column 2 t.
//
// Numbers are small and whole, so every sum is exact: A[r][k] = (7 r + 3 k) % 8 - 4, B[k][c] = (5 k + 3 c) % 8 - 4.
__device__ __forceinline__ int left_number(int row, int depth) { return ((7 * row + 3 * depth) & 7) - 4; }
__device__ __forceinline__ int right_number(int depth, int column) { return ((5 * depth + 3 * column) & 7) - 4; }

#if defined(FLEETCAL_DTYPE_f16) || defined(FLEETCAL_DTYPE_bf16)
typedef float Sum;
#if defined(FLEETCAL_DTYPE_f16)
#define PEAK(CHAINS) peak_mma_f16_c##CHAINS
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
// Whole numbers from -4 to 3 in binary16.
__device__ __forceinline__ u32 word(int number) {
    const u32 size = number < 0 ? -number : number;
    const u32 bits = size == 0 ? 0 : size == 1 ? 0x3c00 : size == 2 ? 0x4000 : size == 3 ? 0x4200 : 0x4400;
    return bits | (number < 0 ? 0x8000u : 0);
}
#else
#define PEAK(CHAINS) peak_mma_bf16_c##CHAINS
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
// The upper half of binary32.
__device__ __forceinline__ u32 word(int number) {
    const float value = float(number);
    u32 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits >> 16;
}
#endif
#define LEFT_WORDS 4
#define RIGHT_WORDS 2
__device__ __forceinline__ void fragments(int g, int t, u32* left, u32* right) {
    for (int index = 0; index < LEFT_WORDS; ++index) {
        const int row = g + index % 2 * 8, depth = 2 * t + index / 2 * 8;
        left[index] = word(left_number(row, depth)) | word(left_number(row, depth + 1)) << 16;
    }
    for (int index = 0; index < RIGHT_WORDS; ++index) {
        const int depth = 2 * t + index * 8;
        right[index] = word(right_number(depth, g)) | word(right_number(depth + 1, g)) << 16;
    }
}
#elif defined(FLEETCAL_DTYPE_tf32)
typedef float Sum;
#define PEAK(CHAINS) peak_mma_tf32_c##CHAINS
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#define LEFT_WORDS 4
#define RIGHT_WORDS 2
__device__ __forceinline__ u32 word(int number) {
    const float value = float(number);
    u32 bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
__device__ __forceinline__ void fragments(int g, int t, u32* left, u32* right) {
    for (int index = 0; index < LEFT_WORDS; ++index) left[index] = word(left_number(g + index % 2 * 8, t + index / 2 * 4));
    for (int index = 0; index < RIGHT_WORDS; ++index) right[index] = word(right_number(t + index * 4, g));
}
#elif defined(FLEETCAL_DTYPE_i8)
typedef int Sum;
#define PEAK(CHAINS) peak_mma_i8_c##CHAINS
#define MMA "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define LEFT_WORDS 4
#define RIGHT_WORDS 2
__device__ __forceinline__ void fragments(int g, int t, u32* left, u32* right) {
    for (int index = 0; index < LEFT_WORDS; ++index) {
        left[index] = 0;
        for (int byte = 0; byte < 4; ++byte) {
            const int number = left_number(g + index % 2 * 8, 4 * t + index / 2 * 16 + byte);
            left[index] |= u32(number & 0xff) << (8 * byte);
        }
    }
    for (int index = 0; index < RIGHT_WORDS; ++index) {
        right[index] = 0;
        for (int byte = 0; byte < 4; ++byte) {
            right[index] |= u32(right_number(4 * t + index * 16 + byte, g) & 0xff) << (8 * byte);
        }
    }
}
#elif defined(FLEETCAL_DTYPE_f64)
typedef double Sum;
#define PEAK(CHAINS) peak_mma_f64_c##CHAINS
#else
#error "define FLEETCAL_DTYPE_f16, _bf16, _tf32, _i8 or _f64"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <int CHAINS>
__device__ __forceinline__ void products(Sum* output, u64 iterations, u64 elements) {
    const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    const int lane = int(thread & 31), g = lane / 4, t = lane % 4;
#if defined(FLEETCAL_DTYPE_f64)
    const double left = left_number(g, t), right = right_number(t, g);
    double sums[CHAINS][2];
#else
    u32 left[LEFT_WORDS], right[RIGHT_WORDS];
    fragments(g, t, left, right);
    Sum sums[CHAINS][4];
#endif
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) {
#pragma unroll
        for (int index = 0; index < int(sizeof(sums[0]) / sizeof(sums[0][0])); ++index) sums[chain][index] = Sum(chain);
    }
    for (u64 iteration = 0; iteration < iterations; ++iteration) {
#pragma unroll
        for (int count = 0; count < STEPS; ++count) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain) {
                Sum* sum = sums[chain];
#if defined(FLEETCAL_DTYPE_f64)
                asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                             : "+d"(sum[0]), "+d"(sum[1])
                             : "d"(left), "d"(right));
#elif defined(FLEETCAL_DTYPE_i8)
                asm volatile(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                             : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#else
                asm volatile(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                             : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#endif
            }
        }
    }
    // The mean of all chains, each without the number that it began with: one left out would be missed.
    double sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum += double(sums[chain][0]) - chain;
    if (thread < elements) {
        output[thread] = Sum(sum / CHAINS);
    } else if (iterations == 0) {
        // Never: but the instructions must be issued for it.
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) output[chain % elements] = sums[chain][0] + sums[chain][1];
    }
}
#else
// Nothing to run it with: the family declines it, and whoever launches it all the same sees that nothing is written.
template <int CHAINS>
__device__ __forceinline__ void products(Sum*, u64, u64) {}
#endif

#define TENSOR(CHAINS)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) PEAK(CHAINS)(Sum* output, u64 iterations, u64 elements) {    \
        products<CHAINS>(output, iterations, elements);                                                            \
    }

TENSOR(4)
TENSOR(8)
TENSOR(16)

#else
#error "define FLEETCAL_KERNEL_fma or FLEETCAL_KERNEL_mma"
#endif
