"""Statistics of devices and the constants of a class, from their formulas. As in `fits`, nothing is the crate's."""

import math
import statistics as statistics_module
from collections import defaultdict

import numpy
from scipy import optimize, special, stats

import fits


def finite(values):
    return all(map(math.isfinite, values))


def order_statistics(values):
    """Interpolated order statistics: Hettmansperger and Sheather 1986."""
    count, ordered = len(values), sorted(values)
    covers = lambda rank: 1 - 2 * stats.binom.cdf(rank - 1, count, 0.5)  # noqa: E731
    ranks = [rank for rank in range(1, count // 2 + 1) if covers(rank) >= 0.95]
    if not ranks or not finite(values):
        return None
    rank = max(ranks)
    part = (covers(rank) - 0.95) / (covers(rank) - covers(rank + 1))
    inward = (count - rank) * part / (rank + (count - 2 * rank) * part)
    low = ordered[rank - 1] * (1 - inward) + ordered[rank] * inward
    high = ordered[count - rank] * (1 - inward) + ordered[count - rank - 1] * inward
    return [low, high]


def student_t(values):
    if len(values) < 3 or not finite(values):
        return None
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return [numpy.mean(values) - half, numpy.mean(values) + half]


def student_t_log(values):
    if not all(value > 0 for value in values) or not finite(values):
        return None
    interval = student_t(numpy.log(values))
    return interval and [math.exp(end) for end in interval]


def half_width(values):
    """Half of the distribution-free 95% interval of the median between two samples, relative to the median."""
    count, ordered = len(values), sorted(values)
    ranks = [rank for rank in range(count // 2) if stats.binom.cdf(rank, count, 0.5) <= 0.025]
    center = numpy.median(values) if values else 0
    if not ranks or not center > 0:
        return None
    return (ordered[count - 1 - max(ranks)] - ordered[max(ranks)]) / 2 / center


def statistics(values):
    return {
        "median": float(numpy.median(values)) if values else None,
        "order_statistics": order_statistics(values),
        "student_t_log": student_t_log(values),
        "student_t": student_t(values),
        "half_width": half_width(values),
    }


def connected(cells):
    """Groups of devices that points connect, by union of sets."""
    groups = []
    for _, devices in grouped(cells, 1, 0).items():
        touching = [group for group in groups if group & devices]
        groups = [group for group in groups if not group & devices] + [set(devices).union(*touching)]
    return len(groups)


def grouped(cells, key, value):
    found = defaultdict(set)
    for cell in cells:
        found[cell[key]].add(cell[value])
    return found


def polish(cells):
    """Median polish (Tukey 1977) of (device, point, logarithm), points first, devices centred on their median."""
    if not cells or not finite([cell[2] for cell in cells]):
        raise fits.Refused("Nothing")
    if connected(cells) > 1:
        raise fits.Refused("NotConnected")
    devices = {device: 0.0 for device, _, _ in cells}
    points = {point: 0.0 for _, point, _ in cells}
    of_point, of_device = defaultdict(list), defaultdict(list)
    for device, point, log in cells:
        of_point[point].append((device, log))
        of_device[device].append((point, log))
    for _ in range(100):
        before = dict(devices), dict(points)
        for at in points:
            points[at] = statistics_module.median(log - devices[device] for device, log in of_point[at])
        for at in devices:
            devices[at] = statistics_module.median(log - points[point] for point, log in of_device[at])
        moved = max(
            max(abs(devices[at] - before[0][at]) for at in devices),
            max(abs(points[at] - before[1][at]) for at in points),
        )
        center = numpy.median(list(devices.values()))
        devices = {at: effect - center for at, effect in devices.items()}
        points = {at: effect + center for at, effect in points.items()}
        if moved <= 1e-12:
            break
    return devices, points


def levels(cells):
    """Each point's value at the centre of the class: polished, with Huber's location of devices and of what is left."""
    devices, points = polish(cells)
    center = huber(list(devices.values()))
    rest = defaultdict(list)
    for device, point, log in cells:
        rest[point].append(log - devices[device] - points[point])
    return {point: math.exp(level + center + huber(rest[point])) for point, level in points.items()}


def huber(values):
    """Huber's location (1964): the root of the sum of values cut at 1.345 robust standard deviations."""
    values = numpy.array(values)
    middle = numpy.median(values)
    bound = 1.345 * fits.SIGMA_OF_MAD * numpy.median(numpy.abs(values - middle))
    if bound <= 0:
        return middle
    return optimize.brentq(
        lambda center: numpy.clip(values - center, -bound, bound).sum(), values.min(), values.max(), xtol=1e-15
    )


def outliers(devices):
    """Robust z with Benjamini and Hochberg's control of false discoveries at 1%; {device: z}, None if too few."""
    if len(devices) < 16:
        return None
    effects = numpy.array(list(devices.values()))
    center = numpy.median(effects)
    sigma = max(0.003, fits.SIGMA_OF_MAD * numpy.median(numpy.abs(effects - center)))
    z = (effects - center) / sigma
    chance = special.erfc(numpy.abs(z) / math.sqrt(2))
    order = numpy.argsort(chance, kind="stable")
    passing = numpy.nonzero(chance[order] <= 0.01 * numpy.arange(1, len(z) + 1) / len(z))[0]
    called = order[: passing.max() + 1] if len(passing) else []
    names = list(devices)
    return {names[at]: z[at] for at in sorted(called) if abs(effects[at] - center) >= 0.02}


def effects(cells):
    devices, points = polish([tuple(cell) for cell in cells])
    found = outliers(dict(sorted(devices.items())))
    listed = lambda of: [of.get(at) for at in range(max(of) + 1)]  # noqa: E731
    return {
        "points": listed(points),
        "devices": listed(devices),
        "outliers": {"too_few_devices": len(devices)} if found is None else [[at, z] for at, z in found.items()],
    }


# --- the constants of stream rows -----------------------------------------------------------------------------------

MAIN_MEMORY_BYTES = 4 * 60 * 2**20
"""Four last-level caches of the class that `model/examples/oracle` makes rows of."""


def rates_of(rows):
    """Rates: {(kernel, solution, bytes): {device: median over rows of bytes / median of rounds}}."""
    found = defaultdict(lambda: defaultdict(list))
    for row in rows:
        seconds = float(numpy.median(row["rounds_ns"])) * 1e-9
        key = (row["kernel"], row["solution"], row["bytes"])
        found[key][row["device"]].append(row["bytes"] / seconds)
    return {key: {d: float(numpy.median(r)) for d, r in devices.items()} for key, devices in found.items()}


def quorum(groups):
    """Of each size the groups that at least half as many devices measured as any other."""
    most = defaultdict(int)
    for key, devices in groups.items():
        most[key[2]] = max(most[key[2]], len(devices))
    return {key: devices for key, devices in groups.items() if 2 * len(devices) >= most[key[2]]}


def shown(groups):
    """The rates that a class has shown: medians where most devices measured, levels where three did and less than half."""
    most = max(map(len, groups.values()), default=0)
    level = {}
    if any(2 * len(devices) < most for devices in groups.values()):
        cells = [(d, key, math.log(rate)) for key, group in groups.items() for d, rate in group.items()]
        try:
            level = levels(cells)
        except fits.Refused:
            pass
    for key, devices in groups.items():
        if 2 * len(devices) >= most:
            yield float(numpy.median(list(devices.values())))
        elif len(devices) >= 3:
            yield level.get(key) or float(numpy.median(list(devices.values())))


def apart(rows):
    """Devices of a kernel that feed nothing: those that stand apart, and the smaller of two groups of one firmware each."""
    cells = []
    for row in rows:
        seconds = float(numpy.median(row["rounds_ns"])) * 1e-9
        cells.append((row["device"], (row["point"], row["solution"]), math.log(seconds)))
    devices, _ = polish(cells)
    firmware = {row["device"]: row.get("vbios") for row in rows}
    groups = parted(devices, {device: firmware[device] for device in devices})
    if groups is None:
        return set(outliers(devices) or {})
    own = {device: center for center, members in groups for device in members}
    found = set(outliers({device: effect - own[device] for device, effect in devices.items()}))
    fast, slow = [[d for d in members if d not in found] for _, members in sorted(groups)]
    return found | set(slow if len(slow) <= len(fast) else fast)


def closest_half(values):
    """Median of the shortest interval that holds half of the values."""
    ordered, half = sorted(values), math.ceil(len(values) / 2)
    start = min(range(len(ordered) - half + 1), key=lambda at: ordered[at + half - 1] - ordered[at])
    return float(numpy.median(ordered[start : start + half]))


def lower_median(values):
    return statistics_module.median_low(values)


def parted(devices, firmware):
    """[(centre, members)] of two groups of one firmware each, where these part the devices; else None."""
    levels_seen = sorted(set(firmware.values()), key=str)
    if not 16 <= len(devices) <= 128 or len(levels_seen) != 2 or None in levels_seen:
        return None
    names = list(devices)
    values = numpy.array([devices[name] for name in names])
    labels = numpy.array([firmware[name] == levels_seen[1] for name in names])
    if min(labels.sum(), (~labels).sum()) < max(5, math.ceil(0.1 * len(names))):
        return None
    sides = [values[~labels], values[labels]]
    centers = [closest_half(side) for side in sides]
    around = [fits.SIGMA_OF_MAD * lower_median(abs(side - center)) for side, center in zip(sides, centers)]
    sigma = max(0.003, fits.SIGMA_OF_MAD * lower_median(distances(values, labels)))
    if abs(centers[0] - centers[1]) < max(3 * sigma, 0.01) or max(around) > 4 * max(min(around), 0.006):
        return None
    # The chance that labels dealt anew do as well, from deals of another sequence than the crate's.
    most = fits.SIGMA_OF_MAD * float(numpy.median(abs(values - numpy.median(values))))
    left = lambda of: numpy.minimum(distances(values, of), most).sum()  # noqa: E731
    random, found = numpy.random.default_rng(1), left(labels)
    if numpy.mean([left(random.permutation(labels)) <= found + 1e-12 for _ in range(2000)]) > 0.01:
        return None
    groups = []
    for side, center, spread, label in zip(sides, centers, around, (False, True)):
        near = side[abs(side - center) <= 5 * spread]
        groups.append((float(numpy.median(near)), [name for name, own in zip(names, labels) if own == label]))
    return groups


def distances(values, labels):
    centers = closest_half(values[~labels]), closest_half(values[labels])
    return abs(values - numpy.where(labels, centers[1], centers[0]))


def of_stream(rows):
    """{(name, kernel or None): value, interval, method} of one class."""
    rows = [row for row in rows if row["bytes"] >= MAIN_MEMORY_BYTES]
    kernels = sorted({row["kernel"] for row in rows})
    kept = []
    for kernel in kernels:
        of_kernel = [row for row in rows if row["kernel"] == kernel]
        found = apart(of_kernel)
        kept += [row for row in of_kernel if row["device"] not in found]
    constants = {}
    for kernel in [None, *kernels]:
        part = [row for row in kept if kernel in (None, row["kernel"])]
        best = max(shown(quorum(rates_of(part))), default=None)
        constants["memory_bandwidth", kernel] = {"value": best, "interval": None, "method": best and "witness"}
        if kernel is not None:
            for name, constant in zip(("memory_bandwidth_asymptote", "stream_latency"), asymptote(part)):
                constants[name, kernel] = constant
    return constants


def curve(rates):
    """(bytes, seconds) at the best rate of each size."""
    best = defaultdict(float)
    for (_, _, size), rate in rates.items():
        best[size] = max(best[size], rate)
    return [(size, size / rate) for size, rate in sorted(best.items())]


def asymptote(rows):
    groups = quorum(rates_of(rows))
    devices = sorted({device for group in groups.values() for device in group})
    level = {key: float(numpy.median(list(group.values()))) for key, group in groups.items()}
    if len(devices) >= 3:
        cells = [(d, key, math.log(rate)) for key, group in groups.items() for d, rate in group.items()]
        try:
            level = levels(cells)
        except fits.Refused:
            pass
    found = fits.line(curve(level))
    bandwidth, latency = 1 / found["slope"], found["intercept"]
    if len(devices) == 1:
        replicates, unit = rounds_of(rows, level), "rounds"
    else:
        own = [curve({key: group[d] for key, group in groups.items() if d in group}) for d in devices]
        replicates, unit = [one for one in own if len(one) >= 3], "devices"
    lines = [fits.line(one) for one in replicates]
    rates, intercepts = [1 / one["slope"] for one in lines], [one["intercept"] for one in lines]
    of_latency = constant(latency, intercepts, "student_t", student_t, unit)
    if latency <= 0 and not (of_latency["interval"] and of_latency["interval"][1] > 0):
        of_latency = {"value": None, "interval": None, "method": None}
    of_bandwidth = constant(bandwidth, rates, "student_t_log", student_t_log, unit)
    highest = max(bandwidth, of_bandwidth["interval"][1] if of_bandwidth["interval"] else 0)
    if max(size / seconds for size, seconds in curve(level)) > 1.01 * highest:
        # Its points are not of one thing.
        nothing = {"value": None, "interval": None, "method": None}
        return nothing, dict(nothing)
    return of_bandwidth, of_latency


def rounds_of(rows, level):
    """The curve of each round: at each size the solution that is best there."""
    best = {}
    for (_, solution, size), rate in level.items():
        best[size] = max(best.get(size, (0.0, None)), (rate, solution))
    of_round = defaultdict(list)
    for row in rows:
        if best[row["bytes"]][1] == row["solution"]:
            for number, ns in enumerate(row["rounds_ns"]):
                of_round[number].append((row["bytes"], ns * 1e-9))
    return [sorted(of_round[number]) for number in sorted(of_round)]


def constant(value, replicates, method, few, unit):
    if len(replicates) < 3:
        return {"value": value, "interval": None, "method": f"too_few_{unit}"}
    many = len(replicates) >= 8
    interval = order_statistics(replicates) if many else few(replicates)
    method = "order_statistics" if many else method
    return {"value": value, "interval": [min(interval[0], value), max(interval[1], value)], "method": f"{method}_{unit}"}
