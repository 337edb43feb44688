"""Rows of simulated classes of devices, of every sweep that documents have constants of."""

import math

import numpy

CLASS_SIZES = (1, 2, 4, 6, 9, 20, 24, 33)
SEEDS = 16


def everything():
    for seed in range(SEEDS):
        yield from streams(numpy.random.default_rng(1000 + seed), seed)
    for seed in range(6):
        # So noisy that a latency is not told from zero, on either side of it.
        yield from streams(numpy.random.default_rng(3000 + seed), seed, 0.2)
    for seed in range(SEEDS):
        yield two_firmwares(numpy.random.default_rng(4000 + seed), seed)
    for seed in range(2 * SEEDS):
        yield from sweeps(numpy.random.default_rng(2000 + seed), seed)


def noise(random, count, sigma):
    return numpy.exp(sigma * random.standard_normal(count))


def streams(random, seed, sigma=0.002):
    """Stream rows of a class: a kernel or two, one or two solutions, sizes, devices, rounds; some devices slow."""
    devices = CLASS_SIZES[seed % 8]
    share = 1.0 if devices < 6 or seed < 8 else 0.6
    factors = noise(random, devices, 0.005)
    if devices >= 20:
        factors[:2] *= (1.25, 1.4)
    rows = []
    for kernel, arrays in (("copy", 2), ("triad", 3))[: 1 + seed % 2]:
        for solution, better in (("w4", 1.0), ("w1", 0.98))[: 1 + seed // 4 % 2]:
            for power in range(22, 30):
                size = arrays * 4 * 2**power
                for device in range(devices):
                    seconds = (5e-6 + size / (4.3e12 * better)) * factors[device] * noise(random, 5, sigma)
                    if random.random() < share:
                        rows.append({
                            "sweep": "stream", "device": f"GPU-{device:02}", "kernel": kernel, "solution": solution,
                            "bytes": size, "point": f"stream/{kernel}/{2**power}",
                            "rounds_ns": (seconds * 1e9).tolist(),
                        })
    what = f"class {seed}: {devices} devices, {math.floor(share * 100)}%, noise {sigma}"
    yield what, {"fit": "documents", "rows": rows}


def two_firmwares(random, seed):
    """Classes of two firmwares, one of them slower by 4%, with slow devices in both; in every fourth it does not matter."""
    devices = (16, 17, 24, 40)[seed // 4]
    matters = seed % 4 != 3
    later = random.permutation(devices) < round(devices * (0.35, 0.6, 0.35, 0.4)[seed % 4])
    factors = noise(random, devices, 0.005) * numpy.where(later & matters, 1.04, 1.0)
    # Half of a small group may be slow, and one device by little more than the groups differ.
    among = numpy.flatnonzero(later) if seed % 4 == 0 else numpy.arange(devices)
    slow = random.choice(among, size=(len(among) // 2, 2, 3, 3)[seed % 4], replace=False)
    factors[slow] *= numpy.maximum(random.uniform(1.0, 1.4, len(slow)), 1.07)
    rows = []
    for power in range(25, 30):
        size = 2**power * 8
        for device in range(devices):
            seconds = (5e-6 + size / 4.3e12) * factors[device] * noise(random, 5, 0.002)
            rows.append({
                "sweep": "stream", "device": f"GPU-{device:02}", "kernel": "copy", "solution": "w4", "bytes": size,
                "point": f"stream/copy/{2**power}", "vbios": "96.B0" if later[device] else "96.A5",
                "rounds_ns": (seconds * 1e9).tolist(),
            })
    what = f"firmwares {seed}: {devices} devices, {len(slow)} slow, {'parted' if matters else 'alike'}"
    return what, {"fit": "documents", "rows": rows}


def sweeps(random, seed):
    """Rows of the other sweeps, with three sizes of a stream in every second class, so that memory's rate is known."""
    devices = (1, 2, 3, 5, 8, 17)[seed % 6]
    share = 1.0 if devices < 5 or seed % 4 else 0.7
    factors = noise(random, devices, 0.004)
    if devices >= 16:
        factors[3] *= 1.2
    sigma = (0.001, 0.004)[seed // 2 % 2]
    # Some classes' devices differ in each point by so much that a line of one leaves out what that of another keeps.
    point_sigma = (0.0, 0.001, 0.012)[seed % 3]
    points = [*working_sets(random, seed), *issues(random, seed), *launches(random, seed), *peaks(random), *empties()]
    if seed % 2:
        points += [
            {"sweep": "stream", "kernel": "copy", "solution": "w4", "bytes": 2**power, "point": f"stream/{power}",
             "seconds": 5e-6 + 2**power / 4.3e12}
            for power in (29, 30, 31)
        ]
    rows = []
    for point in points:
        seconds = point.pop("seconds")
        of_odd_devices = point.pop("of_odd_devices", seconds)
        for device in range(devices):
            # The first device has every point, so that devices can be compared by way of it.
            if device == 0 or random.random() < share:
                own = (of_odd_devices if device % 2 else seconds) * noise(random, 1, point_sigma)
                rounds = own * factors[device] * noise(random, 5, sigma) * 1e9
                rows.append(point | {"device": f"GPU-{device:02}", "rounds_ns": rounds.tolist()})
    yield f"sweeps {seed}: {devices} devices", {"fit": "documents", "rows": rows}


def working_sets(random, seed):
    """The proxy's capacity for one or two shapes, which may contradict each other; and the hardware's."""
    for sweep in ("working_set", "cache"):
        for shape in ((512, 512), (1024, 256))[: 1 + seed // 3 % 2]:
            edge = 2.0 ** random.uniform(21, 27)
            for size in 2 ** numpy.arange(20, 29):
                requested = int(size) * 32
                # Devices of a class need not spill at the same working set: a bracket of each, then one of all.
                edges = (edge, edge * (1, 2, 0.25)[seed % 3])
                seconds, odd = (4e-6 + requested / (9e12 if size <= end else 4e12) for end in edges)
                yield {
                    "sweep": sweep, "kernel": "reread", "solution": "t32", "shape": shape, "working_set": int(size),
                    "requested": requested, "bytes": int(size), "point": f"{sweep}/{shape[0]}/{size}",
                    "seconds": seconds, "of_odd_devices": odd,
                }


def issues(random, seed):
    """Lines with a knee; in some classes one that no line holds."""
    for solution, rate in (("t32_b64", 3.6e12), ("t16_b64", 3.1e12))[: 1 + seed % 2]:
        knee = 2.0 ** random.uniform(29, 34)
        # A time that does not grow as a line does from the start: there is no regime.
        crooked = seed % 7 == 6
        for power in range(24, 33):
            ops, blocks = 2**power, 2 ** max(0, power - 22)
            seconds = 5e-6 + ops / rate + max(0.0, ops - knee) / 2e12
            yield {
                "sweep": "issue", "kernel": "contraction", "solution": f"{solution}_g{blocks}", "shape": (512, 512),
                "scalar_ops": ops, "flops": ops, "contexts": [[blocks, 64, ops]], "point": f"issue/{power}",
                "seconds": seconds * (1.5 ** (power % 2) if crooked else 1.0),
            }


def launches(random, seed):
    """Two geometries that share a fill; in some classes a form that is off by a third."""
    truth = 32 * int(random.integers(4, 20))
    for geometry, (width, rate) in {"wide": (256, 5e12), "narrow": (64, 3e12)}.items():
        for blocks in 2 ** numpy.arange(3, 12):
            filled = min(1.0, blocks * min(width, truth) / (132 * truth))
            waves = 1.5 if seed % 5 == 4 and blocks == 256 else 1.0
            yield {
                "sweep": "launch", "kernel": "contraction", "solution": f"{geometry}_g{blocks}", "scalar_ops": 2**31,
                "flops": 2**31, "contexts": [[int(blocks), width, 2**31]], "point": f"launch/{geometry}/{blocks}",
                "seconds": 2**31 / filled / rate * waves,
            }


def peaks(random):
    for solution in ("u4", "u8"):
        for power in (30, 32, 34):
            rate = 5e13 * random.uniform(0.8, 1.0)
            yield {
                "sweep": "peak", "kernel": "fma", "solution": solution, "flops": 2**power, "scalar_ops": 2**power,
                "point": f"peak/{power}", "seconds": 2**power / rate,
            }


def empties():
    for solution, seconds in (("b1", 2.1e-6), ("b1024", 2.4e-6)):
        yield {"sweep": "latency", "kernel": "empty", "solution": solution, "point": "latency", "seconds": seconds}
