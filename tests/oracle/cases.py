"""Questions for both sides: golden vectors, simulated rows of known seed, and rows of real devices."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy

import class_cases

PROBE = Path(__file__).parent.parent / "fixtures" / "h200-probe"
CANDIDATES = list(range(32, 2049, 32))


SEEDS = 240
"""Of simulated sweeps."""


def everything():
    """(name, question) pairs, some thousands."""
    yield from golden()
    for device in sorted(PROBE.glob("*.csv")):
        yield from real(device)
    for seed in range(SEEDS):
        random = numpy.random.default_rng(seed)
        for case in (envelope, capacity, issue, fill, line, regime, values, cells, merge, degenerate):
            yield from ((f"{case.__name__} {seed}: {name}", question) for name, question in case(random))
    yield from class_cases.everything()


# --- golden vectors -------------------------------------------------------------------------------------------------


def routine(ms, bound_ms, kernels, flops, bytes_, flops_exact=True, bytes_exact=True, opaque=False):
    return {
        "seconds": ms / 1e3, "bound": None if bound_ms is None else bound_ms / 1e3, "kernels": kernels,
        "flops": flops, "bytes": bytes_, "flops_exact": flops_exact, "bytes_exact": bytes_exact, "opaque": opaque,
    }


def golden():
    """The original's own test of its envelope, and the launch curves of two devices that it has published."""
    cc = [
        routine(2.0, None, 1, 0, 16_000_000),
        routine(4.0, 5.0, 1, 2_000_000_000, 3_000_000),
        routine(1.0, 2.5, 1, 50_000_000_000, 1_000_000, flops_exact=False),
        routine(1.0, None, 1, 1_000_000, 1_000_000, opaque=True),
    ]
    yield "golden envelope, cc", {"fit": "envelope", "rows": cc}
    yield "golden envelope, toy", {"fit": "envelope", "rows": [routine(10.0, 9.0, 3, 5_000_000, 400_000_000)]}
    operations, blocks = 2 * 1024 * 256 * 1024, (8, 16, 32, 128, 1024)
    curves = {
        "RTX 5070 Ti": (46, (13.85, 7.24, 3.50, 2.47, 2.36)),
        "8060S in WGP": (20, (3.48, 2.33, 1.41, 0.78, 2.06)),
        "8060S in CU": (40, (3.48, 2.33, 1.41, 0.78, 2.06)),
    }
    for name, (multiprocessors, ms) in curves.items():
        for points in (5, 4):
            launches = [["g", [[b, 128, operations]], 0, t / 1e3] for b, t in zip(blocks, ms)][:points]
            yield from both_fills(f"golden {name}, {points} points", launches, multiprocessors)


def both_fills(name, points, multiprocessors, starved=1 / 8):
    asked = {"points": points, "multiprocessors": multiprocessors, "candidates": CANDIDATES, "starved": starved}
    for fit in ("seed_fill", "fill"):
        yield f"{name}, {fit}", {"fit": fit, **asked}


# --- real devices ---------------------------------------------------------------------------------------------------


def real(path):
    """Sweeps of one measured file, by the medians and by the best of its samples."""
    samples = defaultdict(list)
    with path.open() as file:
        for row in csv.DictReader(file):
            key = (row["sweep"], row["kernel"], row["params"], int(row["bytes"]), int(row["ops"]))
            samples[(*key, int(row["blocks"]), int(row["threads"]))].append(float(row["ms"]) * 1e-3)
    for how, estimate in (("median", numpy.median), ("best", min)):
        name, rows = f"{path.stem}, {how}", {key: float(estimate(times)) for key, times in samples.items()}
        yield from real_sweeps(name, rows)
    for (sweep, kernel, params, *_), times in list(samples.items())[::40]:
        yield f"{path.stem}, {sweep} {kernel} {params}", {"fit": "statistics", "values": times}


