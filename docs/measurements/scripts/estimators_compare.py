"""Root mean square errors of our rate and of other people's estimators on simulated fleets.

    cargo run --release -p fleetcal-model --features testing --example fleets -- POINTS.csv FITS.csv 1000
    python docs/measurements/scripts/estimators_compare.py POINTS.csv FITS.csv

Needs numpy, scipy and scikit-learn. Huber and RANSAC are scikit-learn's, Theil-Sen is scipy's, with their defaults, on
times over bytes, both scaled to unit size: on the medians over devices of each size, and on all points. Fails if our
pipeline's error is above 1.05 times that of the best of them for any kind of fleet.
"""

import collections
import csv
import sys
import warnings

import numpy
from scipy.stats import theilslopes
from sklearn.linear_model import HuberRegressor, RANSACRegressor

ALLOWED = 1.05
# Slopes of all pairs of so many points take minutes a fleet.
THEIL_SEN_POINTS_MAX = 200


def huber(x, y):
    return HuberRegressor(max_iter=1000).fit(x[:, None], y).coef_[0]


def ransac(x, y):
    return RANSACRegressor(random_state=0).fit(x[:, None], y).estimator_.coef_[0]


def theil_sen(x, y):
    return theilslopes(y, x).slope if len(x) <= THEIL_SEN_POINTS_MAX else None


def rates(points):
    """The rate of each estimator, bytes per second; points are (bytes, seconds)."""
    by_size = collections.defaultdict(list)
    for size, seconds in points:
        by_size[size].append(seconds)
    medians = [(size, float(numpy.median(seconds))) for size, seconds in sorted(by_size.items())]
    found = {}
    for what, given in (("medians", medians), ("all", points)):
        x, y = numpy.array(given, dtype=float).T
        # Huber's regression is not scale free: its defaults are for values of about one.
        width, height = x.max(), y.max()
        for estimator in (huber, ransac, theil_sen):
            slope = estimator(x / width, y / height)
            if slope is not None:
                found[f"{estimator.__name__}, {what}"] = width / (slope * height)
    return found


def main(points_path, fits_path):
    warnings.filterwarnings("ignore")
    points = collections.defaultdict(list)
    with open(points_path) as file:
        for row in csv.DictReader(file):
            points[row["fleet"]].append((int(row["bytes"]), float(row["estimate_ns"]) * 1e-9))
    errors = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(fits_path) as file:
        for row in csv.DictReader(file):
            truth = float(row["true_rate"])
            found = {"our line, medians": float(row["line_rate"]), "our pipeline": float(row["rate"])}
            for name, rate in (rates(points[row["fleet"]]) | found).items():
                errors[row["kind"]][name].append(rate / truth - 1)
    missed = 0
    for kind, of in errors.items():
        rmse = {name: 100 * float(numpy.sqrt(numpy.mean(numpy.square(found)))) for name, found in of.items()}
        ours = rmse["our pipeline"]
        best = min((error, name) for name, error in rmse.items() if not name.startswith("our"))
        print(f"{kind}, {len(of['our pipeline'])} fleets: ours {ours:.3f}%, {ours / best[0]:.2f} x {best[1]}")
        print("  " + ", ".join(f"{name} {error:.3f}" for name, error in sorted(rmse.items())))
        missed += ours > ALLOWED * best[0]
    sys.exit(f"{missed} kinds above {ALLOWED} x the best" if missed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
