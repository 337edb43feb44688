// Preprocessed text of a program, made into what a host compiler can make entries of.

#pragma once

#include <string>

namespace emulator {

// Takes the markers of simt/language.h out, and adds an entry behind the text for each kernel. Where vectors have a size
// in bytes (g++) instead of elements (`ext_vector_type`), they get it.
std::string rewritten(const std::string& text, bool vectors_by_bytes);

}  // namespace emulator
