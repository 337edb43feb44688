// A chain through an array, as kernels/src/chain.rs has it: `slots` slots of a cache line, `bits` of the least power of two
// that holds them.

#define FLEETCAL_SLOT_BYTES 128u

struct Chain {
    u64 slots, bits;

    __device__ __forceinline__ u64 folded(u64 value) const { return value ^ value >> (bits + 1) / 2; }

    __device__ __forceinline__ u64 mixed(u64 value) const {
        const u64 mask = (1ull << bits) - 1, summand = 0x9e3779b97f4a7c15ull;
        value = folded(value);
        for (int round = 0; round < 2; ++round) {
            value = folded((value * 0xbf58476d1ce4e5b9ull + summand) & mask);
            value = folded((value * 0x94d049bb133111ebull + summand) & mask);
        }
        return value;
    }

    __device__ __forceinline__ u64 unmixed(u64 value) const {
        const u64 mask = (1ull << bits) - 1, summand = 0x9e3779b97f4a7c15ull;
        value = folded(value);
        for (int round = 0; round < 2; ++round) {
            value = folded((value - summand) * 0x319642b2d24d8ec3ull & mask);
            value = folded((value - summand) * 0x96de1b173f119089ull & mask);
        }
        return value;
    }

    // The slot so many steps behind a slot; `steps` is less than the slots.
    __device__ __forceinline__ u64 after(u64 slot, u64 steps) const {
        u64 at = unmixed(slot);
        while (at >= slots) at = unmixed(at);
        at = mixed((at + steps) % slots);
        while (at >= slots) at = mixed(at);
        return at;
    }
};