def real_sweeps(name, rows):
    outputs = defaultdict(list)
    launches = []
    for (sweep, kernel, params, bytes_, ops, blocks, threads), seconds in rows.items():
        named = dict(part.split("=") for part in params.split(";") if "=" in part)
        shape = (sweep, kernel, *(item for item in named.items() if item[0] in "mn"))
        outputs[shape].append((bytes_, ops, blocks, threads, seconds, named))
        if sweep == "launch":
            launches.append([kernel, [[blocks, threads, ops]], 0, seconds])
    for (sweep, kernel, *shape), points in outputs.items():
        what = f"{name}, {sweep} {kernel} {shape}"
        by_ops = [[float(ops), seconds] for _, ops, *_, seconds, _ in points]
        by_bytes = [[float(bytes_), seconds] for bytes_, *_, seconds, _ in points]
        if sweep == "issue":
            yield f"{what}, regime", {"fit": "regime", "points": by_ops}
            yield f"{what}, line", {"fit": "line", "points": by_ops}
            timed = [[ops, seconds, [[blocks, threads, ops]]] for _, ops, blocks, threads, seconds, _ in points]
            for model in (None, [132, 480]):
                yield f"{what}, fill {model}", {"fit": "seed_issue", "points": timed, "fill": model}
        if sweep == "working_set":
            sets = [[int(bytes_), int(bytes_), seconds] for bytes_, *_, seconds, _ in points]
            yield from both_capacities(what, sets, 4.379e12)
        if sweep == "stream":
            yield f"{what}, line", {"fit": "line", "points": by_bytes}
            rule = {"sigmas": 3.0, "floor": 0.01, "points_min": 3, "share_max": 0.25}
            yield f"{what}, filter", {"fit": "filter", "points": by_bytes, **rule}
    if launches:
        yield from both_fills(f"{name}, launch", launches, 132)


def both_capacities(name, points, dram_rate):
    for fit in ("seed_capacity", "capacity"):
        for rate in (None, dram_rate):
            yield f"{name}, {fit}, dram {rate}", {"fit": fit, "points": points, "dram_rate": rate}


# --- simulated sweeps -----------------------------------------------------------------------------------------------


def noise(random, count, sigma=0.01):
    return numpy.exp(sigma * random.standard_normal(count))


def envelope(random):
    rows = [
        routine(
            float(random.uniform(0.01, 10)), float(random.uniform(0.01, 10)) if random.random() < 0.5 else None,
            int(random.integers(1, 4)), int(random.integers(0, 10**9)), int(random.integers(0, 10**7)),
            *(bool(flag) for flag in random.random(2) < 0.7), bool(random.random() < 0.1),
        )
        for _ in range(int(random.integers(0, 12)))
    ]
    yield "rows", {"fit": "envelope", "rows": rows}


def capacity(random):
    count, edge = int(random.integers(2, 16)), 2.0 ** random.uniform(12, 24)
    sets = numpy.sort(2 ** random.uniform(10, 28, count)).astype(int)
    fast, slow, latency = 9e12, float(random.choice([2e12, 4e12, 8e12])), float(random.choice([0, 3e-6]))
    rates = numpy.where(sets <= edge, fast, slow)
    times = (latency + sets * 64 / rates) * noise(random, count)
    points = [[int(s), int(s) * 64, float(t)] for s, t in zip(sets, times)]
    random.shuffle(points)
    yield from both_capacities("sweep", points, slow)


def issue(random):
    count = int(random.integers(2, 12))
    ops = [2 ** int(power) for power in random.integers(20, 34, count)]
    rate, latency, blocks = 3.6e12, float(random.uniform(0, 2e-5)), int(random.integers(1, 400))
    times = (latency + numpy.array(ops) / rate) * noise(random, count)
    points = [[op, float(time), [[blocks, 64, op]]] for op, time in zip(ops, times)]
    yield "plain", {"fit": "seed_issue", "points": points, "fill": None}
    yield "of a full device", {"fit": "seed_issue", "points": points, "fill": [132, 32 * int(random.integers(1, 40))]}


