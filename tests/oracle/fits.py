"""The fits, from their formulas and from nothing else: numpy and scipy, no code and no constant of the crate.

Sources: OCANNL's `Calibrate` and `Cost_model.Calibration` for what `seed` means; Huber 1964 (weights), Theil 1950 and Sen
1968 (slopes), Tukey 1977 (median polish), Benjamini and Hochberg 1995 (false discoveries), Hettmansperger and Sheather
1986 (order statistics), Student 1908; and what docs/adr and the crate's documentation state as rules. Where the crate
iterates, this solves another way: Newton steps on Huber's loss instead of reweighting, a least-squares solver instead of
closed forms, distributions of scipy instead of series.
"""

import functools
import math
from collections import defaultdict

import numpy
from scipy import optimize, stats

SIGMA_OF_MAD = 1.4826


class Refused(Exception):
    """Not identified; the text is the variant's name."""


def is_time(seconds):
    return math.isfinite(seconds) and seconds > 0


# --- as the original defines them -----------------------------------------------------------------------------------


def envelope(rows):
    timed = [(at, row) for at, row in enumerate(rows) if not row["opaque"] and is_time(row["seconds"])]

    def leg(count):
        rates = [(row[count] / row["seconds"], -at) for at, row in timed if row[f"{count}_exact"] and row[count] > 0]
        return {"peak": max(rates)[0], "witness": -max(rates)[1]} if rates else None

    compute, memory = leg("flops"), leg("bytes")
    slack = None
    if compute and memory:
        asked = [
            ((row["flops"] / compute["peak"] + row["bytes"] / memory["peak"]) / row["seconds"], -at)
            for at, row in timed
            if row["kernels"] > 1 and row["flops_exact"] and row["bytes_exact"]
        ]
        if asked and max(asked)[0] > 1:
            slack = {"factor": max(asked)[0], "witness": -max(asked)[1]}
            compute["peak"] *= slack["factor"]
            memory["peak"] *= slack["factor"]
    exact = [row["flops_exact"] and row["bytes_exact"] for row in rows]
    return {
        "compute": compute,
        "memory": memory,
        "slack": slack,
        "violations": [
            at
            for at, row in enumerate(rows)
            if exact[at] and not row["opaque"] and row["bound"] is not None and row["bound"] > row["seconds"]
        ],
        "opaque_rows": sum(row["opaque"] for row in rows),
        "approximate_rows": sum(not row["opaque"] and not both for row, both in zip(rows, exact)),
    }


def seed_capacity(points, dram_rate):
    rated = [(ws, requested / seconds) for ws, requested, seconds in points if is_time(seconds) and requested > 0]
    if not rated:
        return {"too_few_points": {}}
    fastest = max(rate for _, rate in rated)
    fastest_ws = min(ws for ws, rate in rated if rate == fastest)
    kept = [(ws, rate) for ws, rate in rated if ws >= fastest_ws]
    if len(kept) < 2:
        return {"too_few_points": {}}
    slowest = min(rate for _, rate in kept)
    if dram_rate is None and fastest / slowest < 2:
        return {"no_transition": {"contrast": fastest / slowest}}
    threshold = math.sqrt(fastest * (slowest if dram_rate is None else dram_rate))
    cached = [(ws, rate) for ws, rate in kept if rate >= threshold]
    spilled = [ws for ws, rate in kept if rate < threshold]
    if not cached:
        return {"all_spilled": {"smallest": min(spilled)}}
    cached_ws, cache_rate = max(ws for ws, _ in cached), float(numpy.median([rate for _, rate in cached]))
    if not spilled:
        return {"all_cached": {"largest": cached_ws, "cache_rate": cache_rate}}
    return {
        "transition": {
            "cached": cached_ws,
            "spilled": min(spilled),
            "capacity": round(math.sqrt(cached_ws * min(spilled))),
            "monotone": cached_ws < min(spilled),
            "cache_rate": cache_rate,
        }
    }


