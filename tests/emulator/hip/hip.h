// What the exported calls of HIP share: status codes, the lock, handles.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// An exported call. All types are those of hip_runtime_api.h, with enums as int.
#define HIP_API extern "C" __attribute__((visibility("default")))

namespace emulator {

enum Status : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    OUT_OF_RESOURCES = 701,
    MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNMATCHED = 903,
};

// One call at a time; the whole process shares a fault, as it shares a context.
class Entered {
public:
    Entered();
    // What every call returns once a launch has gone wrong; SUCCESS before.
    int lost() const;

private:
    std::lock_guard<std::recursive_mutex> guard;
};

// Remembers an error for hipGetLastError, and hands it on.
int said(int status);
// A launch went wrong: says so on standard error, and lets every later call fail.
int lose(int status, const std::string& words);
// hipDeviceReset: as if nothing had gone wrong.
void recover();

int current_device();
bool is_device(int device);
// Bytes in use on a device may change by so many.
bool take_memory(int device, uint64_t bytes);
void give_memory(int device, uint64_t bytes);
void forget_allocations();

// A later moment at each call, nanoseconds.
uint64_t now_ns();

// What a stream does, at once or when its graph is launched.
typedef std::function<int()> Step;

struct Graph {
    std::vector<Step> steps;
};

struct Stream {
    std::shared_ptr<Graph> capture;
};

// Does a step, or keeps it where the stream is being captured.
int enqueue(Stream* stream, Step step);

}  // namespace emulator

#define ENTER                                     \
    emulator::Entered entered;                    \
    if (int lost = entered.lost()) return lost
