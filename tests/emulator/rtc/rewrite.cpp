#include "rewrite.h"

#include <cctype>
#include <vector>

namespace emulator {

namespace {

bool is_word(char letter) { return std::isalnum(uint8_t(letter)) || letter == '_'; }

// Behind the parenthesis that closes the one at `open`.
size_t behind(const std::string& text, size_t open) {
    int depth = 0;
    for (size_t at = open; at < text.size(); ++at) {
        if (text[at] == '(') ++depth;
        if (text[at] == ')' && --depth == 0) return at + 1;
    }
    return text.size();
}

size_t skip_spaces(const std::string& text, size_t at) {
    while (at < text.size() && std::isspace(uint8_t(text[at]))) ++at;
    return at;
}

struct Kernel {
    std::string name, bound;
};

// The kernel whose marker ends here: the first word with parentheses behind it that is neither bounds nor an attribute.
Kernel kernel_at(const std::string& text, size_t at) {
    Kernel kernel{"", "0"};
    while (at < text.size()) {
        at = skip_spaces(text, at);
        size_t end = at;
        while (end < text.size() && is_word(text[end])) ++end;
        if (end == at) {
            ++at;
            continue;
        }
        const std::string word = text.substr(at, end - at);
        const size_t open = skip_spaces(text, end);
        at = end;
        if (open >= text.size() || text[open] != '(') continue;
        if (word == "simt_bounds_marker") {
            kernel.bound = text.substr(open, behind(text, open) - open);
        } else if (word != "__attribute__") {
            kernel.name = word;
            return kernel;
        }
        at = behind(text, open);
    }
    return kernel;
}

// The element type of a declaration of vectors, `typedef TYPE NAME __attribute__((` or `using NAME = TYPE __attribute__((`,
// that ends here.
std::string element_before(const std::string& text, size_t at) {
    const size_t start = text.find_last_of(";{}", at) == std::string::npos ? 0 : text.find_last_of(";{}", at) + 1;
    std::vector<std::string> words;
    const std::string declaration = text.substr(start, at - start);
    bool is_alias = false;
    for (size_t from = 0; from < declaration.size();) {
        size_t end = from;
        while (end < declaration.size() && is_word(declaration[end])) ++end;
        if (end > from) {
            words.push_back(declaration.substr(from, end - from));
        } else {
            if (declaration[from] == '#') end = declaration.find('\n', from);
            if (declaration[from] == '=') is_alias = true;
            if (declaration[from] == '=') words.clear();
            if (end == std::string::npos) break;
        }
        from = end > from ? end : from + 1;
    }
    std::string type;
    for (const std::string& word : words) {
        if (word == "__attribute__") break;
        if (word != "typedef") type += (type.empty() ? "" : " ") + word;
    }
    if (is_alias || type.empty()) return type;
    const size_t space = type.rfind(' ');
    return space == std::string::npos ? type : type.substr(0, space);
}

}  // namespace

std::string rewritten(const std::string& text, bool vectors_by_bytes) {
    std::string out;
    std::vector<Kernel> kernels;
    for (size_t at = 0; at < text.size();) {
        if (text[at] == '"' || text[at] == '\'') {
            const char quote = text[at];
            size_t end = at + 1;
            while (end < text.size() && text[end] != quote && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
            out.append(text, at, end + 1 - at);
            at = end + 1;
            continue;
        }
        size_t end = at;
        while (end < text.size() && is_word(text[end])) ++end;
        if (end == at) {
            out += text[at++];
            continue;
        }
        const std::string word = text.substr(at, end - at);
        if (word == "simt_kernel_marker") {
            kernels.push_back(kernel_at(text, end));
            out += "__attribute__((noinline))";
        } else if (word == "simt_bounds_marker") {
            end = behind(text, skip_spaces(text, end));
        } else if (word == "ext_vector_type" && vectors_by_bytes) {
            const size_t open = skip_spaces(text, end);
            end = behind(text, open);
            out += "vector_size(" + text.substr(open, end - open) + " * sizeof(" + element_before(text, at) + "))";
        } else {
            out += word;
        }
        at = end;
    }
    const std::string unseen = "extern \"C\" __attribute__((no_sanitize(\"thread\"))) ";
    for (const Kernel& kernel : kernels) {
        const std::string& name = kernel.name;
        out += "\n" + unseen + "void simt_entry_" + name + "(void** arguments) { simt::call(" + name + ", arguments); }\n";
        out += unseen + "unsigned simt_bound_" + name + "() { return " + kernel.bound + "; }\n";
        out += unseen + "unsigned simt_arguments_" + name + "(unsigned* to) { return simt::argument_bytes(" + name + ", to); }\n";
    }
    return out;
}

}  // namespace emulator
