"""Constants of the sweeps beside `stream`, from the formulas. As in `fits`, nothing is the crate's."""

import math
from collections import defaultdict

import numpy

import classes
import fits

MULTIPROCESSORS = 132
CANDIDATES = list(range(32, 2049, 32))
STARVED = 1 / 8


class Work:
    """What was timed at one point, over devices."""

    def __init__(self, row):
        self.row = row
        self.rows = defaultdict(list)
        self.level = None

    def device(self, name):
        """A device's time: the median of its rows' medians of rounds, seconds."""
        rows = self.rows.get(name)
        return rows and float(numpy.median([numpy.median(row["rounds_ns"]) for row in rows])) * 1e-9

    def round(self, number):
        rounds = [row["rounds_ns"] for rows in self.rows.values() for row in rows]
        times = [of_row[number] for of_row in rounds if number < len(of_row)]
        return float(numpy.median(times)) * 1e-9 if times else None


def without_apart(rows):
    """Rows of devices that do not stand apart in their kernel."""
    kept = []
    for kernel in sorted({row["kernel"] for row in rows}):
        of_kernel = [row for row in rows if row["kernel"] == kernel]
        found = classes.apart(of_kernel)
        kept += [row for row in of_kernel if row["device"] not in found]
    return kept


def works_of(rows):
    works = {}
    for row in rows:
        key = (row["kernel"], row["point"], row["solution"])
        works.setdefault(key, Work(row)).rows[row["device"]].append(row)
    return [works[key] for key in sorted(works)]


def leveled(works):
    """The same works with their class's time: of the centre where devices share points, else the median device's."""
    devices = devices_of(works)
    found = {}
    if len(devices) >= 3:
        cells = [(d, at, math.log(work.device(d))) for at, work in enumerate(works) for d in work.rows]
        try:
            found = classes.levels(cells)
        except fits.Refused:
            pass
    for at, work in enumerate(works):
        work.level = found.get(at) or float(numpy.median([work.device(d) for d in work.rows]))
    return works


def devices_of(works):
    return sorted({device for work in works for device in work.rows})


def geometry(row):
    """The solution without the blocks that follow from its size."""
    blocks = f"_g{row['contexts'][0][0]}" if row.get("contexts") else ""
    return row["solution"].removesuffix(blocks) if blocks else row["solution"]


def parts_of(rows):
    """Works that are fitted together, with their condition, by kernel, solution and shape."""
    parts = defaultdict(list)
    for row in rows:
        parts[row["kernel"], geometry(row), tuple(row.get("shape") or ())].append(row)
    for key in sorted(parts):
        kernel, solution, shape = key
        condition = {"kernel": kernel, "dtype": "f32", "solution": solution}
        condition |= {name: str(size) for name, size in zip("mn", shape)}
        yield condition, leveled(works_of(parts[key]))


# --- what is said of a constant -------------------------------------------------------------------------------------


def said(value=None, interval=None, method=None, set=None, verdict="measured"):
    return {"value": value, "interval": interval, "method": method, "set": set, "verdict": verdict}


UNKNOWN = said(verdict="not_identified")


def replicates(works, fit):
    """Refits of each device, or of each round of a single one: (values, unit), values None where a form fails."""
    devices = devices_of(works)
    if len(devices) == 1:
        numbers = max(len(row["rounds_ns"]) for work in works for rows in work.rows.values() for row in rows)
        times = [[work.round(number) for work in works] for number in range(numbers)]
        times, unit = [of for of in times if None not in of], "rounds"
    else:
        times, unit = [[work.device(device) for work in works] for device in devices], "devices"
    values = [fit(of) for of in times]
    if "failed" in values:
        return None, unit
    return [value for value in values if value is not None], unit


