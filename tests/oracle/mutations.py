"""Shows that the comparison can fail: every formula that is changed, and every number that is off, must be noticed.

Run by `compare.py` after a comparison without differences, on the same cases.
"""

import sys

import answers
import formulas

# Fit, module, what stands there, what stands there instead: one wrong formula each, of the size that people make.
CHANGES = [
    ("envelope", "fits", 'row["kernels"] > 1 and row["flops_exact"]', 'row["kernels"] > 2 and row["flops_exact"]'),
    ("envelope", "fits", 'row["bound"] > row["seconds"]', 'row["bound"] > 2 * row["seconds"]'),
    ("seed_capacity", "fits", "kept = [(ws, rate) for ws, rate in rated if ws >= fastest_ws]", "kept = rated"),
    ("seed_capacity", "fits", "round(math.sqrt(cached_ws * min(spilled)))", "round((cached_ws + min(spilled)) / 2)"),
    ("capacity", "fits", "rated = sorted((points[at][0], points[at][1] / (points[at][2] - latency), at)",
     "rated = sorted((points[at][0], points[at][1] / points[at][2], at)"),
    ("capacity", "fits", "latency <= points[at][2] / 2", "latency <= points[at][2]"),
    ("capacity", "fits", "if len(spilled) >= 2 else None]", "if len(spilled) >= 1 else None]"),
    ("merge", "fits", "ends = [lows[(len(lows) - 1) // 2], highs[len(highs) // 2]]", "ends = [max(lows), min(highs)]"),
    ("seed_issue", "fits", "return {\"rate\": 1 / line.slope", "return {\"rate\": 1.00001 / line.slope"),
    ("seed_fill", "fits", "blocks * (min(width, threads) if capped else width)", "blocks * width"),
    ("seed_fill", "fits", "partial = sum(fill < 0.9 for fill in fills)", "partial = sum(fill < 0.5 for fill in fills)"),
    ("fill", "fits", "stats.t.ppf(0.975, degrees) ** 2 / degrees", "stats.t.ppf(0.9, degrees) ** 2 / degrees"),
    ("fill", "fits", '["residual_max"] > 0.2:', '["residual_max"] > 0.1:'),
    ("line", "fits", "bound = 1.345 * max(sigma, 0.002)", "bound = 1.5 * max(sigma, 0.002)"),
    ("line", "fits", "max(sigma, 0.002)", "max(sigma, 0.0)"),
    ("filter", "fits", "limit = max(sigmas * sigma, floor)", "limit = sigmas * sigma"),
    ("filter", "fits", "max(0, min(int(count * share_max), count - points_min))", "max(0, count - points_min)"),
    ("regime", "fits", "def regime(points, points_min=4, residual_max=0.03)",
     "def regime(points, points_min=4, residual_max=0.05)"),
    ("regime", "fits", "filtered(points[:length], 3, 0.02, 3, 0.25)", "filtered(points[:length], 3, 0.005, 3, 0.25)"),
    ("statistics", "classes", "inward = (count - rank) * part /", "inward = part * rank /"),
    ("statistics", "classes", "stats.t.ppf(0.975, len(values) - 1)", "stats.norm.ppf(0.975)"),
    ("statistics", "classes", "<= 0.025]", "<= 0.05]"),
    ("effects", "classes", "center = numpy.median(list(devices.values()))\n        devices",
     "center = numpy.mean(list(devices.values()))\n        devices"),
    ("effects", "classes", "0.01 * numpy.arange(1, len(z) + 1) / len(z)", "0.01 / len(z)"),
    ("documents", "classes", "bound = 1.345 * fits.SIGMA_OF_MAD", "bound = 1e9 * fits.SIGMA_OF_MAD"),
    ("documents", "classes", "MAIN_MEMORY_BYTES = 4 * 60 * 2**20", "MAIN_MEMORY_BYTES = 2 * 60 * 2**20"),
    ("documents", "classes", "> 1.01 * highest", "> 9 * highest"),
    ("documents", "classes", "ordered, half = sorted(values), math.ceil(len(values) / 2)",
     "ordered, half = sorted(values), len(values)"),
    ("documents", "classes", "set(slow if len(slow) <= len(fast) else fast)", "set(slow)"),
    ("documents", "classes", "groups = parted(devices,", "groups = (lambda *_: None)(devices,"),
    ("documents", "classes", "own = {device: center for center, members in groups",
     "own = {device: 0.0 for center, members in groups"),
    ("documents", "classes", "many = len(replicates) >= 8", "many = len(replicates) >= 9"),
    ("documents", "sweeps", "if ends and ends[0] <= 0 < ends[1]:", "if ends and ends[0] <= 0 >= ends[1]:"),
    ("documents", "sweeps", "found = classes.levels(cells)", "found = {}"),
    ("documents", "sweeps", "used = [works[at] for at in sorted(found[\"used\"])]", "used = works"),
    ("documents", "sweeps", "brackets = [one[\"bracket\"] for one in of_devices if one is not None] or",
     "brackets ="),
    ("documents", "sweeps", "best = min(found, key=lambda one: width(one[1]))", "best = found[0]"),
    ("documents", "sweeps", "STARVED = 1 / 8", "STARVED = 1 / 2"),
    ("documents", "sweeps", 'work.row["flops"] / work.level', 'work.row["flops"] / max(map(work.device, work.rows))'),
    ("documents", "sweeps", "min(works, key=lambda work: work.level)", "max(works, key=lambda work: work.level)"),
]


