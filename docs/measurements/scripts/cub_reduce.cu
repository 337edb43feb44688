#include <cub/cub.cuh>
#include <algorithm>
#include <cstdio>
#include <vector>
int main() {
    const size_t n = size_t(1) << 28;
    float *in, *out; cudaMalloc(&in, n * 4); cudaMalloc(&out, 4);
    std::vector<float> host(n); for (size_t i = 0; i < n; ++i) host[i] = float((i * 2654435761u) & 0xffff) / 65536.f - 0.5f;
    cudaMemcpy(in, host.data(), n * 4, cudaMemcpyHostToDevice);
    void* temp = nullptr; size_t bytes = 0;
    cub::DeviceReduce::Sum(temp, bytes, in, out, n); cudaMalloc(&temp, bytes);
    cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
    for (int kind = 0; kind < 2; ++kind) {
        std::vector<float> ms;
        for (int r = 0; r < 60; ++r) {
            cudaEventRecord(a);
            if (kind == 0) cub::DeviceReduce::Sum(temp, bytes, in, out, n); else cub::DeviceReduce::Max(temp, bytes, in, out, n);
            cudaEventRecord(b); cudaEventSynchronize(b);
            float t; cudaEventElapsedTime(&t, a, b); if (r >= 10) ms.push_back(t);
        }
        std::sort(ms.begin(), ms.end());
        printf("cub_reduce,%s,elements=%zu,min_ms=%.6f,median_ms=%.6f,median_GBs=%.1f\n", kind ? "max" : "sum", n, ms.front(), ms[ms.size()/2], n*4/ms[ms.size()/2]/1e6);
    }
}
