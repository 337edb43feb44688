"""Asks for the same fits with the C library's FMA paths on and off, and with rows in other orders: the same bytes.

    python tests/oracle/same_bits.py target/debug/examples/oracle

Fails if an answer differs in one byte, or if this machine's C library has no FMA path that could be turned off.
"""

import json
import os
import random
import subprocess
import sys

import cases

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


def main(binary):
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
    print(f"{len(plain)} answers and {len(documents)} documents in three other orders compared byte for byte")
    sys.exit(f"{len(failed)} differ" if failed or not plain or len(plain) != len(without) else 0)


if __name__ == "__main__":
    main(sys.argv[1])
