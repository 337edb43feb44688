// Functions of the mathematical library under their device names; approximate ones are the exact ones.

#pragma once

#define SIMT_MATH_1(NAME)                                   \
    extern "C" double NAME(double);                         \
    extern "C" float NAME##f(float);                        \
    inline float NAME(float value) { return NAME##f(value); }
#define SIMT_MATH_2(NAME)                                   \
    extern "C" double NAME(double, double);                 \
    extern "C" float NAME##f(float, float);                 \
    inline float NAME(float a, float b) { return NAME##f(a, b); }

SIMT_MATH_1(sqrt)
SIMT_MATH_1(exp)
SIMT_MATH_1(exp2)
SIMT_MATH_1(log)
SIMT_MATH_1(log2)
SIMT_MATH_1(sin)
SIMT_MATH_1(cos)
SIMT_MATH_1(tan)
SIMT_MATH_1(tanh)
SIMT_MATH_1(erf)
SIMT_MATH_1(fabs)
SIMT_MATH_1(floor)
SIMT_MATH_1(ceil)
SIMT_MATH_1(rint)
SIMT_MATH_1(trunc)
SIMT_MATH_2(pow)
SIMT_MATH_2(fmin)
SIMT_MATH_2(fmax)
SIMT_MATH_2(fmod)
#undef SIMT_MATH_1
#undef SIMT_MATH_2

extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline double rsqrt(double value) { return 1.0 / sqrt(value); }
inline float __frcp_rn(float value) { return 1.0f / value; }
inline float __fsqrt_rn(float value) { return sqrtf(value); }
inline float __frsqrt_rn(float value) { return rsqrtf(value); }
inline float __expf(float value) { return expf(value); }
inline float __exp2f(float value) { return exp2f(value); }
inline float __logf(float value) { return logf(value); }
inline float __log2f(float value) { return log2f(value); }
inline float __sinf(float value) { return sinf(value); }
inline float __cosf(float value) { return cosf(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline bool isnan(float value) { return value != value; }
inline bool isnan(double value) { return value != value; }

template <typename Value> inline Value min(Value a, Value b) { return b < a ? b : a; }
template <typename Value> inline Value max(Value a, Value b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
