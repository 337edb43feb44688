/* A stand-in for libamdhip64 and hiprtc with two devices whose memory is the host's. It runs the kernels that the tests
 * launch, by name. Macros in front of this text leave parts of it out, as old releases do. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { INVALID = 1, MEMORY = 2, NO_IMAGE = 200, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700 };
enum { MEMORY_BYTES = 1 << 30, PAGE = 4096 };

/* Objects that were made and not given back; launches of graphs; whether a launch went astray. */
static int live, graph_launches, lost, current = -1, captured = -1, waited = 1;
static double clock_ms;
int fake_live(void) { return live; }
int fake_graph_launches(void) { return graph_launches; }

#if defined(EMULATED)
int fleetcal_emulator_version(void) { return 3; }
#endif

int hipInit(unsigned flags) { return flags; }
int hipRuntimeGetVersion(int *version) { *version = 60342131; return 0; }
const char *hipGetErrorName(int status) { return status == ILLEGAL ? "hipErrorIllegalAddress" : status == 31415 ? NULL : "hipError"; }
const char *hipGetErrorString(int status) { return status == ILLEGAL ? "an illegal memory access was encountered" : "words"; }
int hipGetDeviceCount(int *count) {
#if defined(NO_DEVICES)
    *count = 0; return 100;
#else
    *count = 2; return 0;
#endif
}
int hipSetDevice(int device) { current = device; return lost; }
int hipDeviceGetName(char *name, int bytes, int device) { snprintf(name, bytes, "Stand-in %d", device); return 0; }
int hipDeviceTotalMem(size_t *bytes, int device) { *bytes = MEMORY_BYTES; return 0; }
int hipDeviceGetAttribute(int *value, int which, int device) {
    switch (which) {
    case 63: *value = 4 + device; return 0;
    case 87: *value = device == 0 ? 64 : 32; return 0;
    case 19: *value = 4 << 20; return 0;
    case 67: *value = 0xc1; return 0;
    case 68: *value = device; return 0;
    case 69: *value = 0; return 0;
    case 89: *value = device == 0; return 0;
    }
    return INVALID;
}
static const char *architecture(int device) { return device == 0 ? "gfx90a:sramecc+:xnack-" : "gfx1030"; }
#if defined(OLD_PROPERTIES)
int hipGetDeviceProperties(void *to, int device) { memset(to, 0, 792); strcpy((char *)to + 396, architecture(device)); return 0; }
#else
int hipGetDevicePropertiesR0600(void *to, int device) { memset(to, 0, 1472); strcpy((char *)to + 1160, architecture(device)); return 0; }
int hipDeviceGetUuid(char *uuid, int device) { memcpy(uuid, device == 0 ? "9391bc8c3c4dbf45" : "XX\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16); return 0; }
#endif

int hipMemGetInfo(size_t *free, size_t *total) { *free = *total = MEMORY_BYTES; return lost; }
int hipMalloc(void **to, size_t bytes) {
    if (current < 0) return INVALID;
    if (bytes > MEMORY_BYTES) return MEMORY;
    *to = aligned_alloc(256, (bytes + 255) / 256 * 256);
    live++;
    return lost;
}
int hipFree(void *address) { free(address); live--; return 0; }
int hipHostMalloc(void **to, size_t bytes, unsigned flags) { *to = malloc(bytes); live++; return 0; }
int hipHostFree(void *address) { free(address); live--; return 0; }
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    if (kind != 1 && kind != 2) return INVALID;
    memcpy(to, from, bytes);
    return lost;
}

int hipStreamCreateWithFlags(void **to, unsigned flags) { *to = malloc(1); live++; return flags != 1; }
int hipStreamDestroy(void *stream) { free(stream); live--; return 0; }
int hipStreamSynchronize(void *stream) { waited = 1; return lost; }
int hipEventCreateWithFlags(void **to, unsigned flags) { *to = malloc(sizeof(double)); live++; return flags; }
int hipEventDestroy(void *event) { free(event); live--; return 0; }
int hipEventRecord(void *event, void *stream) { waited = 0; *(double *)event = clock_ms += 0.001; return lost; }
int hipEventQuery(void *event) { return waited ? 0 : NOT_READY; }
int hipEventElapsedTime(float *to, void *start, void *stop) { *to = *(double *)stop - *(double *)start; return waited ? 0 : NOT_READY; }

int hipModuleLoadData(void **to, const void *image) {
    if (memcmp(image, "code for ", 9) != 0) return NO_IMAGE;
    *to = malloc(1); live++;
    return 0;
}
int hipModuleUnload(void *module) { free(module); live--; return 0; }
int hipModuleGetFunction(void **to, void *module, const char *name) {
    static char names[64][64];
    int place = 0;
    while (names[place][0] && strcmp(names[place], name) != 0) if (++place == 64) return NOT_FOUND;
    strcpy(names[place], name);
    *to = names[place];
    return 0;
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
    const char *name = function;
    uint64_t **words = (uint64_t **)parameters;
    if (!gx || gy != 1 || gz != 1 || !bx || by != 1 || bz != 1 || shared || extra || !stream || current < 0) return INVALID;
    if (captured >= 0) { captured++; return 0; }
    clock_ms += 0.01;
    if (gx == 666) return lost = ILLEGAL;
    if (strcmp(name, "support_poison_b32") == 0) {
        for (uint64_t index = 0; index < *words[1]; index++) ((uint32_t *)*words[0])[index] = *words[2];
    } else if (strcmp(name, "support_gather_f32") == 0) {
        for (uint64_t index = 0; index < *words[2]; index++)
            ((double *)*words[0])[index] = ((float *)*words[1])[*words[3] + index * *words[4]];
    } else if (strcmp(name, "support_fill_periodic_b32") == 0) {
        for (uint64_t index = 0; index < *words[2]; index++)
            ((uint32_t *)*words[0])[index] = ((uint32_t *)*words[1])[(*words[3] + index) / *words[5] % *words[4]];
    } else if (strncmp(name, "stream_copy_f32", 15) == 0) {
        memcpy((void *)*words[0], (void *)*words[1], 4 << 12);
    } else if (strncmp(name, "support_", 8) != 0) {
        return INVALID;
    }
    return lost;
}

#if !defined(NO_GRAPHS)
int hipStreamBeginCapture(void *stream, int mode) { captured = 0; return mode != 1; }
int hipStreamEndCapture(void *stream, void **to) { int *graph = malloc(sizeof(int)); *graph = captured; captured = -1; live++; *to = graph; return 0; }
int hipGraphInstantiate(void **to, void *graph, void *node, char *log, size_t bytes) { *to = malloc(sizeof(int)); *(int *)*to = *(int *)graph; live++; return 0; }
int hipGraphLaunch(void *graph, void *stream) { graph_launches += *(int *)graph; clock_ms += 0.01 * *(int *)graph; return lost; }
int hipGraphExecDestroy(void *graph) { free(graph); live--; return 0; }
int hipGraphDestroy(void *graph) { free(graph); live--; return 0; }
#endif

#if !defined(NO_PAGES)
typedef struct { int type, handle, location, device; void *metadata; unsigned char flags[4]; } wanted;
int hipMemGetAllocationGranularity(size_t *bytes, const wanted *prop, int option) { *bytes = PAGE; return option; }
int hipMemAddressReserve(void **to, size_t bytes, size_t alignment, void *hint, unsigned long long flags) {
    *to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); live++;
    return *to == MAP_FAILED;
}
int hipMemAddressFree(void *address, size_t bytes) { live--; return munmap(address, bytes); }
int hipMemCreate(void **to, size_t bytes, const wanted *prop, unsigned long long flags) {
    if (prop->type != 1 || prop->handle || prop->location != 1 || prop->device != current || bytes % PAGE) return INVALID;
    *to = malloc(1); live++;
    return 0;
}
int hipMemRelease(void *memory) { free(memory); live--; return 0; }
int hipMemMap(void *address, size_t bytes, size_t offset, void *memory, unsigned long long flags) { live++; return 0; }
int hipMemUnmap(void *address, size_t bytes) { live--; return mprotect(address, bytes, PROT_NONE); }
int hipMemSetAccess(void *address, size_t bytes, const int *access, size_t count) {
    if (access[0] != 1 || access[1] != current || access[2] != 3 || count != 1) return INVALID;
    return mprotect(address, bytes, PROT_READ | PROT_WRITE);
}
#endif

