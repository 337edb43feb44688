// What compilers call under -fsanitize=thread, in the sanitizer's place: its library is not linked.

#include "../simt/interface.h"
#include "access.h"
#include "launch.h"

using namespace emulator;

namespace {

const int ERROR_MISALIGNED = 716;

void plain(void* at, uint64_t bytes, Access access) {
    preempt();
    check(reinterpret_cast<uint64_t>(at), bytes, access);
}

// The compiler counts on the alignment, as a device does: both would fail.
void aligned(void* at, uint64_t bytes, Access access) {
    if (reinterpret_cast<uint64_t>(at) % bytes != 0) {
        fault(ERROR_MISALIGNED, "misaligned: " + std::to_string(bytes) + " bytes at " +
                                    place_of(reinterpret_cast<uint64_t>(at)));
    }
    plain(at, bytes, access);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Volatile accesses are relaxed atomics: what kernels poll flags with.
#define ACCESSES(BYTES)                                                                                        \
    void __tsan_read##BYTES(void* at) { aligned(at, BYTES, Access::Read); }                                    \
    void __tsan_write##BYTES(void* at) { aligned(at, BYTES, Access::Write); }                                  \
    void __tsan_unaligned_read##BYTES(void* at) { plain(at, BYTES, Access::Read); }                            \
    void __tsan_unaligned_write##BYTES(void* at) { plain(at, BYTES, Access::Write); }                          \
    void __tsan_read_write##BYTES(void* at) { aligned(at, BYTES, Access::Write); }                             \
    void __tsan_unaligned_read_write##BYTES(void* at) { plain(at, BYTES, Access::Write); }                     \
    void __tsan_volatile_read##BYTES(void* at) { simt_atomic(at, BYTES, SIMT_READS); }                         \
    void __tsan_volatile_write##BYTES(void* at) { simt_atomic(at, BYTES, SIMT_WRITES); }                       \
    void __tsan_unaligned_volatile_read##BYTES(void* at) { simt_atomic(at, BYTES, SIMT_READS); }               \
    void __tsan_unaligned_volatile_write##BYTES(void* at) { simt_atomic(at, BYTES, SIMT_WRITES); }

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void* at, unsigned long bytes) { plain(at, bytes, Access::Read); }
void __tsan_write_range(void* at, unsigned long bytes) { plain(at, bytes, Access::Write); }
void simt_access(const void* at, unsigned long long bytes, int writes) {
    plain(const_cast<void*>(at), bytes, writes ? Access::Write : Access::Read);
}

void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    plain(const_cast<void*>(from), bytes, Access::Read);
    plain(to, bytes, Access::Write);
    return __builtin_memcpy(to, from, bytes);
}

void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
    plain(const_cast<void*>(from), bytes, Access::Read);
    plain(to, bytes, Access::Write);
    return __builtin_memmove(to, from, bytes);
}

void* __tsan_memset(void* to, int value, unsigned long bytes) {
    plain(to, bytes, Access::Write);
    return __builtin_memset(to, value, bytes);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
}
#pragma GCC visibility pop
