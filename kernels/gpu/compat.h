// The portable dialect: what the device sources need of CUDA (compiled by NVRTC) and HIP (compiled by hiprtc).
// No include path is needed, and nothing of the host is used.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// An array that the threads of a block share, uninitialised: COUNT elements of TYPE, called NAME. For an array of two
// dimensions TYPE is a typedef of its rows. A macro, because whoever runs blocks side by side on one thread of the host
// (tests/emulator) has no memory that each block has to itself: it defines another before this text.
#if !defined(FLEETCAL_SHARED)
#define FLEETCAL_SHARED(TYPE, NAME, COUNT) __shared__ TYPE NAME[COUNT]
#endif

// Bits that clock64() counts with. On gfx11 it begins anew after 20, half a millisecond: time that may be longer is summed
// from differences of two readings near each other, each cut to these bits.
#if defined(__GFX11__)
#define FLEETCAL_CLOCK_BITS 0xfffffull
#else
#define FLEETCAL_CLOCK_BITS ~0ull
#endif

// LANES neighbouring elements that travel in one access. The alignment is what lets the compiler use one wide
// instruction: 16 bytes are the widest that every device has.
template <typename Element, int LANES>
struct alignas(sizeof(Element) * LANES) Pack {
    Element lane[LANES];
};

// A plain access: caches decide.
struct Cached {
    template <typename Value>
    static __device__ __forceinline__ Value load(const Value* from) { return *from; }

    template <typename Value>
    static __device__ __forceinline__ void store(Value* to, const Value& value) { *to = value; }
};

// An access to 16 bytes that will not be used again: caches are asked to drop them first.
struct Streaming {
#if defined(__HIP__) || defined(__HIPCC_RTC__)
    typedef u32 Raw __attribute__((ext_vector_type(4)));
    static __device__ __forceinline__ Raw load_raw(const Raw* from) { return __builtin_nontemporal_load(from); }
    static __device__ __forceinline__ void store_raw(Raw* to, Raw raw) { __builtin_nontemporal_store(raw, to); }
#else
    typedef uint4 Raw;
    static __device__ __forceinline__ Raw load_raw(const Raw* from) { return __ldcs(from); }
    static __device__ __forceinline__ void store_raw(Raw* to, Raw raw) { __stcs(to, raw); }
#endif

    template <typename Value>
    static __device__ __forceinline__ Value load(const Value* from) {
        static_assert(sizeof(Value) == sizeof(Raw), "streaming accesses are 16 bytes wide");
        Raw raw = load_raw(reinterpret_cast<const Raw*>(from));
        Value value;
        memcpy(&value, &raw, sizeof(raw));
        return value;
    }

    template <typename Value>
    static __device__ __forceinline__ void store(Value* to, const Value& value) {
        static_assert(sizeof(Value) == sizeof(Raw), "streaming accesses are 16 bytes wide");
        Raw raw;
        memcpy(&raw, &value, sizeof(raw));
        store_raw(reinterpret_cast<Raw*>(to), raw);
    }
};

// A load that leaves the cache of the multiprocessor out, where the language has one: the level behind it answers.
struct PastFirstLevel {
    template <typename Value>
    static __device__ __forceinline__ Value load(const Value* from) {
#if defined(__CUDA_ARCH__)
        static_assert(sizeof(Value) == sizeof(uint4), "these loads are 16 bytes wide");
        uint4 raw = __ldcg(reinterpret_cast<const uint4*>(from));
        Value value;
        memcpy(&value, &raw, sizeof(raw));
        return value;
#else
        return *from;
#endif
    }
};

// Special functions of binary32 by the instruction that the device has for each, whose last bits are its own; arguments are
// normal numbers.
#if defined(__CUDA_ARCH__)
#define FLEETCAL_SPECIAL(NAME, INSTRUCTION)                             \
    __device__ __forceinline__ float NAME(float value) {                \
        float result;                                                   \
        asm volatile(INSTRUCTION " %0, %1;" : "=f"(result) : "f"(value)); \
        return result;                                                  \
    }