def effective(contexts, multiprocessors, threads, capped=True):
    """Operations of contexts (blocks, threads, operations), each divided by its fill."""
    total = 0.0
    for blocks, width, operations in contexts:
        if operations > 0:
            filled = blocks * (min(width, threads) if capped else width) / (multiprocessors * threads)
            total += operations / min(1.0, filled) if filled > 0 else math.inf
    return total


def operations_of(contexts):
    return float(sum(operations for _, _, operations in contexts))


def seed_issue(points, fill):
    ops, seconds = [], []
    for operations, time, contexts in points:
        if is_time(time) and operations > 0:
            factor = effective(contexts, *fill) / operations_of(contexts) if fill else 1.0
            ops.append(operations * factor)
            seconds.append(time)
    if len(ops) < 2:
        raise Refused("TooFewPoints")
    if len(set(ops)) < 2:
        raise Refused("NoGrowth")
    line = stats.linregress(ops, seconds)
    if not line.slope > 0:
        raise Refused("NoGrowth")
    ops, seconds = numpy.array(ops), numpy.array(seconds)
    error = numpy.abs((line.intercept + line.slope * ops) / seconds - 1)
    return {"rate": 1 / line.slope, "latency": line.intercept, "residual_max": error.max(), "points": len(ops)}


def proportional(points, work):
    """Rates by geometry that minimise squared relative residuals of time = work / rate; None if there are none."""
    by_geometry = defaultdict(list)
    for point in points:
        by_geometry[point[0]].append(work(point) / point[3])
    rates, squares, worst = {}, 0.0, 0.0
    for geometry, x in by_geometry.items():
        x = numpy.array(x)
        if not (numpy.all(numpy.isfinite(x)) and x.any()):
            return None
        scale = x.max()
        (inverse,), *_ = numpy.linalg.lstsq((x / scale)[:, None], numpy.ones(len(x)), rcond=None)
        residuals = x / scale * inverse - 1
        rates[geometry] = scale / inverse
        squares += float(residuals @ residuals)
        worst = max(worst, float(numpy.abs(residuals).max()))
    return rates, squares, worst


def best_candidate(points, multiprocessors, candidates, capped):
    fits = {}
    for threads in sorted({threads for threads in candidates if threads > 0}):
        fit = proportional(points, lambda point: effective(point[1], multiprocessors, threads, capped))
        if fit:
            fits[threads] = fit
    if not fits:
        return None
    least = min(squares for _, squares, _ in fits.values())
    tied = [threads for threads, (_, squares, _) in fits.items() if squares - least <= 1e-10 * len(points)]
    return tied, fits[tied[0]]


def seed_fill(points, multiprocessors, candidates, starved):
    if any(tensor > 0 for _, _, tensor, _ in points):
        raise Refused("TensorWork")
    timed = [point for point in points if is_time(point[3]) and operations_of(point[1]) > 0]
    best = defaultdict(float)
    for geometry, contexts, _, seconds in timed:
        best[geometry] = max(best[geometry], operations_of(contexts) / seconds)
    fed = [point for point in timed if operations_of(point[1]) / point[3] >= starved * best[point[0]]]
    if len(fed) < 2:
        raise Refused("TooFewPoints")
    found = best_candidate(fed, multiprocessors, candidates, True)
    if found is None:
        raise Refused("NoFiniteFit")
    tied, (rates, squares, worst) = found
    fills = [operations_of(point[1]) / effective(point[1], multiprocessors, tied[0]) for point in fed]
    sides = defaultdict(set)
    for point, fill in zip(fed, fills):
        sides[point[0]].add(fill >= 1)
    if not any(len(both) == 2 for both in sides.values()):
        raise Refused("NoGeometryCrosses")
    partial = sum(fill < 0.9 for fill in fills)
    if partial < 2:
        raise Refused("NeverPartial")
    raw_rates, _, raw_worst = proportional(fed, lambda point: operations_of(point[1]))
    uncapped = best_candidate(fed, multiprocessors, candidates, False)
    return {
        "fill_threads": tied[0],
        "tied": tied,
        "rate": rates[fed[0][0]],
        "squares": squares,
        "residual_max": worst,
        "geometries": len(rates),
        "partial_points": partial,
        "points": len(fed),
        "starved_points": len(timed) - len(fed),
        "raw_rate": raw_rates[fed[0][0]],
        "raw_residual": raw_worst,
        "uncapped": uncapped and [uncapped[0][0], uncapped[1][2]],
    }


