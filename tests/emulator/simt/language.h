// Words of the language.

#pragma once

typedef decltype(sizeof(0)) size_t;

// The rewriter (rtc/rewrite.cpp) finds kernels by these two and takes them out.
#define __global__ simt_kernel_marker
#define __launch_bounds__(THREADS, ...) simt_bounds_marker(THREADS)

#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
// A static would be one array for all blocks that are under way: such a declaration does not compile.
#define __shared__ shared_memory_must_be_declared_by_FLEETCAL_SHARED
#define FLEETCAL_SHARED(TYPE, NAME, COUNT)                                                          \
    static const char NAME##_declaration = 0;                                                       \
    TYPE(&NAME)[COUNT] = *static_cast<TYPE(*)[COUNT]>(                                               \
        simt_shared(&NAME##_declaration, #NAME, sizeof(TYPE[COUNT]), alignof(TYPE)))

// The compiler announces what becomes plain accesses; what stays a call is announced here.
namespace simt {
inline __attribute__((always_inline)) void* copy(void* to, const void* from, size_t bytes) {
    if (!__builtin_constant_p(bytes) || bytes > 16) {
        simt_access(from, bytes, 0);
        simt_access(to, bytes, 1);
    }
    return __builtin_memcpy(to, from, bytes);
}

inline __attribute__((always_inline)) void* fill(void* to, int value, size_t bytes) {
    if (!__builtin_constant_p(bytes) || bytes > 16) simt_access(to, bytes, 1);
    return __builtin_memset(to, value, bytes);
}
}  // namespace simt
#define memcpy(TO, FROM, BYTES) simt::copy(TO, FROM, BYTES)
#define memset(TO, VALUE, BYTES) simt::fill(TO, VALUE, BYTES)
#define __builtin_trap() simt_trap()
#define __trap() simt_trap()
#define abort() simt_trap()
#define assert(CONDITION) ((CONDITION) ? (void)0 : simt_trap())

template <typename Value> inline Value __ldg(const Value* from) { return *from; }
template <typename Value> inline Value __ldcs(const Value* from) { return *from; }
template <typename Value> inline Value __ldcg(const Value* from) { return *from; }
template <typename Value> inline Value __ldca(const Value* from) { return *from; }
template <typename Value> inline void __stcs(Value* to, Value value) { *to = value; }
template <typename Value> inline void __stcg(Value* to, Value value) { *to = value; }
template <typename Value> inline void __stwt(Value* to, Value value) { *to = value; }

#if !defined(__clang__)
#define __builtin_nontemporal_load(FROM) (*(FROM))
#define __builtin_nontemporal_store(VALUE, TO) ((void)(*(TO) = (VALUE)))
#define __builtin_assume(CONDITION) ((CONDITION) ? (void)0 : __builtin_unreachable())
#endif

// Entries that the runtime calls: `Kernel(arguments...)` with the arguments behind these pointers.
namespace simt {
template <int... Index> struct Indices {};
template <int Count, int... Index> struct Count_ : Count_<Count - 1, Count - 1, Index...> {};
template <int... Index> struct Count_<0, Index...> { typedef Indices<Index...> type; };

template <typename... Argument, int... Index>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(Argument...), void** arguments, Indices<Index...>) {
    kernel(*static_cast<Argument*>(arguments[Index])...);
}

template <typename... Argument>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(Argument...), void** arguments) {
    call(kernel, arguments, typename Count_<sizeof...(Argument)>::type());
}

// How many bytes each argument of a kernel has; their number.
template <typename... Argument>
__attribute__((no_sanitize("thread"))) inline unsigned argument_bytes(void (*)(Argument...), unsigned* to) {
    unsigned count = 0;
    const unsigned bytes[] = {0, unsigned(sizeof(Argument))...};
    for (; count < sizeof...(Argument); ++count) to[count] = bytes[count + 1];
    return count;
}
}  // namespace simt
