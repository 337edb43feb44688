// The launch that does nothing.
extern "C" __global__ void __launch_bounds__(1024) latency_empty() {}
