"""Compares the crate's fits with fits computed from the formulas alone, on simulated and on real rows.

    cargo build --package fleetcal-model --features testing --example oracle
    python tests/oracle/compare.py target/debug/examples/oracle

Names every difference beyond the tolerances below and fails if there is one, or if a fit was never compared.
"""

import collections
import json
import subprocess
import sys

import cases
import mutations
from answers import differences, limit, ours, theirs

def answers(binary, asked):
    """The crate's answers to (name, question) pairs, as they compare."""
    lines = "".join(json.dumps(question) + "\n" for _, question in asked)
    done = subprocess.run([binary], input=lines, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if len(found) != len(asked):
        sys.exit(f"{len(asked)} questions were asked, and {len(found)} answered")
    return [theirs(question, answer) for (_, question), answer in zip(asked, found)]


def main(binary):
    asked = list(cases.everything())
    compared, answered, failed = collections.Counter(), collections.Counter(), 0
    sound = []
    for (name, question), found in zip(asked, answers(binary, asked)):
        fit = question["fit"]
        expected = ours(question)
        sound.append((question, expected, found))
        compared[fit] += 1
        answered[fit] += "refused" not in expected
        for difference in differences(expected, found, limit(fit)):
            failed += 1
            print(f"differs: {fit}: {name}: {difference}")
    for fit, count in sorted(compared.items()):
        print(f"{fit}: {count} compared, {answered[fit]} of them identified")
        if answered[fit] < 10:
            failed += 1
            print(f"differs: {fit}: too few of its cases are identified to compare anything")
    verdicts = collections.Counter(
        constant["verdict"] for question, expected, _ in sound if question["fit"] == "documents"
        for constant in expected.values()
    )
    print("constants of documents:", ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    if len(verdicts) < 4:
        failed += 1
        print(f"differs: documents: {', '.join(verdicts)} are not every verdict")
    if failed:
        sys.exit(f"{failed} differences")
    mutations.main(sound)


if __name__ == "__main__":
    main(sys.argv[1])
