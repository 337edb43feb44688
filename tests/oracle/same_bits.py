"""Asks for the same fits with the C library's FMA paths on and off, and with rows in other orders: the same bytes.

    python tests/oracle/same_bits.py target/debug/examples/oracle target/debug/fleetcal

The fits of some thousand questions, of simulated classes, and of the rows of a real H200 as Parquet: the committed file,
and a copy whose rows are shuffled and encoded anew. Fails if an answer differs in one byte, or if this machine's C library
has no FMA path that could be turned off.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet

import cases

FIXTURE = Path(__file__).parent.parent / "fixtures" / "h200" / "stream-standard.parquet"

# glibc chooses its exp, log, pow, sin and so on by these (sysdeps/x86_64/fpu/multiarch). AVX2 goes with FMA: glibc uses
# one only where the other is usable. Names that a version of glibc does not know are ignored, so both spellings are given.
OFF = "-FMA,-FMA4,-AVX2,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"
TUNABLE = f"glibc.cpu.hwcaps={OFF}"

# What shows that the tunable works: exp(x) of a libm without FMA differs in the last place for one in two thousand.
PROBE = """
import ctypes, struct
m = ctypes.CDLL("libm.so.6")
names = ("exp", "log", "sin", "cos", "tan", "atan")
for name in names:
    f = getattr(m, name); f.restype = ctypes.c_double; f.argtypes = [ctypes.c_double]
print([struct.pack("<d", getattr(m, name)(0.37 * i + 0.001)).hex() for name in names for i in range(1, 4000)])
"""


def run(command, text, tunables):
    environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"}
    environment |= {"GLIBC_TUNABLES": tunables} if tunables else {}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def many_exponentials(count=20_000):
    """Intervals through logarithms: of glibc's exponentials one in two thousand depends on FMA, so it takes many."""
    source = random.Random(0)
    values = ([source.lognormvariate(3, 1) for _ in range(3)] for _ in range(count))
    return [(f"interval {at}", {"fit": "statistics", "values": drawn}) for at, drawn in enumerate(values)]


def shuffled(question, seed):
    """The question with its rows in another order."""
    rows = list(question["rows"])
    random.Random(seed).shuffle(rows)
    return {**question, "rows": rows}


def shuffled_copy(path, seed):
    """The same rows in another order, in other row groups and encodings, with another level of the same compression."""
    table = pyarrow.parquet.read_table(FIXTURE)
    order = list(range(table.num_rows))
    random.Random(seed).shuffle(order)
    level, group = 1 + 4 * seed, 97 * (seed + 1)
    pyarrow.parquet.write_table(
        table.take(order), path, compression="zstd", compression_level=level, row_group_size=group, use_dictionary=False
    )


def bodies(fleetcal, path, tunables):
    """What the fits of a file say: the body, which the rows determine; the envelope says when it was made."""
    documents = json.loads(run([fleetcal, "fit", str(path), "--output", "json"], "", tunables))
    return json.dumps([document["body"] for document in documents])


def parquet_differences(fleetcal):
    """Readings of the real rows that differ from that of the committed file."""
    expected = bodies(fleetcal, FIXTURE, None)
    if '"memory_bandwidth_asymptote"' not in expected:
        yield "the committed file has no constants"
    if bodies(fleetcal, FIXTURE, TUNABLE) != expected:
        yield "the committed file without FMA"
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(3):
            path = Path(folder) / f"shuffled-{seed}.parquet"
            shuffled_copy(path, seed)
            if path.read_bytes() == FIXTURE.read_bytes():
                yield f"shuffled copy {seed} is the committed file"
            for tunables in (None, TUNABLE):
                if bodies(fleetcal, path, tunables) != expected:
                    yield f"shuffled copy {seed}, with {tunables or 'FMA'}"


def main(binary, fleetcal):
    probe = [sys.executable, "-c", PROBE]
    if run(probe, "", None) == run(probe, "", TUNABLE):
        sys.exit(f"GLIBC_TUNABLES={TUNABLE} changes nothing here: this processor has no FMA, or the C library no such path")
    asked = list(cases.everything()) + many_exponentials()
    text = "".join(json.dumps(question) + "\n" for _, question in asked)
    plain, without = (run([binary], text, tunables).splitlines() for tunables in (None, TUNABLE))
    failed = [name for (name, _), one, other in zip(asked, plain, without) if one != other]
    for name in failed[:20]:
        print(f"differs without FMA: {name}")
    documents = [(name, question, answer) for (name, question), answer in zip(asked, plain) if question["fit"] == "documents"]
    for seed in range(3):
        orders = "".join(json.dumps(shuffled(question, seed)) + "\n" for _, question, _ in documents)
        for (name, _, expected), answer in zip(documents, run([binary], orders, TUNABLE).splitlines()):
            if answer != expected:
                failed.append(name)
                print(f"differs by the order of rows: {name}")
    for name in parquet_differences(fleetcal):
        failed.append(name)
        print(f"differs as Parquet: {name}")
    print("the rows of an H200 fitted from Parquet: the committed file and three shuffled copies, with FMA and without")
    print(f"{len(plain)} answers and {len(documents)} documents in three other orders compared byte for byte")
    sys.exit(f"{len(failed)} differ" if failed or not plain or len(plain) != len(without) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
