// Streams, events and graphs. A stream does what it is given before the call returns; a captured one keeps it.

#include <chrono>

#include "hip.h"

using namespace emulator;

namespace {

struct Event {
    uint64_t ns = 0;
};

// What hipGraphInstantiate made: a graph that can no longer change.
struct Executable {
    std::vector<Step> steps;
};

int instantiate(Executable** to, std::shared_ptr<Graph>* graph) {
    *to = new Executable{(*graph)->steps};
    return SUCCESS;
}

}  // namespace

namespace emulator {

uint64_t now_ns() {
    static uint64_t last = 0;
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    const uint64_t ns = uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
    return last = ns > last ? ns : last + 1;
}

int enqueue(Stream* stream, Step step) {
    if (!stream || !stream->capture) return step();
    stream->capture->steps.push_back(std::move(step));
    return SUCCESS;
}

}  // namespace emulator

HIP_API int hipStreamCreate(Stream** stream) { ENTER; *stream = new Stream; return SUCCESS; }
HIP_API int hipStreamCreateWithFlags(Stream** stream, unsigned) { return hipStreamCreate(stream); }
HIP_API int hipStreamCreateWithPriority(Stream** stream, unsigned, int) { return hipStreamCreate(stream); }
HIP_API int hipStreamDestroy(Stream* stream) { delete stream; return SUCCESS; }

HIP_API int hipStreamSynchronize(Stream* stream) {
    ENTER;
    return stream && stream->capture ? said(CAPTURE_UNSUPPORTED) : int(SUCCESS);
}

HIP_API int hipStreamQuery(Stream* stream) { return hipStreamSynchronize(stream); }
HIP_API int hipStreamWaitEvent(Stream*, Event*, unsigned) { ENTER; return SUCCESS; }

HIP_API int hipEventCreate(Event** event) { ENTER; *event = new Event; return SUCCESS; }
HIP_API int hipEventCreateWithFlags(Event** event, unsigned) { return hipEventCreate(event); }
HIP_API int hipEventDestroy(Event* event) { delete event; return SUCCESS; }

HIP_API int hipEventRecord(Event* event, Stream* stream) {
    ENTER;
    return enqueue(stream, [=] {
        event->ns = now_ns();
        return int(SUCCESS);
    });
}

HIP_API int hipEventSynchronize(Event*) { ENTER; return SUCCESS; }
HIP_API int hipEventQuery(Event*) { ENTER; return SUCCESS; }

HIP_API int hipEventElapsedTime(float* ms, Event* start, Event* stop) {
    ENTER;
    if (start->ns == 0 || stop->ns == 0) return said(INVALID_HANDLE);
    *ms = float((double(stop->ns) - double(start->ns)) / 1e6);
    return SUCCESS;
}

HIP_API int hipStreamBeginCapture(Stream* stream, int) {
    ENTER;
    if (!stream || stream->capture) return said(CAPTURE_UNSUPPORTED);
    stream->capture = std::make_shared<Graph>();
    return SUCCESS;
}

HIP_API int hipStreamEndCapture(Stream* stream, std::shared_ptr<Graph>** graph) {
    ENTER;
    if (!stream || !stream->capture) return said(CAPTURE_UNMATCHED);
    *graph = new std::shared_ptr<Graph>(std::move(stream->capture));
    return SUCCESS;
}

HIP_API int hipStreamIsCapturing(Stream* stream, int* status) {
    *status = stream && stream->capture ? 1 : 0;
    return SUCCESS;
}

HIP_API int hipGraphInstantiate(Executable** to, std::shared_ptr<Graph>* graph, void*, char*, size_t) {
    ENTER;
    return instantiate(to, graph);
}

HIP_API int hipGraphInstantiateWithFlags(Executable** to, std::shared_ptr<Graph>* graph, unsigned long long) {
    ENTER;
    return instantiate(to, graph);
}

HIP_API int hipGraphUpload(Executable*, Stream*) { ENTER; return SUCCESS; }

HIP_API int hipGraphLaunch(Executable* graph, Stream* stream) {
    ENTER;
    for (const Step& step : graph->steps) {
        if (int status = enqueue(stream, step)) return status;
    }
    return SUCCESS;
}

HIP_API int hipGraphDestroy(std::shared_ptr<Graph>* graph) { delete graph; return SUCCESS; }
HIP_API int hipGraphExecDestroy(Executable* graph) { delete graph; return SUCCESS; }
