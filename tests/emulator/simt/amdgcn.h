// Builtins of AMD's target that have a meaning without its hardware. Matrix and packed instructions have none here:
// kernels ask for the macro of an architecture before they use them, and none is defined.

#pragma once

#define __AMDGCN_WAVEFRONT_SIZE FLEETCAL_EMULATOR_WAVE_SIZE

#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() simt_wave_barrier(0, __LINE__)
#define __builtin_amdgcn_fence(...) simt_fence()
#define __builtin_amdgcn_s_sleep(CYCLES) simt_yield()
#define __builtin_amdgcn_s_memtime() ((unsigned long long)simt_clock())
#define __builtin_readcyclecounter() ((unsigned long long)simt_clock())
#define __builtin_amdgcn_s_memrealtime() ((unsigned long long)(simt_clock() / 16))
#define __builtin_amdgcn_readfirstlane(VALUE) simt::first_lane(__LINE__, VALUE)
#define __builtin_amdgcn_readlane(VALUE, LANE) simt::shuffle(__LINE__, 0, VALUE, LANE)
#define __builtin_amdgcn_ds_bpermute(ADDRESS, VALUE) simt::shuffle(__LINE__, 0, VALUE, (ADDRESS) >> 2)
#define __builtin_amdgcn_ballot_w64(PREDICATE) simt::ballot(__LINE__, 0, PREDICATE)
#define __builtin_amdgcn_ballot_w32(PREDICATE) (unsigned(simt::ballot(__LINE__, 0, PREDICATE)))
#define __builtin_amdgcn_wavefrontsize() simt_wave_size()
#define __builtin_amdgcn_sched_barrier(MASK) ((void)0)
#define __builtin_amdgcn_s_waitcnt(COUNTERS) ((void)0)
#define __builtin_amdgcn_rcpf(VALUE) (1.0f / (VALUE))
#define __builtin_amdgcn_rsqf(VALUE) rsqrtf(VALUE)
#define __builtin_amdgcn_sinf(VALUE) sinf((VALUE) * 6.2831853f)
#define __builtin_amdgcn_exp2f(VALUE) exp2f(VALUE)
#define __builtin_amdgcn_logf(VALUE) log2f(VALUE)

namespace simt {
// Set bits of the mask's half that belong to lanes below this one, added to a sum.
inline unsigned bits_below(unsigned mask, unsigned sum, unsigned first_lane) {
    const unsigned own = simt_lane();
    if (own <= first_lane) return sum;
    const unsigned below = own - first_lane;
    return sum + unsigned(__builtin_popcount(below >= 32 ? mask : mask & ((1u << below) - 1)));
}
}  // namespace simt
#define __builtin_amdgcn_mbcnt_lo(MASK, SUM) simt::bits_below(MASK, SUM, 0)
#define __builtin_amdgcn_mbcnt_hi(MASK, SUM) simt::bits_below(MASK, SUM, 32)
