"""Distances of digits under affine moves: searched for, as LapMKL's paper has it, beside the tangent of the move.

Table 3 of the paper (Hao et al. 2012) has graphs of a distance between images after the best affine transformation of
one of them, found by an optimizer under bounds. `papers.lapmkl` takes the first step of that search,
linear least squares. Here the search goes on, by damped Gauss-Newton steps, and both make the graph of the same
images: which neighbors they agree on, whether these are of the same digit, and what GLKS-SSL and LapMKL make of them.

    BAYESMKL_DATA=folder python benchmarks/affine_distance.py    five pairs of USPS digits, 400 images each
    python benchmarks/affine_distance.py --part 0/5              one of five parts, appended to the results
    python benchmarks/affine_distance.py --report --docs         the table of what is there
    python benchmarks/affine_distance.py --fast                  one pair of scikit-learn's digits
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from _cells import append, read
from _protocol import have_real_data
from _report import RESULTS, finish, markdown_table, parser
from papers.core import Data
from papers.lapmkl import AFFINE, digit_pair, tangent_distances
from papers.primalmkl import gaussians
from papers.transductive import FewLabeled, GLKSTransducer
from scipy.ndimage import gaussian_filter, map_coordinates
from sklearn.datasets import load_digits

from bayesmkl.discriminative import LapMKLClassifier
from bayesmkl.kernels import KernelBank

CELLS = RESULTS / "affine_distance_cells.jsonl"
PAIRS = ((1, 7), (2, 3), (2, 7), (3, 8), (4, 7))
N_DRAWS, N_LABELED, N_PER_CLASS, N_NEIGHBORS = 1, 6, 200, 10
GAMMA = 0.01  # of both norms of LapMKL
N_STEPS, DAMPING, SMOOTHING = 8, 1e-2, 0.9
# of shifts in pixels, of the entries of A
BOUNDS = {"searched, 10 %": (1.0, 0.1), "searched, 30 %": (3.0, 0.3)}
DISTANCES = ("Euclidean", "linearized", *BOUNDS)


def searched_distances(images: np.ndarray, bounds: tuple[float, float], n_steps: int = N_STEPS) -> np.ndarray:
    r"""Return distances after the best affine move that is found, (n_images, n_images).

    Entry (i, j) is the least :math:`\|x_i \circ (I + A, t) - x_j\|` along a descent over the six numbers of the move:
    Levenberg-Marquardt steps within bounds, of which those that do not lower the distance are not taken, and are
    damped more.
    """
    n, side = len(images), images.shape[-1]
    pixels = images.reshape(n, -1)
    y, x = (axis.ravel() - (side - 1) / 2 for axis in np.indices((side, side)))
    fields = np.stack([np.ones_like(x), y, x])  # (3, n_pixels): shift, and the two columns of A
    most = np.tile([bounds[0], bounds[1], bounds[1]], 2)
    found = np.empty((n, n))
    for i, image in enumerate(images):
        slopes = [gaussian_filter(image, SMOOTHING, order=order) for order in ((1, 0), (0, 1))]

        def moved(source: np.ndarray, moves: np.ndarray) -> np.ndarray:
            """Read a picture at the moved places, (n, n_pixels); beyond its border it is its border."""
            down, right = (moves[:, 3 * k : 3 * k + 3] @ fields for k in (0, 1))
            places = np.stack([y + down, x + right]) + (side - 1) / 2
            return map_coordinates(source, places, order=1, mode="nearest")

        moves, damping = np.zeros((n, 6)), np.full(n, DAMPING)
        rest = pixels - moved(image, moves)
        squares = np.einsum("ij,ij->i", rest, rest)
        for _ in range(n_steps):
            along = [moved(slope, moves) for slope in slopes]
            # (n, 6, n_pixels)
            jacobian = np.concatenate([field[:, None] * fields for field in along], axis=1)
            gram = np.einsum("iap,ibp->iab", jacobian, jacobian, optimize=True)
            diagonal = np.einsum("iaa->ia", gram)
            gram[:, np.arange(6), np.arange(6)] += damping[:, None] * (diagonal + 1e-9)
            step = np.linalg.solve(gram, np.einsum("iap,ip->ia", jacobian, rest)[..., None])[..., 0]
            tried = np.clip(moves + step, -most, most)
            new_rest = pixels - moved(image, tried)
            new = np.einsum("ij,ij->i", new_rest, new_rest)
            good = new < squares
            moves[good], rest[good], squares[good] = tried[good], new_rest[good], new[good]
            damping = np.where(good, damping / 5.0, damping * 10.0)
        found[i] = squares
    found[np.diag_indices(n)] = 0.0
    return np.sqrt(found)


def neighbors(distances: np.ndarray) -> np.ndarray:
    """Nearest other images, (n_images, N_NEIGHBORS)."""
    return np.argsort(distances + np.diag(np.full(len(distances), np.inf)), axis=1, kind="stable")[
        :, :N_NEIGHBORS
    ]


def cell(X: np.ndarray, y: np.ndarray, labeled: np.ndarray) -> dict[str, Any]:
    """What the three distances say of some images, and what two methods make of them."""
    side = round(X.shape[1] ** 0.5)
    images = X.reshape(-1, side, side)
    euclidean = np.sqrt(np.maximum(((X[:, None] - X) ** 2).sum(axis=2), 0.0))
    graphs, seconds = {"Euclidean": euclidean}, []
    for name in DISTANCES[1:]:
        start = time.process_time()
        graphs[name] = (
            searched_distances(images, BOUNDS[name]) if name in BOUNDS else tangent_distances(images, AFFINE)
        )
        seconds.append(time.process_time() - start)
    lists = {name: neighbors(distances) for name, distances in graphs.items()}
    others = ~np.eye(len(X), dtype=bool)
    found: dict[str, Any] = {"seconds": seconds}
    for name in BOUNDS:
        pairs = zip(lists["linearized"], lists[name], strict=True)
        found[f"agree, {name}"] = float(np.mean([len(np.intersect1d(*pair)) for pair in pairs]) / N_NEIGHBORS)
        found[f"ratio, {name}"] = float(np.median(graphs[name][others] / graphs["linearized"][others]))
    bank = KernelBank(gaussians(half=True), normalize=None)
    given, hidden = np.where(labeled, y, 0), ~labeled
    for name, distances in graphs.items():
        found[f"same digit, {name}"] = float(np.mean(y[lists[name]] == y[:, None]))

        def of(_: np.ndarray, own: np.ndarray = distances) -> np.ndarray:
            return own

        glks = GLKSTransducer(gamma=1e-3, distances=of, unlabeled_label=0).fit(X, given)
        lapmkl = LapMKLClassifier(
            bank,
            unlabeled_label=0,
            n_neighbors=N_NEIGHBORS,
            distances=of,
            gamma_ambient=GAMMA,
            gamma_intrinsic=GAMMA,
        ).fit(X, given)
        for method, model in (("GLKS-SSL", glks), ("LapMKL", lapmkl)):
            found[f"{method}, {name}"] = float(np.mean(model.transduction_[hidden] == y[hidden]))
    return found


def digits_stand_in(n_per_class: int) -> Data:
    """Images of the digits 1 and 7 that scikit-learn ships, at twice their resolution."""
    X, y = load_digits(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(y == digit)[:n_per_class] for digit in (1, 7)])
    images = np.kron(X[rows].reshape(-1, 8, 8) / 8.0 - 1.0, np.ones((1, 2, 2)))
    return Data(images.reshape(len(rows), -1), np.where(y[rows] == 1, -1, 1))


def tasks(fast: bool) -> list[tuple[str, int, Any]]:
    """Name, number of the draw, and the loader of its images."""
    if fast or not have_real_data():
        return [("1 versus 7, small", 0, lambda: digits_stand_in(15))]
    return [
        (f"{a} versus {b}", k, lambda a=a, b=b: digit_pair(a, b)) for a, b in PAIRS for k in range(N_DRAWS)
    ]


def measured(name: str, draw: int, load: Any) -> dict[str, Any]:
    """One draw of one pair."""
    data = load()
    per_class = min(N_PER_CLASS, int(np.bincount((data.y > 0).astype(int)).min()))
    splits = list(FewLabeled(draw + 1, min(N_LABELED, per_class // 2), per_class, 0).split(data.X, data.y))
    train, test = splits[draw]
    rows = np.concatenate([train, test])
    return {"set": name, "draw": draw, **cell(data.X[rows], data.y[rows], np.arange(len(rows)) < len(train))}


def report(rows: list[dict[str, Any]]) -> str:
    """Means over the draws of each pair."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        for distance in DISTANCES:
            keys = [f"{what}, {distance}" for what in ("agree", "ratio", "same digit", "GLKS-SSL", "LapMKL")]
            means = [np.mean([row.get(key, np.nan) for row in own]) for key in keys]
            agree, ratio = (
                "" if np.isnan(means[0]) else text for text in (f"{100 * means[0]:.0f}", f"{means[1]:.2f}")
            )
            lines.append([name, distance, agree, ratio, *(f"{100 * value:.1f}" for value in means[2:])])
    heads = ["digits", "distance", "same neighbors %", "ratio", "same digit %", "GLKS-SSL %", "LapMKL %"]
    gaps = [
        f"{method} {100 * np.mean([row[f'{method}, {name}'] - row[f'{method}, linearized'] for row in rows]):+.1f}"
        for name in BOUNDS
        for method in ("GLKS-SSL", "LapMKL")
    ]
    seconds = np.mean([row["seconds"] for row in rows], axis=0)
    return (
        f"{markdown_table(heads, lines)}\n\n"
        "Beside the linearized distance: the share of its ten nearest neighbors that the searched one has too, and "
        "how long that is (median ratio). Of every distance: the share of the ten nearest neighbors that are of the "
        "same digit, and accuracies on the unlabeled images. The search may move an image by a pixel and 10 %, or by "
        f"three and 30 %, and takes {seconds[1]:.0f} s where the linearized distance takes {seconds[0]:.1f} s. With "
        f"it, accuracies change by, in points: {gaps[0]}, {gaps[1]} (10 %), {gaps[2]}, {gaps[3]} (30 %)."
    )


def main() -> None:
    """Measure what is not there yet, print the table."""
    options = parser(__doc__)
    options.add_argument("--part", default="0/1", metavar="K/N", help="every N-th draw, from the K-th on")
    options.add_argument("--cells", type=Path, default=CELLS, help="file of results")
    options.add_argument("--report", action="store_true", help="only read results")
    chosen = options.parse_args()
    short = chosen.fast or not have_real_data()
    part, n_parts = map(int, chosen.part.split("/"))
    rows = [] if short and not chosen.report else read(chosen.cells)
    known = {(row["set"], row["draw"]) for row in rows}
    for name, draw, load in [] if chosen.report else tasks(chosen.fast)[part::n_parts]:
        if (name, draw) not in known:
            rows.append(measured(name, draw, load))
            if not short:
                append(chosen.cells, rows[-1])
    rows.sort(key=lambda row: (row["set"], row["draw"]))
    finish(chosen, "affine_distance", report(rows), {"cells": rows})


if __name__ == "__main__":
    main()