/* hiprtc: code is text that names its architecture; a program that defines WRONG does not compile. */
int hiprtcVersion(int *major, int *minor) { *major = 6; *minor = 3; return 0; }
const char *hiprtcGetErrorString(int result) { return result == 6 ? "HIPRTC_ERROR_COMPILATION" : NULL; }
typedef struct { char code[64]; char log[64]; } program;
int hiprtcCreateProgram(program **to, const char *text, const char *name, int headers, const char **a, const char **b) {
    *to = calloc(1, sizeof(program));
    __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return strstr(text, "extern \"C\"") == NULL;
}
int hiprtcCompileProgram(program *program, int count, const char **options) {
    for (int index = 0; index < count; index++) {
        if (strncmp(options[index], "--offload-arch=", 15) == 0) sprintf(program->code, "code for %s", options[index] + 15);
        if (strcmp(options[index], "-DFLEETCAL_KERNEL_scale") == 0) { strcpy(program->log, "error: scale is not known"); return 6; }
        if (strcmp(options[index], "-DFLEETCAL_KERNEL_add") == 0) { strcpy(program->code, "nothing"); return 0; }
    }
    return program->code[0] == 0;
}
int hiprtcDestroyProgram(program **program) {
    free(*program);
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int hiprtcGetProgramLogSize(program *program, size_t *bytes) { *bytes = strlen(program->log) + 1; return 0; }
int hiprtcGetProgramLog(program *program, char *to) { strcpy(to, program->log); return 0; }
int hiprtcGetCodeSize(program *program, size_t *bytes) { *bytes = sizeof(program->code); return 0; }
int hiprtcGetCode(program *program, char *to) { memcpy(to, program->code, sizeof(program->code)); return 0; }
