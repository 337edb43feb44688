// Runs every launch of the table on the host and checks that each element of each array was touched as often as the
// counts say, and that the results are those of the file `expected`. Writes the inputs to the file `inputs`.

static bool touched(const char* launch_name, const char* what, const std::vector<u32>& counts, u32 wanted) {
    for (size_t element = 0; element < counts.size(); ++element) {
        if (counts[element] == wanted) continue;
        std::printf("%s: element %zu of the %s %u times, not %u\n", launch_name, element, what, counts[element], wanted);
        return false;
    }
    return true;
}

int main() {
    element_bytes = sizeof(Element);
    const char* names[3] = {"output", "first input", "second input"};
    for (int index = 0; index < 3; ++index) {
        arrays[index].name = names[index];
        arrays[index].bytes.resize(ELEMENTS * sizeof(Element));
    }
    Element* output = reinterpret_cast<Element*>(arrays[0].bytes.data());
    Element* first = reinterpret_cast<Element*>(arrays[1].bytes.data());
    Element* second = reinterpret_cast<Element*>(arrays[2].bytes.data());
    launch<Element*, u64, u64>(3, 256, FILL, first, ELEMENTS, 1);
    launch<Element*, u64, u64>(3, 256, FILL, second, ELEMENTS, 2);
    std::FILE* inputs = std::fopen("inputs", "wb");
    for (int index = 1; index < 3; ++index) std::fwrite(arrays[index].bytes.data(), 1, arrays[index].bytes.size(), inputs);
    std::fclose(inputs);
    std::vector<char> expected(arrays[0].bytes.size());
    std::FILE* file = std::fopen("expected", "rb");
    if (!file || std::fread(expected.data(), 1, expected.size(), file) != expected.size()) return 2;

    bool right = true;
    for (const Row& row : TABLE) {
        for (Array& array : arrays) {
            array.reads.assign(ELEMENTS, 0);
            array.writes.assign(ELEMENTS, 0);
        }
        launch<Element*, u64, u64>(3, 256, POISON, output, ELEMENTS, ~0ull);
        launch<Element*, const Element*, const Element*, u64>(row.blocks, row.threads, row.entry, output, first,
                                                              INPUTS == 2 ? second : first, row.tiles);
        right &= touched(row.name, "output were written", arrays[0].writes, 1);
        right &= touched(row.name, "output were read", arrays[0].reads, 0);
        right &= touched(row.name, "first input were read", arrays[1].reads, 1);
        right &= touched(row.name, "first input were written", arrays[1].writes, 0);
        right &= touched(row.name, "second input were read", arrays[2].reads, INPUTS == 2);
        right &= touched(row.name, "second input were written", arrays[2].writes, 0);
        if (std::memcmp(output, expected.data(), expected.size()) != 0) {
            std::printf("%s: wrong result\n", row.name);
            right = false;
        }
    }
    std::vector<double> gathered((ELEMENTS + 96) / 97);
    launch<double*, const Element*, u64, u64>(3, 256, GATHER, gathered.data(), output, gathered.size(), 97);
    for (size_t index = 0; index < gathered.size(); ++index) right &= gathered[index] == double(output[index * 97]);
    std::printf(right ? "%zu launches are right\n" : "of %zu launches some are wrong\n", sizeof(TABLE) / sizeof(TABLE[0]));
    return right ? 0 : 1;
}
