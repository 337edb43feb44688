"""How fast `fleetcal fit` is against the medians of the same samples by polars, in one run on one machine.

    python fit_speed.py FLEETCAL FOLDER [REPEATS]

FOLDER holds rows as Parquet (`cargo run --release -p fleetcal-coordinator --example fleet_rows -- FOLDER DEVICES`). In
turn, REPEATS times: polars reads the column `samples` and takes each row's median; `fleetcal fit` reads the rows, checks
their seals, fits, and writes the document as JSON. Both are processes of their own, on two threads; printed are wall time,
time of processors, the largest resident memory, and the ratio of wall times. The first pair only warms the page cache.
Needs polars and Linux.
"""

import os
import statistics
import subprocess
import sys
import time

MEDIANS = """
import sys, polars
samples = polars.scan_parquet(sys.argv[1] + "/*.parquet").select(
    polars.col("samples").list.eval(polars.element().struct.field("ns")).list.median())
print(samples.collect().height, file=sys.stderr)
"""


def timed(command):
    """Wall seconds, processor seconds and largest resident memory, MB, of a process that must succeed."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "2"}
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[0]} ended with {child.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def show(name, measured):
    wall, processors, memory = measured
    print(f"{name:<14} {wall:8.2f} s wall  {processors:8.2f} s of processors  {memory:7.0f} MB", flush=True)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    fleetcal, folder = sys.argv[1:3]
    repeats = int(sys.argv[3]) if len(sys.argv) == 4 else 3
    medians = [sys.executable, "-c", MEDIANS, folder]
    fit = [fleetcal, "fit", folder, "--output", "json"]
    ratios, of_processors = [], []
    for repeat in range(repeats + 1):
        theirs, ours = timed(medians), timed(fit)
        if repeat == 0:
            continue
        show("polars medians", theirs)
        show("fleetcal fit", ours)
        ratios.append(ours[0] / theirs[0])
        of_processors.append(ours[1] / theirs[1])
        print(f"ratio {ratios[-1]:.2f} of wall times, {of_processors[-1]:.2f} of processors' times; "
              f"{os.getloadavg()[0]:.1f} processes ready to run", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f} of {min(ratios):.2f} to {max(ratios):.2f}; of processors' times "
          f"{statistics.median(of_processors):.2f}")


if __name__ == "__main__":
    main()