def survivors(sound):
    """Changes that no case notices."""
    for fit, module, old, new in CHANGES:
        changed = formulas.load(module, old, new)
        if not any(differs(question, found, changed) for question, _, found in sound if question["fit"] == fit):
            yield f"{fit}: `{new}` for `{old}`"


def differs(question, found, modules):
    try:
        expected = answers.ours(question, modules)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # A wrong formula may answer nothing at all.
        return True
    return any(answers.differences(expected, found, answers.limit(question["fit"])))


def leaves(answer, at=()):
    """Where the numbers of an answer stand, and what they are called: places in lists have one name."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield from leaves(value, (*at, key))
    elif isinstance(answer, (list, tuple)):
        for index, value in enumerate(answer):
            yield from leaves(value, (*at, index))
    elif isinstance(answer, (int, float)) and not isinstance(answer, bool):
        yield at


def called(fit, at):
    # Of the key of a constant, its name: under which condition it stands does not matter.
    return (fit, *(key[0] if isinstance(key, tuple) else key for key in at if not isinstance(key, int)))


def spoiled(answer, at):
    """The answer with the number at a place off by a part in ten thousand."""
    if not at:
        return answer * 1.0001 if answer else 1e-4
    first, *rest = at
    if isinstance(answer, dict):
        return answer | {first: spoiled(answer[first], rest)}
    return [spoiled(value, rest) if index == first else value for index, value in enumerate(answer)]


def unnoticed(sound):
    """Numbers of the crate's answers that may be off without a difference, one of each name; and all names."""
    looked_at = {}
    for question, expected, found in sound:
        for at in leaves(found):
            name = called(question["fit"], at)
            if name not in looked_at:
                off = spoiled(found, at)
                looked_at[name] = any(answers.differences(expected, off, answers.limit(question["fit"])))
    return [name for name, noticed in looked_at.items() if not noticed], looked_at


def main(sound):
    """`sound` are (question, the formulas' answer, the crate's answer), without a difference."""
    fits = {question["fit"] for question, _, _ in sound}
    failed = [f"no formula of {fit} is changed" for fit in fits - {fit for fit, *_ in CHANGES}]
    failed += [f"not noticed: {change}" for change in survivors(sound)]
    blind, names = unnoticed(sound)
    failed += [f"may be off: {name}" for name in blind]
    failed += [f"no number of {fit} was spoiled" for fit in fits - {name[0] for name in names}]
    for what in failed:
        print(what)
    print(f"{len(CHANGES)} changed formulas of {len(fits)} fits and {len(names)} spoiled kinds of numbers are noticed")
    sys.exit(f"{len(failed)} changes go unnoticed" if failed else 0)
