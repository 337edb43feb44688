// Speaks to a HIP library by the lines of its standard input, one answer a line: `ok`, or the status and its words.
//
//   program FILE [OPTION...]      compiles and loads; later launches name its entries
//   buffer NAME BYTES [FILE]      allocates; filled with the file's bytes, where one is named
//   launch ENTRY BLOCKS THREADS [NAME | NAME+BYTES | u64:NUMBER | f32:NUMBER]...
//   graph TIMES ENTRY ...         captures the launch so many times, and runs the graph
//   save NAME FILE                copies a buffer to a file
//   reset                         forgets a fault, and all buffers

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>

typedef void* Handle;

static void* library;

template <typename... Argument>
static int call(const char* name, Argument... arguments) {
    auto function = reinterpret_cast<int (*)(Argument...)>(dlsym(library, name));
    if (!function) {
        std::printf("%s is missing\n", name);
        std::exit(2);
    }
    return function(arguments...);
}

struct Buffer {
    void* address = nullptr;
    size_t bytes = 0;
};

static std::map<std::string, Buffer> buffers;
static Handle module;

static std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

static std::string said(int status) {
    if (status == 0) return "ok";
    auto words = reinterpret_cast<const char* (*)(int)>(dlsym(library, "hipGetErrorString"));
    return std::to_string(status) + " " + words(status);
}

static std::string program(std::istream& words) {
    std::string path, option;
    words >> path;
    std::vector<std::string> options;
    while (words >> option) options.push_back(option);
    std::vector<const char*> pointers;
    for (const std::string& text : options) pointers.push_back(text.c_str());
    const std::string text = read_file(path);
    Handle made;
    call("hiprtcCreateProgram", &made, text.c_str(), path.c_str(), 0, (const char**)nullptr, (const char**)nullptr);
    if (int result = call("hiprtcCompileProgram", made, int(pointers.size()), pointers.data())) {
        size_t bytes;
        call("hiprtcGetProgramLogSize", made, &bytes);
        std::string log(bytes, ' ');
        call("hiprtcGetProgramLog", made, log.data());
        for (char& letter : log) letter = letter == '\n' ? '|' : letter;
        return "does not compile: " + std::to_string(result) + " " + log.c_str();
    }
    size_t bytes;
    call("hiprtcGetCodeSize", made, &bytes);
    std::string code(bytes, ' ');
    call("hiprtcGetCode", made, code.data());
    call("hiprtcDestroyProgram", &made);
    return said(call("hipModuleLoadData", &module, (const void*)code.data()));
}

static std::string buffer(std::istream& words) {
    std::string name, file;
    Buffer made;
    words >> name >> made.bytes >> file;
    if (int status = call("hipMalloc", &made.address, made.bytes)) return said(status);
    buffers[name] = made;
    if (file.empty()) return "ok";
    const std::string text = read_file(file);
    return said(call("hipMemcpy", made.address, (const void*)text.data(), text.size() < made.bytes ? text.size() : made.bytes, 1));
}

static uint64_t argument(const std::string& word) {
    if (word.rfind("u64:", 0) == 0) return std::strtoull(word.c_str() + 4, nullptr, 0);
    if (word.rfind("f32:", 0) == 0) {
        union { float value; uint32_t bits; } number = {std::strtof(word.c_str() + 4, nullptr)};
        return number.bits;
    }
    const size_t plus = word.find('+');
    const uint64_t offset = plus == std::string::npos ? 0 : std::strtoull(word.c_str() + plus, nullptr, 0);
    return uint64_t(buffers[word.substr(0, plus)].address) + offset;
}

static std::string launch(std::istream& words, int times) {
    std::string entry, word;
    unsigned blocks, threads;
    words >> entry >> blocks >> threads;
    std::vector<uint64_t> values;
    while (words >> word) values.push_back(argument(word));
    std::vector<void*> pointers;
    for (uint64_t& value : values) pointers.push_back(&value);
    Handle function, stream = nullptr, graph, executable;
    if (int status = call("hipModuleGetFunction", &function, module, entry.c_str())) return said(status);
    const auto enqueue = [&] {
        return call("hipModuleLaunchKernel", function, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream, pointers.data(), (void**)nullptr);
    };
    if (times == 0) {
        if (int status = enqueue()) return said(status);
        return said(call("hipDeviceSynchronize"));
    }
    call("hipStreamCreate", &stream);
    call("hipStreamBeginCapture", stream, 2);
    for (int done = 0; done < times; ++done) {
        if (int status = enqueue()) return said(status);
    }
    call("hipStreamEndCapture", stream, &graph);
    call("hipGraphInstantiate", &executable, graph, (Handle)nullptr, (char*)nullptr, size_t(0));
    return said(call("hipGraphLaunch", executable, stream));
}

static std::string save(std::istream& words) {
    std::string name, path;
    words >> name >> path;
    const Buffer& from = buffers[name];
    std::string bytes(from.bytes, ' ');
    if (int status = call("hipMemcpy", (void*)bytes.data(), (const void*)from.address, from.bytes, 2)) return said(status);
    std::ofstream(path, std::ios::binary) << bytes;
    return "ok";
}

int main(int count, char** words) {
    library = count == 2 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        std::printf("usage: driver LIBRARY; the library: %s\n", count == 2 ? dlerror() : "none");
        return 2;
    }
    std::string line, what;
    while (std::getline(std::cin, line)) {
        std::istringstream rest(line);
        int times = 0;
        rest >> what;
        std::string answer = "unknown";
        if (what == "program") answer = program(rest);
        if (what == "buffer") answer = buffer(rest);
        if (what == "launch") answer = launch(rest, 0);
        if (what == "graph") answer = (rest >> times, launch(rest, times));
        if (what == "save") answer = save(rest);
        if (what == "reset") answer = said(call("hipDeviceReset"));
        std::printf("%s\n", answer.c_str());
        std::fflush(stdout);
    }
    return 0;
}