def fill(random):
    multiprocessors, truth = int(random.integers(8, 140)), 32 * int(random.integers(2, 40))
    points = []
    for geometry, (width, rate) in {"wide": (256, 5e12), "narrow": (64, 3e12)}.items():
        for blocks in 2 ** numpy.arange(0, 11):
            filled = min(1.0, blocks * min(width, truth) / (multiprocessors * truth))
            seconds = 2**30 / filled / rate * float(noise(random, 1, 0.02)[0])
            points.append([geometry, [[int(blocks), width, 2**30]], 0, seconds])
    points = [points[at] for at in random.permutation(len(points))[: int(random.integers(3, len(points) + 1))]]
    yield from both_fills("sweep", points, multiprocessors, float(random.choice([1 / 8, 0.0])))


def line(random):
    count = int(random.integers(2, 20))
    x = numpy.sort(2 ** random.uniform(20, 34, count))
    y = (5e-6 + x / 4e12) * noise(random, count, float(random.choice([0.0005, 0.003, 0.03])))
    spoiled = random.random(count) < 0.1
    points = [[float(a), float(b) * (1.5 if s else 1.0)] for a, b, s in zip(x, y, spoiled)]
    yield "line", {"fit": "line", "points": points}
    rule = {"sigmas": 3.0, "floor": 0.01, "points_min": 3, "share_max": float(random.choice([0.1, 0.25, 0.5]))}
    yield "filtered", {"fit": "filter", "points": points, **rule}


def regime(random):
    count = int(random.integers(3, 14))
    x = 2.0 ** (20 + numpy.arange(count))
    knee = 2 ** random.uniform(20, 20 + count)
    y = (5e-6 + x / 4e12 + numpy.maximum(0, x - knee) / 3e12) * noise(random, count, 0.004)
    points = [[float(a), float(b)] for a, b in zip(x, y)]
    yield "sweep", {"fit": "regime", "points": [points[at] for at in random.permutation(count)]}


def values(random):
    for count in (3, 6, 7, int(random.integers(8, 300))):
        drawn = numpy.exp(0.1 * random.standard_t(3, count))
        yield f"{count} values", {"fit": "statistics", "values": drawn.tolist()}
        yield f"{count} values of any sign", {"fit": "statistics", "values": random.standard_normal(count).tolist()}


def cells(random):
    devices, points = int(random.integers(2, 40)), int(random.integers(1, 8))
    # Some are slow beyond doubt, some by as much as the rule has to think about.
    slow = (random.random(devices) < 0.2) * random.choice([0.2, 0.02, 0.01]) * random.uniform(1, 1.5, devices)
    sigma = float(random.choice([0.005, 0.03]))
    drawn = [
        [d, p, float(p + sigma * random.standard_normal() + slow[d])]
        for d in range(devices) for p in range(points) if random.random() < 0.7
    ]
    yield "design", {"fit": "effects", "cells": drawn}


def merge(random):
    center = 10**7
    ends = [
        [int(center * random.uniform(0.5, 1.05)) if random.random() < 0.8 else None,
         int(center * random.uniform(0.95, 2)) if random.random() < 0.8 else None]
        for _ in range(int(random.integers(0, 9)))
    ]
    yield "brackets", {"fit": "merge", "brackets": ends}


def degenerate(random):
    """What is no sweep: too few points, times that are none, abscissas that are one."""
    times = [float(t) for t in random.choice([0.0, -1.0, 1e-6, 1e-6, 2e-3, 1e3, 1e-9], int(random.integers(0, 5)))]
    points = [[10 + at % 2, time] for at, time in enumerate(times)]
    yield "line", {"fit": "line", "points": [[10.0, time] for time in times]}
    yield "issue", {"fit": "seed_issue", "fill": None, "points": [[op, time, [[1, 32, op]]] for op, time in points]}
    sets = [[size, size, time] for size, time in points]
    yield from both_capacities("capacity", sets, 1e9)
    yield from both_fills("fill", [["g", [[1, 32, op]], int(op > 10), time] for op, time in points], 4)