def spread(value, replicas, positive=True):
    """Value, interval and method of a quantity from its replicates."""
    values, unit = replicas
    if values is None or (len(values) >= 3 and positive and not all(one > 0 for one in values)):
        return said(value, None, "replicate_failed")
    few = ("student_t_log", classes.student_t_log) if positive else ("student_t", classes.student_t)
    found = classes.constant(value, values, *few, unit)
    return said(**found)


# --- each sweep -----------------------------------------------------------------------------------------------------


def capacities(rows, names, memory):
    """Capacity and rate of a cache, of each part and of the one that is known best."""
    found = []
    for condition, works in parts_of(rows):
        found.append((condition, *capacity_of(works, memory)))
    if not found:
        return
    width = lambda ends: ends[1] / ends[0] if None not in ends else math.inf  # noqa: E731
    best = min(found, key=lambda one: width(one[1]))
    agree = all(fits.merge([best[1], other[1]])["consistent"] for other in found)
    yield names[0], {}, best[2] if agree else UNKNOWN
    yield names[1], {}, best[3]
    for condition, _, capacity, rate in found:
        yield names[0], condition, capacity
        yield names[1], condition, rate


def capacity_of(works, memory):
    def fit(times):
        seen = [(work, seconds) for work, seconds in zip(works, times) if seconds is not None]
        points = [(work.row["working_set"], work.row["requested"], seconds) for work, seconds in seen]
        try:
            return fits.capacity(points, memory)
        except fits.Refused:
            return None

    whole = fit([work.level for work in works])
    if whole is None:
        return (None, None), UNKNOWN, UNKNOWN
    of_devices = [fit([work.device(device) for work in works]) for device in devices_of(works)]
    brackets = [one["bracket"] for one in of_devices if one is not None] or [whole["bracket"]]
    low, high = fits.merge(brackets)["bracket"]
    bracket = {"bracket": {"low": low, "high": high}}
    if low is None and high is None:
        capacity = UNKNOWN
    elif low is None or high is None:
        capacity = said(set=bracket, verdict="bounded")
    else:
        capacity = said(round(math.sqrt(low * high)), None, "set", bracket)
    rate = UNKNOWN
    if whole["cache_rate"] is not None:
        rate = spread(whole["cache_rate"], replicates(works, lambda times: (fit(times) or {}).get("cache_rate")))
    return (low, high), capacity, rate


def fills(rows):
    """The launch fill over every kernel together: its constants, and (best t, candidates) where there is one."""
    works = leveled(works_of(rows))
    points = [
        (f"{work.row['kernel']}/f32/{geometry(work.row)}", work.row["contexts"], 0, work.level) for work in works
    ]
    points.sort(key=lambda point: (point[0], sum(context[0] for context in point[1])))
    try:
        found = fits.fill(points, MULTIPROCESSORS, CANDIDATES, STARVED)
    except fits.Refused as refused:
        verdict = "form_rejected" if str(refused) == "FormRejected" else "not_identified"
        return [(name, {}, said(verdict=verdict)) for name in ("fill_threads", "device_fill_threads")], None
    best, chosen = found["best"]["fill_threads"], found["fill_threads"]
    constants = [
        (name, {}, said(best * factor, None, "set", {"candidates": [threads * factor for threads in chosen]}))
        for name, factor in (("fill_threads", 1), ("device_fill_threads", MULTIPROCESSORS))
    ]
    return constants, (best, chosen)


def issue_rates(rows, fill):
    """The regime's line of each part, as launched and for a full device, and the winner's."""
    found = []
    for condition, works in parts_of(rows):
        found.append((condition, *issue_of(works, fill)))
    if not found:
        return
    winner = max(found, key=lambda one: one[1])
    for condition, _, constants in [({"dtype": "f32"}, None, winner[2]), *found]:
        for name, constant in zip(("issue_rate", "full_issue_rate", "issue_latency"), constants):
            yield name, condition, constant


