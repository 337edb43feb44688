// The calls of hiprtc. They may come from several threads at once: each has its program.

#include <cstring>
#include <string>
#include <vector>

#include "../hip/hip.h"
#include "compiler.h"

namespace {

enum Result : int { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6 };

struct Program {
    std::string text, name;
    emulator::Compiled compiled;
};

int text_to(char* to, const std::string& text) {
    std::memcpy(to, text.c_str(), text.size() + 1);
    return SUCCESS;
}

}  // namespace

HIP_API int hiprtcVersion(int* major, int* minor) {
    *major = 5;
    *minor = 4;
    return SUCCESS;
}

HIP_API const char* hiprtcGetErrorString(int result) {
    switch (result) {
        case SUCCESS: return "HIPRTC_SUCCESS";
        case INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
        case INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
        case COMPILATION: return "HIPRTC_ERROR_COMPILATION";
        default: return "HIPRTC_ERROR_INTERNAL_ERROR";
    }
}

HIP_API int hiprtcCreateProgram(Program** to, const char* text, const char* name, int headers, const char**, const char**) {
    if (!to || !text || headers != 0) return INVALID_INPUT;
    *to = new Program{text, name && *name ? name : "program.hip", {}};
    return SUCCESS;
}

HIP_API int hiprtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

HIP_API int hiprtcCompileProgram(Program* program, int count, const char** options) {
    const std::vector<std::string> words(options, options + count);
    program->compiled = emulator::compile(program->text, program->name, words);
    return program->compiled.success ? SUCCESS : COMPILATION;
}

HIP_API int hiprtcGetProgramLogSize(Program* program, size_t* bytes) {
    *bytes = program->compiled.log.size() + 1;
    return SUCCESS;
}

HIP_API int hiprtcGetProgramLog(Program* program, char* to) { return text_to(to, program->compiled.log); }

HIP_API int hiprtcGetCodeSize(Program* program, size_t* bytes) {
    *bytes = program->compiled.code.size();
    return *bytes > 0 ? SUCCESS : INVALID_PROGRAM;
}

HIP_API int hiprtcGetCode(Program* program, char* to) {
    std::memcpy(to, program->compiled.code.data(), program->compiled.code.size());
    return SUCCESS;
}
