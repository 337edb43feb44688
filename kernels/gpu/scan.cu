// Inclusive prefix sums of an array.
//
// In one pass by decoupled look-back (Merrill and Garland: Single-pass parallel prefix scan with decoupled look-back,
// NVIDIA NVR-2016-002): a block publishes the sum of its tile, and adds up what tiles before it have published, from the
// nearest one backwards, until it meets a sum of all that came before. Blocks take tiles in the order in which they start,
// so a tile waits for none whose block has not started. And in three launches, where no block waits for another: sums of
// contiguous parts, their prefix sums, and the parts anew.

// The words of the state: the next tile, whether a block gave up, and what each tile has published.
#define TICKET 0
#define GIVEN_UP 16
#define TILES 32

// What a tile has published: nothing, its own sum, or the sum of all up to it. Upper half of a word; the lower has the value.
#define NOTHING 0ull
#define OWN 1ull
#define ALL 2ull

// Between two looks at whether another block gave up.
#define POLLS_PER_LOOK 64

#if defined(FLEETCAL_DTYPE_f32)
typedef float Element;
#define LANES 4
#define SCAN(NAME) scan_##NAME##_f32
#elif defined(FLEETCAL_DTYPE_f64)
typedef double Element;
#define LANES 2
#define SCAN(NAME) scan_##NAME##_f64
#elif defined(FLEETCAL_DTYPE_i32)
// Sums are modulo 2^32.
typedef u32 Element;
#define LANES 4
#define SCAN(NAME) scan_##NAME##_i32
#else
#error "define FLEETCAL_DTYPE_f32, _f64 or _i32"
#endif

#if !defined(FLEETCAL_KERNEL_sum)
#error "define FLEETCAL_KERNEL_sum"
#endif

typedef Pack<Element, LANES> Vector;

// A value wider than half a word travels in parts, a word each, with the same flag: flags never turn back, and words are
// seen whole, so parts with equal flags are of one value.
#define PARTS (int(sizeof(Element)) / 4)

struct Published {
    u64 flag;
    Element value;
};

__device__ __forceinline__ Published look_at(const u64* state, u64 tile) {
    u32 halves[PARTS];
    u64 flag = NOTHING;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const u64 word = load_word(state + TILES + tile * PARTS + part);
        halves[part] = u32(word);
        flag = part == 0 || flag == word >> 32 ? word >> 32 : NOTHING;
    }
    Published seen;
    seen.flag = flag;
    memcpy(&seen.value, halves, sizeof(seen.value));
    return seen;
}

__device__ __forceinline__ void publish(u64* state, u64 tile, u64 flag, Element value) {
    u32 halves[PARTS];
    memcpy(halves, &value, sizeof(value));
#pragma unroll
    for (int part = 0; part < PARTS; ++part) store_word(state + TILES + tile * PARTS + part, flag << 32 | halves[part]);
}

__device__ __forceinline__ int own_lane() { return int(threadIdx.x % FLEETCAL_WAVE); }
__device__ __forceinline__ int own_wave() { return int(threadIdx.x / FLEETCAL_WAVE); }

// The sum of what this lane and those below it have.
__device__ __forceinline__ Element prefix_of_lanes(Element value) {
#pragma unroll
    for (int reach = 1; reach < FLEETCAL_WAVE; reach *= 2) {
        const Element below = FLEETCAL_SHUFFLE_UP(value, reach);
        if (own_lane() >= reach) value = below + value;
    }
    return value;
}

__device__ __forceinline__ Element sum_of_lanes(Element value) {
#pragma unroll
    for (int mask = 1; mask < FLEETCAL_WAVE; mask *= 2) value += FLEETCAL_SHUFFLE_XOR(value, mask);
    return value;
}

// The packs of a tile that a thread has: a wave's are contiguous, its lanes take turns.
template <int VECTORS>
__device__ __forceinline__ u64 first_pack(u64 tile) {
    return tile * (u64(blockDim.x) * VECTORS) + u64(own_wave()) * (FLEETCAL_WAVE * VECTORS) + own_lane();
}

template <int VECTORS, typename Access>
__device__ __forceinline__ void read_tile(Vector* packs, const Element* from, u64 tile) {
    const Vector* start = reinterpret_cast<const Vector*>(from) + first_pack<VECTORS>(tile);
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) packs[index] = Access::load(start + index * FLEETCAL_WAVE);
}

// Writes the prefix sums of a tile: those within the wave, and what comes before the wave.
template <int VECTORS, typename Access>
__device__ __forceinline__ void write_tile(Element* to, Vector* packs, u64 tile, Element before) {
    Vector* start = reinterpret_cast<Vector*>(to) + first_pack<VECTORS>(tile);
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) packs[index].lane[lane] = before + packs[index].lane[lane];
        Access::store(start + index * FLEETCAL_WAVE, packs[index]);
    }
}

