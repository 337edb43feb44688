// Runs support kernels one after the other on two buffers, and appends what they left to the file `found`.

#include <initializer_list>

alignas(16) static char to[BYTES], from[BYTES];
static std::FILE* found = std::fopen("found", "wb");

// Gives a buffer these words, `bytes` of each.
static void set(char* buffer, std::initializer_list<u64> words, size_t bytes) {
    for (u64 word : words) {
        std::memcpy(buffer, &word, bytes);
        buffer += bytes;
    }
}

// An argument as the parameter wants it: an address of any type, or a number.
template <typename Parameter>
static Parameter argument(char* buffer) { return reinterpret_cast<Parameter>(buffer); }
template <typename Parameter>
static Parameter argument(u64 word) { return word; }

template <typename... Parameters, typename... Arguments>
static void start(u64 blocks, u64 threads, void (*entry)(Parameters...), Arguments... arguments) {
    launch<Parameters...>(blocks, threads, entry, argument<Parameters>(arguments)...);
}

static void write_out(size_t bytes) {
    std::fwrite(to, 1, bytes, found);
    std::fflush(found);
}
