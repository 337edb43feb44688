// Who touched which byte last, for one stretch of memory.
//
// A page remembers in cells as wide as the narrowest access that it saw in the launch, so that threads which write
// neighbouring bytes do not meet in one cell, and wide accesses are one look.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace emulator {

// Segments (knowledge.h), 0 for none. Of readers the last two of different threads: whoever writes is not both of them.
struct Cell {
    uint32_t write = 0;
    uint32_t reads[2] = {0, 0};
    bool write_is_atomic = false;
    bool read_is_atomic[2] = {false, false};
};

class Shadow {
public:
    static const unsigned PAGE_BYTES = 4096;

    explicit Shadow(uint64_t bytes) : pages((bytes + PAGE_BYTES - 1) / PAGE_BYTES) {}

    // Calls `look(cell)` for every cell of these bytes; what an older generation left is forgotten first.
    template <typename Look>
    void for_each(uint64_t offset, uint64_t bytes, uint64_t generation, Look look) {
        while (bytes > 0) {
            const uint64_t within = offset % PAGE_BYTES;
            const uint64_t here = bytes < PAGE_BYTES - within ? bytes : PAGE_BYTES - within;
            Page& page = pages[offset / PAGE_BYTES];
            if (page.generation != generation) page.reset(generation, granule(within, here));
            if ((within | here) & ((1u << page.shift) - 1)) page.split(granule(within, here));
            for (uint64_t cell = within >> page.shift; cell <= (within + here - 1) >> page.shift; ++cell) {
                look(page.cells[cell]);
            }
            offset += here;
            bytes -= here;
        }
    }

private:
    struct Page {
        uint64_t generation = 0;
        unsigned shift = 0;
        std::vector<Cell> cells;

        void reset(uint64_t to, unsigned granule_shift) {
            generation = to;
            shift = granule_shift;
            cells.assign(PAGE_BYTES >> shift, Cell());
        }

        void split(unsigned granule_shift) {
            std::vector<Cell> finer(PAGE_BYTES >> granule_shift);
            for (size_t cell = 0; cell < finer.size(); ++cell) finer[cell] = cells[cell >> (shift - granule_shift)];
            cells.swap(finer);
            shift = granule_shift;
        }
    };

    // Logarithm of the widest power of two, up to 16, that divides both.
    static unsigned granule(uint64_t offset, uint64_t bytes) {
        unsigned shift = 4;
        while ((offset | bytes) & ((1u << shift) - 1)) --shift;
        return shift;
    }

    std::vector<Page> pages;
};

}  // namespace emulator