// Makes prefix sums within the wave of its packs; the wave's sum.
template <int VECTORS>
__device__ __forceinline__ Element scan_wave(Vector* packs) {
    Element before = 0;
#pragma unroll
    for (int index = 0; index < VECTORS; ++index) {
        Element* lanes = packs[index].lane;
#pragma unroll
        for (int lane = 1; lane < LANES; ++lane) lanes[lane] += lanes[lane - 1];
        const Element up_to_own = prefix_of_lanes(lanes[LANES - 1]);
        Element below = FLEETCAL_SHUFFLE_UP(up_to_own, 1);
        if (own_lane() == 0) below = 0;
        below += before;
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) lanes[lane] = below + lanes[lane];
        before += FLEETCAL_SHUFFLE(up_to_own, FLEETCAL_WAVE - 1);
    }
    return before;
}

// Lets the launch be seen to have failed, by whoever looks at its result.
__device__ __forceinline__ void give_up(u64* state, u32* given_up) {
    store_word(state + GIVEN_UP, 1);
    atomicExch(given_up, 1u);
}

// The sum of all tiles before this one, for a whole wave. None where what it waits for does not come: after so many looks
// in vain, or once another block gave up, so that nobody waits for ever.
__device__ __forceinline__ bool look_back(Element* before, u64* state, u64 tile, u64 polls_max, u32* given_up) {
    Element sum = 0;
    u64 polls = 0;
    // Tiles before this one that were not looked at; lane 0 has the nearest.
    for (u64 left = tile; left > 0;) {
        const bool exists = u64(own_lane()) < left;
        Published seen;
        u64 needed, nearest;
        for (;;) {
            // What comes before the first tile is nothing, and all of it.
            seen.flag = ALL;
            seen.value = 0;
            if (exists) seen = look_at(state, left - 1 - own_lane());
            const u64 all = FLEETCAL_BALLOT(seen.flag == ALL);
            nearest = all & (~all + 1);
            // Lanes up to the nearest sum of all, or every lane.
            needed = nearest | (nearest - 1);
            if ((FLEETCAL_BALLOT(seen.flag == NOTHING) & needed) == 0) break;
            ++polls;
            if (polls >= polls_max) {
                if (own_lane() == 0) give_up(state, given_up);
                return false;
            }
            // Lanes may see different things, and leave together all the same.
            if (polls % POLLS_PER_LOOK == 0 && FLEETCAL_BALLOT(load_word(state + GIVEN_UP) != 0) != 0) return false;
            spin_pause();
        }
        sum = sum_of_lanes(needed >> own_lane() & 1 ? seen.value : Element(0)) + sum;
        left = nearest != 0 || left <= u64(FLEETCAL_WAVE) ? 0 : left - FLEETCAL_WAVE;
    }
    *before = sum;
    return true;
}

// Nobody has published anything. That a launch gave up stays to be seen until somebody has looked.
extern "C" __global__ void SCAN(clear)(u64* state, u32* given_up, u64 words) {
    for (u64 index = u64(blockIdx.x) * blockDim.x + threadIdx.x; index < words; index += u64(gridDim.x) * blockDim.x) {
        state[index] = 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && *given_up != 1) *given_up = 0;
}

template <int VECTORS, typename Access>
__device__ __forceinline__ void scan_tile(Element* to, const Element* from, u64* state, u32* given_up, u64 polls_max,
                                          Element* before_wave, u32* shared) {
    if (threadIdx.x == 0) shared[0] = atomicAdd(reinterpret_cast<u32*>(state + TICKET), 1u);
    __syncthreads();
    const u64 tile = shared[0];
    Vector packs[VECTORS];
    read_tile<VECTORS, Access>(packs, from, tile);
    const Element sum = scan_wave<VECTORS>(packs);
    if (own_lane() == 0) before_wave[own_wave()] = sum;
    __syncthreads();
    if (own_wave() == 0) {
        const int waves = int(blockDim.x) / FLEETCAL_WAVE;
        const Element own = prefix_of_lanes(own_lane() < waves ? before_wave[own_lane()] : Element(0));
        const Element total = FLEETCAL_SHUFFLE(own, waves - 1);
        Element below = FLEETCAL_SHUFFLE_UP(own, 1);
        if (own_lane() == 0) below = 0;
        if (own_lane() == 0) publish(state, tile, tile == 0 ? ALL : OWN, total);
        Element before = 0;
        const bool is_known = look_back(&before, state, tile, polls_max, given_up);
        if (is_known && own_lane() == 0 && tile > 0) publish(state, tile, ALL, before + total);
        if (own_lane() < waves) before_wave[own_lane()] = before + below;
        if (own_lane() == 0) shared[1] = is_known;
    }
    __syncthreads();
    if (shared[1]) write_tile<VECTORS, Access>(to, packs, tile, before_wave[own_wave()]);
}

// The tiles of a block's part: as many as others have, or one more.
__device__ __forceinline__ u64 first_tile(u64 block, u64 tiles) { return block * tiles / gridDim.x; }

