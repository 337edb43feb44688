// Errors, their words, and the state that a fault leaves behind.

#include <atomic>
#include <cstdio>
#include <map>

#include "hip.h"

using namespace emulator;

namespace {

std::recursive_mutex mutex;
int sticky = 0;
thread_local int last = 0;

struct Named {
    const char *name, *words;
};

// The words of a fault say what happened, where a real device only says that something did.
std::string fault_words;

const std::map<int, Named>& names() {
    static const std::map<int, Named> all = {
        {SUCCESS, {"hipSuccess", "no error"}},
        {INVALID_VALUE, {"hipErrorInvalidValue", "invalid argument"}},
        {OUT_OF_MEMORY, {"hipErrorOutOfMemory", "out of memory"}},
        {INVALID_CONFIGURATION, {"hipErrorInvalidConfiguration", "invalid configuration argument"}},
        {NO_DEVICE, {"hipErrorNoDevice", "no ROCm-capable device is detected"}},
        {INVALID_DEVICE, {"hipErrorInvalidDevice", "invalid device ordinal"}},
        {INVALID_IMAGE, {"hipErrorInvalidImage", "device kernel image is invalid"}},
        {INVALID_HANDLE, {"hipErrorInvalidHandle", "invalid resource handle"}},
        {NOT_FOUND, {"hipErrorNotFound", "named symbol not found"}},
        {NOT_READY, {"hipErrorNotReady", "device not ready"}},
        {ILLEGAL_ADDRESS, {"hipErrorIllegalAddress", "an illegal memory access was encountered"}},
        {OUT_OF_RESOURCES, {"hipErrorLaunchOutOfResources", "too many resources requested for launch"}},
        {MISALIGNED_ADDRESS, {"hipErrorMisalignedAddress", "misaligned address"}},
        {LAUNCH_FAILURE, {"hipErrorLaunchFailure", "unspecified launch failure"}},
        {NOT_SUPPORTED, {"hipErrorNotSupported", "operation not supported"}},
        {CAPTURE_UNSUPPORTED, {"hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
        {CAPTURE_UNMATCHED, {"hipErrorStreamCaptureUnmatched", "the capture was not initiated in this stream"}},
    };
    return all;
}

}  // namespace

namespace emulator {

Entered::Entered() : guard(mutex) {}

int Entered::lost() const { return sticky; }

int said(int status) {
    if (status != SUCCESS) last = status;
    return status;
}

int lose(int status, const std::string& words) {
    std::fprintf(stderr, "fleetcal emulator: %s\n", words.c_str());
    sticky = status;
    const auto named = names().find(status);
    fault_words = (named == names().end() ? "unknown error" : named->second.words) + std::string(": ") + words;
    return said(status);
}

void recover() {
    sticky = last = 0;
    forget_allocations();
}

}  // namespace emulator

HIP_API const char* hipGetErrorName(int status) {
    const auto named = names().find(status);
    return named == names().end() ? "hipErrorUnknown" : named->second.name;
}

HIP_API const char* hipGetErrorString(int status) {
    if (status != SUCCESS && status == sticky) return fault_words.c_str();
    const auto named = names().find(status);
    return named == names().end() ? "unknown error" : named->second.words;
}

HIP_API int hipDrvGetErrorString(int status, const char** words) {
    *words = hipGetErrorString(status);
    return SUCCESS;
}

HIP_API int hipDrvGetErrorName(int status, const char** name) {
    *name = hipGetErrorName(status);
    return SUCCESS;
}

HIP_API int hipGetLastError() {
    if (sticky != SUCCESS) return sticky;
    const int status = last;
    last = SUCCESS;
    return status;
}

HIP_API int hipPeekAtLastError() { return sticky != SUCCESS ? sticky : last; }

HIP_API int hipDeviceReset() {
    Entered entered;
    recover();
    return SUCCESS;
}
