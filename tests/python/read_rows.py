"""Reads rows as their users do: pyarrow and DuckDB, on the Parquet files as they are.

    python tests/python/read_rows.py 'fleetcal-data/rows/**/*.parquet'

Fails if no file matches, if the two disagree about the rows, if a nested column does not open, if no row gives a
bandwidth, or if a query of README.md counts rows of attempts that a later one replaced.
"""

import contextlib
import glob
import pathlib
import re
import sys
import tempfile

import duckdb
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

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


def superseded_rows_counted(files):
    """Queries of README.md that give something else once an earlier attempt's rows lie beside the rows."""
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    queries = re.findall(r'^python -c "(.*)"$', readme, re.MULTILINE)
    if len(queries) != 2:
        return [f"README.md has {len(queries)} queries of rows, and 2 were looked for"]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "fleetcal-data" / "rows"
        rows.mkdir(parents=True)
        table = pyarrow.concat_tables([pyarrow.parquet.read_table(file) for file in files])
        attempt = table.schema.get_field_index("attempt")
        later = pyarrow.compute.add(table["attempt"], 1).cast(table.schema.field(attempt).type)
        # The attempt that counts is the later one; the earlier one was twice as fast.
        pyarrow.parquet.write_table(table.set_column(attempt, "attempt", later), rows / "later.parquet")
        alone = [answer(query, folder) for query in queries]
        estimate = table.schema.get_field_index("estimate_ns")
        faster = table.set_column(estimate, "estimate_ns", pyarrow.compute.divide(table["estimate_ns"], 2.0))
        pyarrow.parquet.write_table(faster, rows / "earlier.parquet")
        for query, before in zip(queries, alone):
            if answer(query, folder) != before:
                problems.append(f"README.md counts rows of attempts that a later one replaced: {query}")
    return problems


def answer(query, folder):
    """What a query would print, in an order: joins promise none."""
    shown = []
    with contextlib.chdir(folder):
        # As it stands in a shell's double quotes.
        exec(query.replace('\\"', '"'), {"print": shown.append})
        (result,) = shown
        rows = result.to_pylist() if isinstance(result, pyarrow.Table) else result.fetchall()
    if not rows:
        raise SystemExit(f"failed: README.md shows a query that finds nothing: {query}")
    return sorted(repr(row) for row in rows)


def check(pattern):
    """Problems found with the files that match."""
    files = sorted(glob.glob(pattern, recursive=True))
    if not files:
        return [f"no file matches {pattern}"]
    table = pyarrow.dataset.dataset(files, format="parquet").to_table()
    in_duckdb = duckdb.execute("SELECT count(*) FROM read_parquet($files)", {"files": files}).fetchall()[0][0]
    print(f"{len(files)} files, {table.num_rows} rows of {table.num_columns} columns")
    problems = []
    if table.num_rows != in_duckdb:
        problems.append(f"pyarrow reads {table.num_rows} rows, DuckDB reads {in_duckdb}")
    by_duckdb = duckdb.execute(NESTED, {"files": files}).fetchall()[0]
    by_pyarrow = nested_totals(table)
    if by_pyarrow != by_duckdb:
        problems.append(f"{NESTED_COLUMNS}: pyarrow counts {by_pyarrow}, DuckDB counts {by_duckdb}")
    problems += superseded_rows_counted(files)
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
