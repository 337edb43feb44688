"""Reads rows as their users do: pyarrow and DuckDB, on the Parquet files as they are.

    python tests/python/read_rows.py 'fleetcal-data/rows/**/*.parquet'

Fails if no file matches, if the two disagree about the rows, if a nested column does not open, or if no row gives a
bandwidth.
"""

import glob
import sys

import duckdb
import pyarrow.dataset

# Bytes per nanosecond are GB/s.
BANDWIDTHS = """
    SELECT kernel, dtype, elements, count(*) AS rows,
           round(median((bytes_read + bytes_written) / estimate_ns), 2) AS gb_per_s
    FROM read_parquet($files)
    WHERE sweep = 'stream' AND status IN ('passed', 'no_check') AND role <> 'screening' AND estimate_ns > 0
    GROUP BY ALL ORDER BY ALL
"""

# Every nested column, taken apart: totals that pyarrow can give too.
NESTED = """
    SELECT coalesce(sum(len(samples)), 0)::BIGINT, coalesce(sum(len(rounds)), 0)::BIGINT,
           coalesce(sum(len(launch_contexts)), 0)::BIGINT, coalesce(sum(cardinality(parameters)), 0)::BIGINT
    FROM read_parquet($files)
"""

NESTED_COLUMNS = ["samples", "rounds", "launch_contexts", "parameters"]


def nested_totals(table):
    """Elements of each nested column, by pyarrow."""
    return tuple(
        sum(len(chunk.slice(row, 1)[0].as_py()) for chunk in table[name].chunks for row in range(len(chunk)))
        for name in NESTED_COLUMNS
    )


def check(pattern):
    """Problems found with the files that match."""
    files = sorted(glob.glob(pattern, recursive=True))
    if not files:
        return [f"no file matches {pattern}"]
    table = pyarrow.dataset.dataset(files, format="parquet").to_table()
    in_duckdb = duckdb.execute("SELECT count(*) FROM read_parquet($files)", {"files": files}).fetchone()[0]
    print(f"{len(files)} files, {table.num_rows} rows of {table.num_columns} columns")
    problems = []
    if table.num_rows != in_duckdb:
        problems.append(f"pyarrow reads {table.num_rows} rows, DuckDB reads {in_duckdb}")
    by_duckdb = duckdb.execute(NESTED, {"files": files}).fetchone()
    by_pyarrow = nested_totals(table)
    if by_pyarrow != by_duckdb:
        problems.append(f"{NESTED_COLUMNS}: pyarrow counts {by_pyarrow}, DuckDB counts {by_duckdb}")
    bandwidths = duckdb.execute(BANDWIDTHS, {"files": files}).fetchall()
    if not bandwidths:
        problems.append("no row of the stream sweep gives a bandwidth")
    print(f"{'kernel':<8} {'dtype':<6} {'elements':>12} {'rows':>6} {'GB/s':>10}")
    for kernel, dtype, elements, rows, gb_per_s in bandwidths:
        print(f"{kernel:<8} {dtype:<6} {elements if elements is not None else '-':>12} {rows:>6} {gb_per_s:>10}")
        if not gb_per_s > 0:
            problems.append(f"{kernel}/{dtype}/{elements}: a bandwidth of {gb_per_s} GB/s")
    return problems


def main():
    """Exit code 0 if all is well, 1 if not, 2 for a wrong call."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(sys.argv[1])
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
