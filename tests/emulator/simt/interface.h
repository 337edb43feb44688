// Calls from compiled kernels into the runtime: the one header that both sides include.

#pragma once

// A thread of a kernel never sees another value, so its compiler may keep the first.
#define SIMT_CONSTANT __attribute__((const))

struct SimtIndex {
    unsigned x, y, z;
};

// What an atomic access is, as bits.
enum SimtAtomic : unsigned { SIMT_READS = 1, SIMT_WRITES = 2, SIMT_ACQUIRES = 4, SIMT_RELEASES = 8 };

// Lane to read from in simt_shuffle: the first that takes part.
static const int SIMT_FIRST_LANE = -1;

extern "C" {
SimtIndex simt_thread_index() SIMT_CONSTANT;
SimtIndex simt_block_index() SIMT_CONSTANT;
SimtIndex simt_block_dimensions() SIMT_CONSTANT;
SimtIndex simt_grid_dimensions() SIMT_CONSTANT;
unsigned simt_lane() SIMT_CONSTANT;
unsigned simt_wave_size() SIMT_CONSTANT;

// Waits for all threads of the block at this line; how many of them gave a predicate that holds.
unsigned simt_barrier(int line, int predicate);

// Meets lanes of the wave: those of the mask, or, for mask 0, all that are not held up elsewhere. What the source lane
// gave; what an absent lane gives means nothing, and differs from seed to seed.
unsigned long long simt_shuffle(unsigned long long mask, int line, unsigned long long bits, int source_lane);
// The same meeting: lanes whose predicate holds, and all that took part.
unsigned long long simt_ballot(unsigned long long mask, int line, int predicate, unsigned long long* taking_part);
// The same meeting, after which its lanes see what each of them has written.
void simt_wave_barrier(unsigned long long mask, int line);

// The block's own array of the declaration at this address.
void* simt_shared(const void* declaration, const char* name, unsigned long long bytes, unsigned long long alignment);

// Called before an atomic access (SimtAtomic), after which nothing else runs until it is done.
void simt_atomic(const void* at, unsigned long long bytes, unsigned what);
void simt_fence();
// Called before accesses that the compiler does not announce.
void simt_access(const void* at, unsigned long long bytes, int writes);
// Lets others run.
void simt_yield();
long long simt_clock();
void simt_trap() __attribute__((noreturn));
}
