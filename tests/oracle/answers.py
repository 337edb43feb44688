"""An answer of each side to a question, and where the two differ."""

import json
import math

import formulas

# Closed forms differ by rounding. Lines are found by two iterations that end at 1e-13 or so of a coefficient; an
# intercept is the difference of larger numbers, and is held to a part of the smallest ordinate.
RELATIVE = {"envelope": 1e-12, "seed_capacity": 1e-12, "merge": 0.0, "seed_issue": 1e-7, "effects": 1e-9}
RELATIVE_ELSE = 1e-6
ABSOLUTE = 1e-9


def ours(question, modules=formulas.SOUND):
    """The formulas' answer, in the crate's form."""
    asked = {key: value for key, value in question.items() if key != "fit"}
    fit = question["fit"]
    functions = {
        name: getattr(modules["fits"], name)
        for name in ("envelope", "seed_capacity", "seed_issue", "seed_fill", "fill", "line", "regime", "capacity", "merge")
    }
    functions |= {"filter": modules["fits"].filtered, "documents": modules["sweeps"].documents}
    functions |= {name: getattr(modules["classes"], name) for name in ("statistics", "effects")}
    try:
        return functions[fit](**asked)
    except modules["fits"].Refused as refused:
        return {"refused": str(refused)}


def theirs(question, answer):
    """The crate's answer, with documents reduced to what the formulas give."""
    if question["fit"] != "documents":
        return answer
    (document,) = [json.loads(text) for text in answer["documents"]]
    found = {}
    for constant in document["body"]["constants"]:
        interval = constant["interval"]
        found[constant["name"], tuple(sorted(constant["condition"].items()))] = {
            "value": constant["value"],
            "interval": interval and [interval["low"], interval["high"]],
            "method": constant["interval_method"],
            "set": constant["set"],
            "verdict": constant["verdict"],
        }
    return found


def variant(text):
    """The innermost name of a reason, or all of its names."""
    return [name for name in text.replace("(", " ").replace(")", " ").split() if name.isidentifier()]


def differences(expected, found, relative, at=""):
    """Where two answers differ, as sentences."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if "refused" in expected and "refused" in found:
            if expected["refused"] not in variant(found["refused"]):
                yield f"{at}: refused as {found['refused']}, the formulas refuse as {expected['refused']}"
            return
        if expected.keys() != found.keys():
            yield f"{at}: {sorted(map(str, found))} is given, the formulas give {sorted(map(str, expected))}: {found} {expected}"
            return
        for key in expected:
            yield from differences(expected[key], found[key], relative, f"{at}.{key}")
    elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        if len(expected) != len(found):
            yield f"{at}: {found} is given, the formulas give {expected}"
            return
        for index, (one, other) in enumerate(zip(expected, found)):
            yield from differences(one, other, relative, f"{at}[{index}]")
    elif isinstance(expected, bool) or expected is None or isinstance(expected, str) or found is None:
        if expected != found:
            yield f"{at}: {found} is given, the formulas give {expected}"
    else:
        # Capacities beyond 2^53 and sums that are not finite are not asked for.
        near = math.isclose(expected, found, rel_tol=relative, abs_tol=absolute(at))
        if not near:
            yield f"{at}: {found!r} is given, the formulas give {float(expected)!r}"


def absolute(at):
    """What may differ beside the relative tolerance: residuals, logarithms, and seconds of launch."""
    last = at.rsplit(".", 1)[-1]
    if last in ("latency", "intercept") or "stream_latency" in at or "issue_latency" in at:
        return 1e-11
    residual = last in ("residual_max", "squares", "raw_residual") or last.startswith(("dropped", "beyond", "devices"))
    return ABSOLUTE if residual else 0.0


def limit(fit):
    return RELATIVE.get(fit, RELATIVE_ELSE)
