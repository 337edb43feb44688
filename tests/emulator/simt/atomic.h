// Atomics of CUDA and HIP. Threads share one thread of the host, so a plain access between two switches is atomic.

#pragma once

namespace simt {
// A value's type where it must not be deduced.
template <typename Value> struct Same { typedef Value type; };

template <typename Value> __attribute__((noinline, no_sanitize("thread"))) Value unseen_load(const volatile Value* from) {
    return *from;
}

template <typename Value> __attribute__((noinline, no_sanitize("thread"))) void unseen_store(volatile Value* to, Value value) {
    *to = value;
}

inline constexpr unsigned ordered(unsigned what, int order) {
    return what | (order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE ? unsigned(SIMT_ACQUIRES) : 0) |
           (order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE && order != __ATOMIC_CONSUME ? unsigned(SIMT_RELEASES) : 0);
}

template <typename Value> inline Value load(const volatile Value* from, int order) {
    simt_atomic(const_cast<const Value*>(from), sizeof(Value), ordered(SIMT_READS, order));
    return unseen_load(from);
}

template <typename Value> inline void store(volatile Value* to, typename Same<Value>::type value, int order) {
    simt_atomic(const_cast<const Value*>(to), sizeof(Value), ordered(SIMT_WRITES, order));
    unseen_store(to, value);
}

template <typename Value, typename Change> inline Value update(volatile Value* at, int order, Change change) {
    simt_atomic(const_cast<const Value*>(at), sizeof(Value), ordered(SIMT_READS | SIMT_WRITES, order));
    const Value old = unseen_load(at);
    unseen_store(at, Value(change(old)));
    return old;
}

template <typename Value>
inline bool compare_exchange(volatile Value* at, Value* expected, typename Same<Value>::type wanted, int order) {
    const Value found = update(at, order, [=](Value old) { return old == *expected ? wanted : old; });
    const bool same = found == *expected;
    *expected = found;
    return same;
}
}  // namespace simt

#define SIMT_ATOMIC(NAME, RESULT)                                                                              \
    template <typename Value> inline Value NAME(Value* at, typename simt::Same<Value>::type value) {           \
        return simt::update(at, __ATOMIC_RELAXED, [=](Value old) { return RESULT; });                          \
    }

SIMT_ATOMIC(atomicAdd, old + value)
SIMT_ATOMIC(atomicSub, old - value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicAnd, old & value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
SIMT_ATOMIC(unsafeAtomicAdd, old + value)
SIMT_ATOMIC(atomicAdd_block, old + value)
SIMT_ATOMIC(atomicAdd_system, old + value)
#undef SIMT_ATOMIC

template <typename Value>
inline Value atomicCAS(Value* at, typename simt::Same<Value>::type expected, typename simt::Same<Value>::type wanted) {
    return simt::update(at, __ATOMIC_RELAXED, [=](Value old) { return old == expected ? wanted : old; });
}

// Builtins of HIP's compiler, which have a scope.
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#define __hip_atomic_load(FROM, ORDER, SCOPE) simt::load(FROM, ORDER)
#define __hip_atomic_store(TO, VALUE, ORDER, SCOPE) simt::store(TO, VALUE, ORDER)
#define SIMT_UPDATE(AT, VALUE, ORDER, RESULT) \
    simt::update(AT, ORDER, [value = (VALUE)](auto old) { return decltype(old)(RESULT); })
#define __hip_atomic_exchange(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, value)
#define __hip_atomic_fetch_add(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, old + value)
#define __hip_atomic_fetch_and(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, old & value)
#define __hip_atomic_fetch_or(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, old | value)
#define __hip_atomic_fetch_xor(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, old ^ value)
#define __hip_atomic_fetch_min(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, value < old ? value : old)
#define __hip_atomic_fetch_max(AT, VALUE, ORDER, SCOPE) SIMT_UPDATE(AT, VALUE, ORDER, old < value ? value : old)
#define __hip_atomic_compare_exchange_strong(AT, EXPECTED, WANTED, ORDER, FAILURE, SCOPE) \
    simt::compare_exchange(AT, EXPECTED, WANTED, ORDER)
#define __hip_atomic_compare_exchange_weak(AT, EXPECTED, WANTED, ORDER, FAILURE, SCOPE) \
    simt::compare_exchange(AT, EXPECTED, WANTED, ORDER)