def issue_of(works, fill):
    def line(times, threads, of):
        points = []
        for work, seconds in zip(of, times):
            contexts = work.row["contexts"]
            ops = work.row["scalar_ops"] if threads is None else fits.effective(contexts, MULTIPROCESSORS, threads)
            points.append((ops, seconds))
        return fits.regime(points)

    def refit(which, threads, of):
        def one(times):
            kept = [(work, seconds) for work, seconds in zip(of, times) if seconds is not None]
            try:
                found = line([seconds for _, seconds in kept], threads, [work for work, _ in kept])["line"]
            except fits.Refused as refused:
                return None if str(refused) == "TooFewPoints" else "failed"
            return 1 / found["slope"] if which == "rate" else found["intercept"]

        return one

    try:
        found = line([work.level for work in works], None, works)
    except fits.Refused:
        return -math.inf, [UNKNOWN] * 3
    used = [works[at] for at in sorted(found["used"])]
    rate = spread(1 / found["line"]["slope"], replicates(used, refit("rate", None, used)))
    latency = spread(found["line"]["intercept"], replicates(used, refit("latency", None, used)), positive=False)
    full = UNKNOWN
    if fill:
        times = [work.level for work in used]
        rates = {threads: refit("rate", threads, used)(times) for threads in {fill[0], *fill[1]}}
        if isinstance(rates[fill[0]], float):
            of = [rate for rate in rates.values() if isinstance(rate, float)]
            full = spread(rates[fill[0]], replicates(used, refit("rate", fill[0], used)))
            full["set"] = {"bracket": {"low": min(of), "high": max(of)}}
    compared = full["value"] if full["value"] is not None else rate["value"]
    return compared, [rate, full, latency]


def peaks(rows):
    """The largest rate of each part, and of the device."""
    found = []
    for condition, works in parts_of(rows):
        most = max(len(work.rows) for work in works)
        rates = [work.row["flops"] / work.level for work in works if 2 * len(work.rows) >= min(most, 5)]
        found.append((condition | {"pipe": "scalar"}, max(rates)))
    if found:
        yield "peak_flops", {"pipe": "scalar", "dtype": "f32"}, said(max(rate for _, rate in found), None, "witness")
    for condition, rate in found:
        yield "peak_flops", condition, said(rate, None, "witness")


def launch_latency(rows):
    """The shortest empty launch of the class."""
    works = leveled(works_of(rows))
    if works:
        best = min(works, key=lambda work: work.level)
        yield "launch_latency", {}, spread(best.level, replicates([best], lambda times: times[0]))


def documents(rows):
    """{(name, condition): what is said} of one class."""
    of = defaultdict(list)
    for row in rows:
        of[row["sweep"]].append(row)
    streamed = classes.of_stream(of.pop("stream", []))
    memory = streamed["memory_bandwidth", None]["value"]
    found = []
    for (name, kernel), constant in streamed.items():
        verdict = "measured" if constant["value"] is not None else "not_identified"
        condition = {"kernel": kernel, "dtype": "f32"} if kernel else {}
        ends = constant["interval"]
        if ends and ends[0] <= 0 < ends[1]:
            # A positive quantity that the rows do not tell from zero has an upper bound and no value.
            found.append((name, condition, said(set={"bracket": {"low": None, "high": ends[1]}}, verdict="bounded")))
        else:
            found.append((name, condition, said(verdict=verdict) | constant))
    of = {sweep: without_apart(rows) for sweep, rows in of.items()}
    found += capacities(of.get("working_set", []), ("cache_capacity", "cache_bandwidth"), memory)
    hardware = ("last_level_cache_capacity", "last_level_cache_bandwidth")
    found += capacities(of.get("cache", []), hardware, memory)
    fill = None
    if of.get("launch"):
        fill_constants, fill = fills(of["launch"])
        found += fill_constants
    found += issue_rates(of.get("issue", []), fill)
    found += peaks(of.get("peak", []))
    found += launch_latency(of.get("latency", []))
    return {(name, tuple(sorted(condition.items()))): constant for name, condition, constant in found}
