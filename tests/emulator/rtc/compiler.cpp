#include "compiler.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/settings.h"
#include "rewrite.h"

extern char** environ;

namespace emulator {

namespace {

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Runs a program with what it says going to a file; whether it succeeded.
bool run_program(const std::vector<std::string>& words, const std::string& log) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    const int failed = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    return failed == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Compiler {
    std::string path;
    bool is_clang = false;
};

// clang knows every word of HIP's compiler, so it goes first; g++ gets substitutes (simt/language.h, rewrite.cpp).
Compiler find() {
    const char* named = std::getenv("FLEETCAL_EMULATOR_CXX");
    std::vector<std::string> names = {"clang++-19", "clang++", "g++", "c++"};
    if (named && *named) names = {named};
    for (const std::string& name : names) {
        char log[] = "/tmp/fleetcal-emulator-XXXXXX";
        const int file = mkstemp(log);
        if (file < 0) break;
        close(file);
        const bool works = run_program({name, "--version"}, log);
        const std::string said = read_file(log);
        unlink(log);
        if (works) return {name, said.find("clang") != std::string::npos};
    }
    return {};
}

const Compiler& compiler() {
    static const Compiler found = find();
    return found;
}

// Where this library lies: programs are linked with it, and get the library that is already loaded.
std::string own_path() {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&own_path), &info) ? info.dli_fname : "";
}

bool is_for_preprocessor(const std::string& option) {
    return option.rfind("-D", 0) == 0 || option.rfind("-U", 0) == 0 || option.rfind("-I", 0) == 0;
}

std::vector<std::string> code_options() {
    std::vector<std::string> words = {"-O1", "-fPIC", "-w", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
                                      "-fno-strict-aliasing", "-ffp-contract=off", "-fno-math-errno", "-fsanitize=thread"};
    const std::vector<std::string> clang = {"-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-instrument-func-entry-exit=0"};
    const std::vector<std::string> gcc = {"--param", "tsan-distinguish-volatile=1"};
    const auto& more = compiler().is_clang ? clang : gcc;
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// A folder that is gone when it is no longer needed.
class Folder {
public:
    Folder() {
        const char* parent = std::getenv("TMPDIR");
        std::string name = std::string(parent && *parent ? parent : "/tmp") + "/fleetcal-emulator-XXXXXX";
        if (mkdtemp(name.data())) path = name;
    }
    ~Folder() {
        for (const char* name : {"program.cpp", "program.ii", "rewritten.ii", "program.o", "program.so", "log"}) unlink(file(name).c_str());
        if (!path.empty()) rmdir(path.c_str());
    }
    std::string file(const char* name) const { return path + '/' + name; }

private:
    std::string path;
};

}  // namespace

Compiled compile(const std::string& text, const std::string& name, const std::vector<std::string>& options) {
    Compiled compiled;
    if (compiler().path.empty()) {
        compiled.log = "no C++ compiler: set FLEETCAL_EMULATOR_CXX, or install clang++ or g++";
        return compiled;
    }
    const Folder folder;
    const std::string log = folder.file("log");
    std::string standard = "-std=c++17";
    std::vector<std::string> preprocess = {compiler().path, "-E", "-x", "c++", "-w", "-I" FLEETCAL_EMULATOR_SOURCES, "-include", "simt.h",
                                           "-DFLEETCAL_EMULATOR_WAVE_SIZE=" + std::to_string(settings().wave_size)};
    for (const std::string& option : options) {
        if (is_for_preprocessor(option)) preprocess.push_back(option);
        if (option.rfind("-std=", 0) == 0) standard = option;
    }
    // Messages name the program as its author does.
    write_file(folder.file("program.cpp"), "#line 1 \"" + name + "\"\n" + text);
    for (const std::string& word : {standard, folder.file("program.cpp"), std::string("-o"), folder.file("program.ii")}) preprocess.push_back(word);
    bool works = run_program(preprocess, log);
    if (works) {
        write_file(folder.file("rewritten.ii"), rewritten(read_file(folder.file("program.ii")), !compiler().is_clang));
        std::vector<std::string> make = {compiler().path, "-x", "c++-cpp-output", "-c", standard};
        for (const std::string& option : code_options()) make.push_back(option);
        for (const std::string& word : {folder.file("rewritten.ii"), std::string("-o"), folder.file("program.o")}) make.push_back(word);
        // The sanitizer's library stays out: runtime/instrumented.cpp is called in its place.
        works = run_program(make, log) && run_program({compiler().path, "-shared", "-Wl,--build-id=none", folder.file("program.o"),
                                                       own_path(), "-lm", "-o", folder.file("program.so")}, log);
    }
    compiled.success = works;
    compiled.log = read_file(log);
    if (works) compiled.code = read_file(folder.file("program.so"));
    return compiled;
}

}  // namespace emulator