# --- as documents state them ----------------------------------------------------------------------------------------


def fill(points, multiprocessors, candidates, starved):
    best = seed_fill(points, multiprocessors, candidates, starved)
    if best["residual_max"] > 0.2:
        raise Refused("FormRejected")
    degrees = max(1, best["points"] - best["geometries"] - 1)
    bound = best["squares"] * (1 + stats.t.ppf(0.975, degrees) ** 2 / degrees)
    rates = {}
    for threads in candidates:
        try:
            alone = seed_fill(points, multiprocessors, [threads], starved)
        except Refused:
            continue
        if threads in best["tied"] or alone["squares"] <= bound:
            rates[threads] = alone["rate"]
    chosen = sorted(rates)
    return {
        "fill_threads": chosen,
        "device_threads": [multiprocessors * chosen[0], multiprocessors * chosen[-1]],
        "rate_range": [min(rates.values()), max(rates.values())],
        "best": best,
    }


def relative(points, line):
    return (points[:, 1] - line[0] - line[1] * points[:, 0]) / points[:, 1]


def line(points):
    """Minimum of Huber's loss over relative residuals; its bound is set once, by the line of median slope."""
    return dict(line_of(tuple(map(tuple, points))))


@functools.cache
def line_of(points):
    """The same points are asked for many times while a regime is looked for."""
    points = numpy.array(points, dtype=float).reshape(-1, 2)
    if not (numpy.all(numpy.isfinite(points)) and numpy.all(points[:, 1] > 0)):
        raise Refused("BadPoint")
    if len(set(points[:, 0])) < 2:
        raise Refused("OneAbscissa")
    start = stats.theilslopes(points[:, 1], points[:, 0], method="joint")
    first = numpy.array([start.intercept, start.slope])
    sigma = SIGMA_OF_MAD * numpy.median(numpy.abs(relative(points, first)))
    bound = 1.345 * max(sigma, 0.002)
    # About unit size in both directions, or the solvers lose half of their digits.
    width = numpy.abs(points[:, 0]).max()
    design = numpy.column_stack([numpy.ones(len(points)), points[:, 0] / width]) / points[:, 1:]
    unit = numpy.linalg.norm(design, axis=0)
    design = design / unit
    solved = optimize.least_squares(
        lambda b: design @ b - 1, first * unit * [1, width], lambda b: design, loss="huber", f_scale=bound,
        xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000,
    ).x
    for _ in range(50):
        residuals = 1 - design @ solved
        inside = numpy.abs(residuals) <= bound
        slopes = numpy.where(inside, residuals, numpy.sign(residuals) * bound)
        step = numpy.linalg.lstsq(design[inside].T @ design[inside], design.T @ slopes, rcond=None)[0]
        if numpy.linalg.norm(step) <= 1e-14 * numpy.linalg.norm(solved) or inside.sum() < 2:
            break
        solved = solved + step
    intercept, slope = solved / unit / [1, width]
    return {"intercept": intercept, "slope": slope,
            "residual_max": numpy.abs(relative(points, (intercept, slope))).max()}


def filtered(points, sigmas, floor, points_min, share_max):
    """Drops what is far off and fits again until nothing changes."""
    points = numpy.array(points, dtype=float).reshape(-1, 2)
    count = len(points)
    may_go = max(0, min(int(count * share_max), count - points_min))
    kept, seen = list(range(count)), []
    while True:
        found = line(points[kept])
        off_by = relative(points, (found["intercept"], found["slope"]))
        sigma = SIGMA_OF_MAD * numpy.median(numpy.abs(off_by[kept]))
        limit = max(sigmas * sigma, floor)
        far = [at for at in range(count) if abs(off_by[at]) > limit]
        worst_first = sorted(far, key=lambda at: (-abs(off_by[at]), -at))[:may_go]
        following = [at for at in range(count) if at not in worst_first]
        seen.append(kept)
        if following in seen or len(seen) >= 32:
            return {
                "line": found, "kept": kept, "limit": limit, "settled": following == kept and len(far) <= may_go,
                "dropped": [[at, off_by[at]] for at in range(count) if at not in kept],
            }
        kept = following


