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

// A number that travels as the low bits of a 64-bit argument.
template <typename Element>
__device__ __forceinline__ Element from_bits(u64 bits) {
    Element value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