FLEETCAL_SPECIAL(fast_rsqrt, "rsqrt.approx.ftz.f32")
FLEETCAL_SPECIAL(fast_rcp, "rcp.approx.ftz.f32")
FLEETCAL_SPECIAL(fast_exp2, "ex2.approx.ftz.f32")
FLEETCAL_SPECIAL(fast_log2, "lg2.approx.ftz.f32")
FLEETCAL_SPECIAL(fast_sin, "sin.approx.ftz.f32")
#else
__device__ __forceinline__ float fast_rsqrt(float value) { return __builtin_amdgcn_rsqf(value); }
__device__ __forceinline__ float fast_rcp(float value) { return __builtin_amdgcn_rcpf(value); }
// Of this width, these are one instruction each for normal numbers.
__device__ __forceinline__ float fast_exp2(float value) { return __builtin_exp2f(value); }
__device__ __forceinline__ float fast_log2(float value) { return __builtin_log2f(value); }
// The instruction takes turns.
__device__ __forceinline__ float fast_sin(float value) { return __builtin_amdgcn_sinf(value * 0.15915494f); }
#endif

// What another lane has, of groups of 32.
__device__ __forceinline__ u32 from_lane(u32 value, int lane) {
#if defined(__CUDA_ARCH__)
    return __shfl_sync(0xffffffffu, value, lane, 32);
#else
    return u32(__shfl(int(value), lane, 32));
#endif
}

// The word of global memory at an address, through every cache. A number that became a pointer is not known to be of that
// memory, and costs more.
__device__ __forceinline__ u32 word_at(u64 address) {
#if defined(__CUDA_ARCH__)
    u32 word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
    return word;
#else
    return *reinterpret_cast<const u32*>(address);
#endif
}

// A number that travels as the low bits of a 64-bit argument.
template <typename Element>
__device__ __forceinline__ Element from_bits(u64 bits) {
    Element value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// Lanes of a wave (of a warp), and what they tell each other. All lanes take part: waves that are not whole, or that have
// split up, must not call these. Ballots have a bit for each lane, the others are 0.
#if defined(__CUDA_ARCH__)
#define FLEETCAL_WAVE 32
#define FLEETCAL_SHUFFLE(VALUE, LANE) __shfl_sync(0xffffffffu, VALUE, LANE)
#define FLEETCAL_SHUFFLE_UP(VALUE, DELTA) __shfl_up_sync(0xffffffffu, VALUE, DELTA)
#define FLEETCAL_SHUFFLE_XOR(VALUE, MASK) __shfl_xor_sync(0xffffffffu, VALUE, MASK)
#define FLEETCAL_BALLOT(PREDICATE) u64(__ballot_sync(0xffffffffu, PREDICATE))
#else
#define FLEETCAL_WAVE int(warpSize)
#define FLEETCAL_SHUFFLE(VALUE, LANE) __shfl(VALUE, LANE)
#define FLEETCAL_SHUFFLE_UP(VALUE, DELTA) __shfl_up(VALUE, DELTA)
#define FLEETCAL_SHUFFLE_XOR(VALUE, MASK) __shfl_xor(VALUE, MASK)
#define FLEETCAL_BALLOT(PREDICATE) u64(__ballot(PREDICATE))
#endif

// A word by which blocks tell each other something: seen whole or not at all, by all of the device, and past caches that
// are not common to them. It orders no other access: what is to be told stands in the word.
__device__ __forceinline__ u64 load_word(const u64* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    u64 word;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
#elif defined(__CUDA_ARCH__)
    return *reinterpret_cast<const volatile u64*>(from);
#else
    return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#endif
}

__device__ __forceinline__ void store_word(u64* to, u64 word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(to), "l"(word) : "memory");
#elif defined(__CUDA_ARCH__)
    *reinterpret_cast<volatile u64*>(to) = word;
#else
    __hip_atomic_store(to, word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#endif
}

// What a thread does that waits for another block: it leaves the multiprocessor to others for some tens of nanoseconds.
// Where blocks run side by side on one thread of the host, they take turns here.
__device__ __forceinline__ void spin_pause() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    __nanosleep(20);
#elif defined(__CUDA_ARCH__)
    __threadfence_block();
#else
    __builtin_amdgcn_s_sleep(1);
#endif
}
