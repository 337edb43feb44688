// Integer intrinsics and reinterpretations.

#pragma once

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(unsigned(bits)); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll((unsigned long long)bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}

#define SIMT_REINTERPRET(NAME, TO, FROM) \
    inline TO NAME(FROM value) { return simt::from_bits<TO>(simt::to_bits(value)); }
SIMT_REINTERPRET(__float_as_int, int, float)
SIMT_REINTERPRET(__float_as_uint, unsigned, float)
SIMT_REINTERPRET(__int_as_float, float, int)
SIMT_REINTERPRET(__uint_as_float, float, unsigned)
SIMT_REINTERPRET(__double_as_longlong, long long, double)
SIMT_REINTERPRET(__longlong_as_double, double, long long)
#undef SIMT_REINTERPRET
