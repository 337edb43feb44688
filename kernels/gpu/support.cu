// What the harness does between measurements: filling, poisoning, looking at results, flushing caches, and filling the
// time in which the host queues work. Every kernel takes any grid.

#define FOR_EACH(INDEX, COUNT)                                                                     \
    for (u64 INDEX = u64(blockIdx.x) * blockDim.x + threadIdx.x, step = u64(gridDim.x) * blockDim.x; \
         INDEX < (COUNT); INDEX += step)

// The same as random_element in kernels/src/data.rs, bit for bit.
__device__ __forceinline__ double random_element(u64 seed, u64 index) {
    u64 bits = index + seed * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    bits ^= bits >> 31;
    return double(bits >> 40) / 16777216.0 - 0.5;
}

// Where the logical element `index` of an array lies whose rows of `row` elements begin `pitch` elements apart. A row
// of 0 elements stands for an array without gaps.
__device__ __forceinline__ u64 position(u64 index, u64 row, u64 pitch) {
    return row == 0 ? index : index / row * pitch + index % row;
}

// Reading one number format.
#define SUPPORT_GATHER(NAME, ELEMENT)                                                                      \
    extern "C" __global__ void support_gather_##NAME(double* to, const ELEMENT* from, u64 count, u64 start, \
                                                     u64 stride, u64 row, u64 pitch) {                     \
        FOR_EACH(index, count) to[index] = double(from[position(start + index * stride, row, pitch)]);     \
    }

SUPPORT_GATHER(f32, float)
SUPPORT_GATHER(f64, double)
SUPPORT_GATHER(i32, int)

// Filling one number format.
#define SUPPORT_ELEMENT(NAME, ELEMENT, SCALE)                                                              \
    extern "C" __global__ void support_fill_random_##NAME(ELEMENT* to, u64 elements, u64 first, u64 seed) { \
        FOR_EACH(index, elements) to[index] = ELEMENT(SCALE * random_element(seed, first + index));        \
    }

SUPPORT_ELEMENT(f32, float, 1.0)
SUPPORT_ELEMENT(f64, double, 1.0)
SUPPORT_ELEMENT(i32, int, 16777216.0)

// Words of a chain: where a slot begins, the byte at which the next one does.
extern "C" __global__ void support_fill_chain(u32* to, u64 elements, u64 first, u64 slots, u64 bits) {
    const Chain chain = {slots, bits};
    FOR_EACH(index, elements) {
        const u64 slot = (first + index) / (FLEETCAL_SLOT_BYTES / 4);
        const bool begins = (first + index) % (FLEETCAL_SLOT_BYTES / 4) == 0 && slot < slots;
        to[index] = begins ? u32(chain.after(slot, 1) * FLEETCAL_SLOT_BYTES) : 0;
    }
}

// What is made of bits given by the host depends on the width of the elements alone: poison, one period of a pattern
// (formula Periodic in kernels/src/data.rs), and ones where row and column agree.
#define SUPPORT_BITS(NAME, WORD)                                                                                 \
    extern "C" __global__ void support_poison_##NAME(WORD* to, u64 elements, u64 pattern, u64 row, u64 pitch) {  \
        FOR_EACH(index, elements) to[position(index, row, pitch)] = WORD(pattern);                               \
    }                                                                                                            \
    extern "C" __global__ void support_fill_periodic_##NAME(WORD* to, const WORD* values, u64 elements, u64 first, \
                                                            u64 length, u64 repeat) {                            \
        FOR_EACH(index, elements) to[index] = values[(first + index) / repeat % length];                         \
    }                                                                                                            \
    extern "C" __global__ void support_fill_identity_##NAME(WORD* to, u64 elements, u64 first, u64 row, u64 one) { \
        FOR_EACH(index, elements) {                                                                              \
            to[index] = (first + index) / row == (first + index) % row ? WORD(one) : WORD(0);                    \
        }                                                                                                        \
    }

SUPPORT_BITS(b8, u8)
SUPPORT_BITS(b16, u16)
SUPPORT_BITS(b32, u32)
SUPPORT_BITS(b64, u64)

// Reads and writes every pack, so that caches hold these lines and no others.
extern "C" __global__ void support_flush(Pack<u32, 4>* buffer, u64 packs) {
    FOR_EACH(index, packs) {
        Pack<u32, 4> pack = buffer[index];
        pack.lane[0] += 1;
        buffer[index] = pack;
    }
}

extern "C" __global__ void support_empty() {}

// Keeps one block busy for at least so many cycles.
extern "C" __global__ void support_lead(u64 cycles) {
    u64 last = clock64();
    for (u64 passed = 0; passed < cycles;) {
        const u64 now = clock64();
        passed += (now - last) & FLEETCAL_CLOCK_BITS;
        last = now;
    }
}
