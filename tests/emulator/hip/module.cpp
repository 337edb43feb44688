// Modules and launches. A code object is a shared library made by rtc/compiler.cpp, bytes and all.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include "../runtime/launch.h"
#include "../runtime/region.h"
#include "hip.h"

using namespace emulator;

namespace {

const unsigned BLOCK_THREADS_MAX = 1024;
const unsigned ARGUMENTS_MAX = 64;

struct Module;

struct Function {
    std::string name;
    void (*entry)(void**);
    unsigned bound;
    std::vector<unsigned> argument_bytes;
};

struct Module {
    void* library;
    std::vector<std::unique_ptr<Region>> data;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

// The pointer comes without a size: an ELF file ends with its section headers.
size_t bytes_of(const void* image) {
    const auto* header = static_cast<const Elf64_Ehdr*>(image);
    if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return 0;
    return header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
}

void* load(const void* image, size_t bytes) {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/fleetcal-emulator-XXXXXX";
    const int file = mkstemp(path.data());
    if (file < 0) return nullptr;
    size_t written = 0;
    while (written < bytes) {
        const ssize_t now = write(file, static_cast<const char*>(image) + written, bytes - written);
        if (now <= 0) break;
        written += size_t(now);
    }
    close(file);
    void* library = written == bytes ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) std::fprintf(stderr, "fleetcal emulator: a program cannot be loaded: %s\n", dlerror());
    unlink(path.c_str());
    return library;
}

// Tables and variables of the program, which its kernels may reach.
void add_data(Module& module) {
    link_map* map = nullptr;
    if (dlinfo(module.library, RTLD_DI_LINKMAP, &map) != 0) return;
    struct Search {
        Module* module;
        uint64_t base;
    } search{&module, map->l_addr};
    const auto look = [](dl_phdr_info* info, size_t, void* data) {
        auto* search = static_cast<Search*>(data);
        if (info->dlpi_addr != search->base) return 0;
        for (int index = 0; index < info->dlpi_phnum; ++index) {
            const auto& part = info->dlpi_phdr[index];
            if (part.p_type != PT_LOAD || part.p_memsz == 0) continue;
            auto region = std::make_unique<Region>(RegionKind::Module, info->dlpi_addr + part.p_vaddr, part.p_memsz);
            region->writable = part.p_flags & PF_W;
            add_region(region.get());
            search->module->data.push_back(std::move(region));
        }
        return 1;
    };
    dl_iterate_phdr(look, &search);
}

std::unique_ptr<Function> find(const Module& module, const std::string& name) {
    const auto symbol = [&](const char* prefix) { return dlsym(module.library, (prefix + name).c_str()); };
    auto entry = reinterpret_cast<void (*)(void**)>(symbol("simt_entry_"));
    auto bound = reinterpret_cast<unsigned (*)()>(symbol("simt_bound_"));
    auto arguments = reinterpret_cast<unsigned (*)(unsigned*)>(symbol("simt_arguments_"));
    if (!entry || !bound || !arguments) return nullptr;
    unsigned bytes[ARGUMENTS_MAX];
    const unsigned count = arguments(bytes);
    const unsigned threads = bound() ? bound() : BLOCK_THREADS_MAX;
    return std::make_unique<Function>(Function{name, entry, threads, {bytes, bytes + count}});
}

// Copies of what the pointers show, for a launch that may come later.
std::vector<std::vector<uint64_t>> copied(const Function& function, void** arguments) {
    std::vector<std::vector<uint64_t>> all;
    for (size_t index = 0; index < function.argument_bytes.size(); ++index) {
        std::vector<uint64_t> words((function.argument_bytes[index] + 7) / 8);
        std::memcpy(words.data(), arguments[index], function.argument_bytes[index]);
        all.push_back(std::move(words));
    }
    return all;
}

}  // namespace

HIP_API int hipModuleLoadData(Module** to, const void* image) {
    ENTER;
    const size_t bytes = bytes_of(image);
    void* library = bytes ? load(image, bytes) : nullptr;
    if (!library) return said(INVALID_IMAGE);
    auto module = std::make_unique<Module>();
    module->library = library;
    add_data(*module);
    *to = module.release();
    return SUCCESS;
}

HIP_API int hipModuleLoadDataEx(Module** to, const void* image, unsigned, int*, void**) { return hipModuleLoadData(to, image); }

HIP_API int hipModuleUnload(Module* module) {
    Entered entered;
    for (auto& region : module->data) remove_region(region.get());
    dlclose(module->library);
    delete module;
    return SUCCESS;
}

HIP_API int hipModuleGetFunction(Function** to, Module* module, const char* name) {
    ENTER;
    auto& function = module->functions[name];
    if (!function) function = find(*module, name);
    if (!function) return said(NOT_FOUND);
    *to = function.get();
    return SUCCESS;
}

HIP_API int hipFuncGetAttribute(int* value, int which, Function* function) {
    // HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK; a compiled program for the host knows no registers of a device.
    *value = which == 0 ? int(function->bound) : 0;
    return SUCCESS;
}

HIP_API int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int threads, size_t) {
    *blocks = threads > 0 ? 2048 / threads : 0;
    return SUCCESS;
}

HIP_API int hipModuleLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream, void** arguments,
                                  void** extra) {
    ENTER;
    if (extra || shared_bytes > 0) return said(NOT_SUPPORTED);
    const uint64_t threads = uint64_t(block_x) * block_y * block_z, blocks = uint64_t(grid_x) * grid_y * grid_z;
    if (threads == 0 || threads > function->bound || blocks == 0 || blocks * threads > UINT32_MAX) return said(INVALID_CONFIGURATION);
    return enqueue(stream, [=, words = copied(*function, arguments)]() mutable {
        std::vector<void*> pointers;
        for (auto& word : words) pointers.push_back(word.data());
        const Work work{function->name, function->entry, pointers.data(), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}};
        const Fault fault = run(work);
        return fault.error == 0 ? int(SUCCESS) : lose(fault.error, fault.words);
    });
}
