#include <cub/cub.cuh>
#include <algorithm>
#include <cstdio>
#include <vector>
// CUB's DeviceScan::InclusiveSum of 2^28 numbers, and a device copy of as many: medians of 50 after 10, back to back.
template <typename Element>
void measure(const char* name, double scale, double shift) {
    const size_t n = size_t(1) << 28, array = n * sizeof(Element);
    Element *in, *out; cudaMalloc(&in, array); cudaMalloc(&out, array);
    std::vector<Element> host(n);
    for (size_t i = 0; i < n; ++i) host[i] = Element(double((i * 2654435761u) & 0xffff) * scale - shift);
    cudaMemcpy(in, host.data(), array, cudaMemcpyHostToDevice);
    void* temp = nullptr; size_t bytes = 0;
    cub::DeviceScan::InclusiveSum(temp, bytes, in, out, n); cudaMalloc(&temp, bytes);
    cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
    for (int kind = 0; kind < 2; ++kind) {
        std::vector<float> ms;
        for (int r = 0; r < 60; ++r) {
            cudaEventRecord(a);
            if (kind == 0) cub::DeviceScan::InclusiveSum(temp, bytes, in, out, n);
            else cudaMemcpyAsync(out, in, array, cudaMemcpyDeviceToDevice);
            cudaEventRecord(b); cudaEventSynchronize(b);
            float t; cudaEventElapsedTime(&t, a, b); if (r >= 10) ms.push_back(t);
        }
        std::sort(ms.begin(), ms.end());
        printf("cub_scan,%s,%s,elements=%zu,min_ms=%.6f,median_ms=%.6f,median_GBs=%.1f\n", kind ? "copy" : "inclusive_sum",
               name, n, ms.front(), ms[ms.size() / 2], 2 * array / ms[ms.size() / 2] / 1e6);
    }
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) printf("failed: %s\n", cudaGetErrorString(error));
    cudaFree(in); cudaFree(out); cudaFree(temp);
}
int main() {
    measure<float>("f32", 1. / 65536, 0.5);
    measure<int>("i32", 1, 32768);
    measure<double>("f64", 1. / 65536, 0.5);
}