def regime(points, points_min=4, residual_max=0.03):
    """The longest run from the smallest point on that one line holds."""
    order = sorted(range(len(points)), key=lambda at: tuple(points[at]))
    points = numpy.array([points[at] for at in order], dtype=float).reshape(-1, 2)
    if len(points) < points_min:
        raise Refused("TooFewPoints")
    for length in range(len(points), points_min - 1, -1):
        try:
            found = filtered(points[:length], 3, 0.02, 3, 0.25)
        except Refused as refused:
            raise Refused("NoLine") from refused
        at_line = (found["line"]["intercept"], found["line"]["slope"])
        off_by, kept = relative(points, at_line), found["kept"]
        worst = numpy.abs(off_by[kept]).max()
        if worst > residual_max or len(kept) < points_min or kept[-1] != length - 1:
            continue
        if at_line[1] <= 0:
            raise Refused("NoGrowth")
        return {
            "line": found["line"], "used": [order[at] for at in kept], "residual_max": worst,
            "dropped": [[order[at], off_by[at]] for at in range(length) if at not in kept],
            "beyond": [[order[at], off_by[at]] for at in range(length, len(points))],
        }
    raise Refused("Rejected")


def capacity(points, dram_rate):
    sound = [at for at, (_, requested, seconds) in enumerate(points) if is_time(seconds) and requested > 0]
    try:
        latency = max(0.0, regime([points[at][1:] for at in sound])["line"]["intercept"])
    except Refused:
        latency = 0.0
    judged = [at for at in sound if latency <= points[at][2] / 2]
    rated = sorted((points[at][0], points[at][1] / (points[at][2] - latency), at) for at in judged)
    if len(rated) < 2:
        raise Refused("TooFewPoints")
    rates = [rate for _, rate, _ in rated]
    if dram_rate is None and max(rates) / min(rates) < 2:
        raise Refused("NoTransition")
    threshold = math.sqrt(max(rates) * (min(rates) if dram_rate is None else dram_rate))
    # Up to a quarter of the points, slow below two that the cache serves: they have not spilled, and are on no side.
    first = next((at for at, rate in enumerate(rates) if rate >= threshold), 0)
    if first > len(rated) / 4 or not all(rate >= threshold for rate in rates[first : first + 2]) or len(rates) < first + 2:
        first = 0
    short, rated = [at for _, _, at in rated[:first]], [point[:2] for point in rated[first:]]
    cached = [(ws, rate) for ws, rate in rated if rate >= threshold]
    spilled = [ws for ws, rate in rated if rate < threshold]
    below = [ws for ws, _ in rated if not spilled or ws < min(spilled)]
    above = [ws for ws, _ in rated if not cached or ws > max(ws for ws, _ in cached)]
    both = len(cached) >= 2
    return {
        "bracket": [max(below, default=None) if both else None, min(above, default=None) if len(spilled) >= 2 else None],
        "latency": latency,
        "cache_rate": float(numpy.median([rate for _, rate in cached])) if both else None,
        "monotone": not (cached and spilled) or max(ws for ws, _ in cached) < min(spilled),
        "launch_bound": [at for at in sound if at not in judged],
        "short": short,
        "cached_points": len(cached),
        "spilled_points": len(spilled),
    }


def merge(brackets):
    lows = sorted(low for low, _ in brackets if low is not None)
    highs = sorted(high for _, high in brackets if high is not None)
    low, high = max(lows, default=None), min(highs, default=None)
    if low is None or high is None or low < high:
        return {"bracket": [low, high], "consistent": True}
    ends = [lows[(len(lows) - 1) // 2], highs[len(highs) // 2]]
    return {"bracket": sorted(ends), "consistent": False}
