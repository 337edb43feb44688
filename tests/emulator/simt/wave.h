// Shuffles, votes and barriers of a wave. With a mask (`_sync`) its lanes meet; without one, all that can.

#pragma once

namespace simt {
typedef unsigned long long Mask;

template <typename Value> inline Mask to_bits(Value value) {
    static_assert(sizeof(Value) <= sizeof(Mask), "values of up to 8 bytes travel between lanes");
    Mask bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(value));
    return bits;
}

template <typename Value> inline Value from_bits(Mask bits) {
    Value value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

inline int section(int width) { return width > 0 ? width : int(simt_wave_size()); }

template <typename Value> inline Value shuffle(int line, Mask mask, Value value, int source, int width = 0) {
    const int own = int(simt_lane()), last = section(width) - 1;
    return from_bits<Value>(simt_shuffle(mask, line, to_bits(value), (own & ~last) + (source & last)));
}

template <typename Value> inline Value shuffle_up(int line, Mask mask, Value value, unsigned delta, int width = 0) {
    const unsigned own = simt_lane(), within = own & unsigned(section(width) - 1);
    return from_bits<Value>(simt_shuffle(mask, line, to_bits(value), int(within < delta ? own : own - delta)));
}

template <typename Value> inline Value shuffle_down(int line, Mask mask, Value value, unsigned delta, int width = 0) {
    const unsigned own = simt_lane(), size = unsigned(section(width)), within = own & (size - 1);
    return from_bits<Value>(simt_shuffle(mask, line, to_bits(value), int(within + delta >= size ? own : own + delta)));
}

template <typename Value> inline Value shuffle_xor(int line, Mask mask, Value value, int with, int width = 0) {
    const int own = int(simt_lane()), last = section(width) - 1, other = own ^ with;
    return from_bits<Value>(simt_shuffle(mask, line, to_bits(value), other > (own | last) ? own : other));
}

template <typename Value> inline Value first_lane(int line, Value value) {
    return from_bits<Value>(simt_shuffle(0, line, to_bits(value), SIMT_FIRST_LANE));
}

inline Mask ballot(int line, Mask mask, bool predicate) {
    Mask taking_part;
    return simt_ballot(mask, line, predicate, &taking_part);
}

inline int any(int line, Mask mask, bool predicate) { return ballot(line, mask, predicate) != 0; }

inline int all(int line, Mask mask, bool predicate) {
    Mask taking_part;
    return simt_ballot(mask, line, predicate, &taking_part) == taking_part;
}

inline Mask active(int line) { return ballot(line, 0, true); }
}  // namespace simt

#define __shfl(...) simt::shuffle(__LINE__, 0, __VA_ARGS__)
#define __shfl_up(...) simt::shuffle_up(__LINE__, 0, __VA_ARGS__)
#define __shfl_down(...) simt::shuffle_down(__LINE__, 0, __VA_ARGS__)
#define __shfl_xor(...) simt::shuffle_xor(__LINE__, 0, __VA_ARGS__)
#define __shfl_sync(...) simt::shuffle(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) simt::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) simt::shuffle_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) simt::shuffle_xor(__LINE__, __VA_ARGS__)

#define __ballot(PREDICATE) simt::ballot(__LINE__, 0, (PREDICATE) != 0)
#define __any(PREDICATE) simt::any(__LINE__, 0, (PREDICATE) != 0)
#define __all(PREDICATE) simt::all(__LINE__, 0, (PREDICATE) != 0)
#define __ballot_sync(MASK, PREDICATE) simt::ballot(__LINE__, MASK, (PREDICATE) != 0)
#define __any_sync(MASK, PREDICATE) simt::any(__LINE__, MASK, (PREDICATE) != 0)
#define __all_sync(MASK, PREDICATE) simt::all(__LINE__, MASK, (PREDICATE) != 0)
#define __activemask() simt::active(__LINE__)
// The mask may be left out.
#define __syncwarp(...) simt_wave_barrier(simt::Mask(__VA_ARGS__), __LINE__)

inline unsigned __lane_id() { return simt_lane(); }
