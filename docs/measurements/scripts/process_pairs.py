"""How honest intervals are: the rows of pairs of processes that measured one plan on one device, one after the other.

    python process_pairs.py ROWS_FOLDER ROWS_FOLDER [ROWS_FOLDER ROWS_FOLDER ...]

Folders come in pairs: first and second process. Rows match by point and solution. Printed, pooled over all pairs:
how often the second estimate lies in the first's prediction interval (half-width: the root of the sum of squares of both
half-widths), how often rows that say converged agree within 0.5%, what a comparison with a margin of 1% says of the two
(same, different, or ambiguous), and the same by footprint. Needs pyarrow.
"""

import collections
import math
import sys

import pyarrow.dataset

COLUMNS = ["point", "solution", "estimate_ns", "interval_low_ns", "interval_high_ns", "converged", "bimodal", "status",
           "role", "rounds_done", "bytes_distinct", "timing_mode", "elements", "dtype"]

MARGIN = math.log(1.01)


def rows(folder):
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table(columns=COLUMNS)
    return {(row["point"], row["solution"]): row for row in table.to_pylist()
            if row["role"] == "fit" and row["status"] == "passed" and row["interval_low_ns"] is not None}


def half_width(row):
    """Half of the interval, relative, on logarithms."""
    return (math.log(row["interval_high_ns"]) - math.log(row["interval_low_ns"])) / 2


def main():
    folders = sys.argv[1:]
    pooled = collections.defaultdict(lambda: [0, 0, 0, 0, [], [0, 0, 0]])
    for first_folder, second_folder in zip(folders[::2], folders[1::2]):
        first, second = rows(first_folder), rows(second_folder)
        shared = sorted(first.keys() & second.keys())
        inside = 0
        for key in shared:
            one, two = first[key], second[key]
            distance = abs(math.log(two["estimate_ns"] / one["estimate_ns"]))
            allowed = math.hypot(half_width(one), half_width(two))
            both_converged = bool(one["converged"]) and bool(two["converged"])
            inside += distance <= allowed
            size = one["elements"].bit_length() - 1
            for group in ("all", f"2^{size:02} {one['timing_mode']}", f"rounds {one['rounds_done']}",
                          "bimodal" if one["bimodal"] or two["bimodal"] else "one mode"):
                counts = pooled[group]
                counts[0] += 1
                counts[1] += distance <= allowed
                counts[2] += both_converged
                counts[3] += both_converged and distance <= 0.005
                counts[4].append(distance)
                verdict = 0 if distance + allowed <= MARGIN else 1 if distance - allowed > MARGIN else 2
                counts[5][verdict] += 1
        print(f"pair {first_folder} {second_folder}: {inside} of {len(shared)} rows inside")
    print("\n| rows | pairs of rows | second in prediction interval | both converged | of these within 0.5% "
          "| median distance | 90th percentile | largest | same, different, ambiguous |")
    print("|---|---|---|---|---|---|---|---|---|")
    for group, (count, inside, converged, agree, distances, verdicts) in sorted(pooled.items()):
        distances.sort()
        at = lambda share: distances[min(len(distances) - 1, int(share * len(distances)))]
        of = f"{100 * agree / converged:.1f}%" if converged else "none"
        print(f"| {group} | {count} | {100 * inside / count:.1f}% | {converged} | {of} | {100 * at(0.5):.3f}% "
              f"| {100 * at(0.9):.3f}% | {100 * distances[-1]:.2f}% | {', '.join(map(str, verdicts))} |")


main()