template <int VECTORS>
__device__ __forceinline__ void sum_part(Element* sums, const Element* from, u64 tiles, u32* given_up, Element* of_wave) {
    Element sum = 0;
    for (u64 tile = first_tile(blockIdx.x, tiles); tile < first_tile(blockIdx.x + 1, tiles); ++tile) {
        Vector packs[VECTORS];
        read_tile<VECTORS, Cached>(packs, from, tile);
#pragma unroll
        for (int index = 0; index < VECTORS; ++index) {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) sum += packs[index].lane[lane];
        }
    }
    sum = sum_of_lanes(sum);
    if (own_lane() == 0) of_wave[own_wave()] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int wave = 1; wave < int(blockDim.x) / FLEETCAL_WAVE; ++wave) sum += of_wave[wave];
    sums[blockIdx.x] = sum;
    // Nobody waits here, so nobody gives up.
    if (blockIdx.x == 0) *given_up = 0;
}

// What a block's waves before this one have, added to `before`, which then has all of them.
__device__ __forceinline__ Element next_waves(Element* before, Element sum, Element* of_wave) {
    // Sums of the turn before may still be read.
    __syncthreads();
    if (own_lane() == 0) of_wave[own_wave()] = sum;
    __syncthreads();
    Element before_wave = *before;
    for (int wave = 0; wave < int(blockDim.x) / FLEETCAL_WAVE; ++wave) {
        if (wave == own_wave()) before_wave = *before;
        *before += of_wave[wave];
    }
    return before_wave;
}

// Makes of each sum that of all before it. One block.
extern "C" __global__ void __launch_bounds__(512) SCAN(sums)(Element* sums, u64 count) {
    FLEETCAL_SHARED(Element, of_wave, 64);
    Element before = 0;
    for (u64 first = 0; first < count; first += blockDim.x) {
        const u64 index = first + threadIdx.x;
        const Element up_to_own = prefix_of_lanes(index < count ? sums[index] : Element(0));
        Element below = FLEETCAL_SHUFFLE_UP(up_to_own, 1);
        if (own_lane() == 0) below = 0;
        const Element before_wave = next_waves(&before, FLEETCAL_SHUFFLE(up_to_own, FLEETCAL_WAVE - 1), of_wave);
        if (index < count) sums[index] = before_wave + below;
    }
}

template <int VECTORS, typename Access>
__device__ __forceinline__ void scan_part(Element* to, const Element* from, const Element* sums, u64 tiles, Element* of_wave) {
    Element before = sums[blockIdx.x];
    for (u64 tile = first_tile(blockIdx.x, tiles); tile < first_tile(blockIdx.x + 1, tiles); ++tile) {
        Vector packs[VECTORS];
        read_tile<VECTORS, Access>(packs, from, tile);
        const Element sum = scan_wave<VECTORS>(packs);
        const Element before_wave = next_waves(&before, sum, of_wave);
        write_tile<VECTORS, Access>(to, packs, tile, before_wave);
    }
}

#define LOOK_BACK(NAME, VECTORS, ACCESS)                                                                          \
    extern "C" __global__ void __launch_bounds__(512) SCAN(NAME)(Element* to, const Element* __restrict__ from,   \
                                                                 u64* state, u32* given_up, u64 polls_max) {      \
        FLEETCAL_SHARED(Element, before_wave, 64);                                                                \
        FLEETCAL_SHARED(u32, shared, 2);                                                                          \
        scan_tile<VECTORS, ACCESS>(to, from, state, given_up, polls_max, before_wave, shared);                    \
    }

#define THREE_LAUNCHES(VECTORS)                                                                                   \
    extern "C" __global__ void __launch_bounds__(512) SCAN(sum_v##VECTORS)(                                       \
        Element* sums, const Element* __restrict__ from, u64 tiles, u32* given_up) {                              \
        FLEETCAL_SHARED(Element, of_wave, 64);                                                                    \
        sum_part<VECTORS>(sums, from, tiles, given_up, of_wave);                                                  \
    }                                                                                                             \
    extern "C" __global__ void __launch_bounds__(512) SCAN(part_v##VECTORS)(                                      \
        Element* to, const Element* __restrict__ from, const Element* __restrict__ sums, u64 tiles) {             \
        FLEETCAL_SHARED(Element, of_wave, 64);                                                                    \
        scan_part<VECTORS, Streaming>(to, from, sums, tiles, of_wave);                                            \
    }

LOOK_BACK(look_back_v2, 2, Cached)
LOOK_BACK(look_back_v4, 4, Cached)
LOOK_BACK(look_back_v8, 8, Cached)
LOOK_BACK(look_back_v2_streaming, 2, Streaming)
LOOK_BACK(look_back_v4_streaming, 4, Streaming)
LOOK_BACK(look_back_v8_streaming, 8, Streaming)
THREE_LAUNCHES(4)
THREE_LAUNCHES(8)
