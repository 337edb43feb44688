// The host's C++ compiler, found at run time.

#pragma once

#include <string>
#include <vector>

namespace emulator {

struct Compiled {
    bool success = false;
    std::string log;
    // The bytes of a shared library.
    std::string code;
};

// Compiles the text of a program. Of the options, those are heeded that name macros, folders and the language.
Compiled compile(const std::string& text, const std::string& name, const std::vector<std::string>& options);

}  // namespace emulator
