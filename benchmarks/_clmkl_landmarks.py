"""C-LMKL: clustering by landmarks beside exact clustering, in accuracy and in seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from _protocol import SETS, have_real_data, load, split
from _report import markdown_table, mean_and_std
from papers.uci import fetch
from sklearn.metrics import adjusted_rand_score

from bayesmkl.datasets import make_ringnorm
from bayesmkl.discriminative.estimators.clmkl import CLMKLClassifier
from bayesmkl.discriminative.localized.clustering import (
    ClusterOptions,
    Clusters,
    kernel_kmeans,
    landmark_kmeans,
    sample_kmeans,
)
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

ACCURACY_SETS = ("pima", "german_numeric", "ionosphere")
N_SPLITS = 20
LANDMARKS = (10, 25, 50, 100, 200)
# rows of a9a that are clustered
LARGE = {"exact": (2000, 4000, 8000), "landmarks": (2000, 4000, 8000, 32561)}
N_LANDMARKS = 1000
LARGE_TRAIN, LARGE_SPLITS = 4000, 3  # of the comparison of accuracies on a9a
LARGE_TEST = 10_000


# ------------------------------------------------------------------------------------------ landmarks: accuracy


def binary(name: str) -> tuple[np.ndarray, np.ndarray]:
    return load(name) if name in SETS else fetch(name, return_X_y=True)


def two_kernels(n_features: int) -> KernelBank:
    """The quadratic and the Gaussian kernel, for standardized features."""
    return KernelBank([Polynomial(degree=2), Gaussian(width=float(np.sqrt(n_features)))])


def classify(
    parts: Sequence[np.ndarray], stacks: Sequence[np.ndarray], **parameters: Any
) -> tuple[float, Clusters, np.ndarray]:
    """Accuracy on the test part, clusters, and memberships of the test part."""
    _, _, y, y_test = parts
    model = CLMKLClassifier("precomputed", **parameters)
    with warnings.catch_warnings(action="ignore"):
        model.fit(stacks[0], y)
    return model.score(stacks[1], y_test), model.clusters_, model.memberships(stacks[1])


def kernels_of(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    bank = two_kernels(parts[0].shape[1])
    return bank.fit_transform(parts[0]), bank.transform(parts[1])


def compare_on(
    splits: Sequence[tuple[Any, ...]], settings: dict[str, dict[str, Any]]
) -> dict[str, dict[str, list[float]]]:
    """Every setting beside exact clustering, split by split."""
    numbers: dict[str, dict[str, list[float]]] = {}
    for seed, parts in enumerate(splits):
        stacks = kernels_of(parts)
        reference, exact, expected = classify(parts, stacks, n_landmarks=len(parts[0]), random_state=seed)
        runs = {"exact": (reference, exact, expected)}
        runs |= {name: classify(parts, stacks, **more) for name, more in settings.items()}
        for name, (accuracy, clusters, memberships) in runs.items():
            of = numbers.setdefault(name, {"accuracy": [], "difference": [], "rand": [], "memberships": []})
            of["accuracy"].append(100.0 * accuracy)
            of["difference"].append(100.0 * (accuracy - reference))
            of["rand"].append(adjusted_rand_score(exact.labels, clusters.labels))
            of["memberships"].append(_distance(memberships, expected))
    return numbers


def _distance(memberships: np.ndarray, expected: np.ndarray) -> float:
    """Mean distance between memberships, of samples in pairs: it does not depend on how clusters are numbered."""
    rows = np.random.default_rng(0).integers(len(expected), size=(2, 5000))
    together, truth = ((c[rows[0]] * c[rows[1]]).sum(axis=1) for c in (memberships, expected))
    return float(np.abs(together - truth).mean())


def accuracies(fast: bool) -> tuple[str, dict[str, Any]]:
    """Landmarks of both kinds, and exact clustering from another seed, beside exact clustering."""
    names = ACCURACY_SETS if have_real_data() and not fast else ("wdbc",)
    n_splits = 2 if fast else N_SPLITS
    settings: dict[str, dict[str, Any]] = {
        "exact, another seed": {"n_landmarks": 10**9, "random_state": 1000}
    }
    for n_landmarks in LANDMARKS[1:2] if fast else LANDMARKS:
        for kind in ("span", "sample"):
            settings[f"{kind}, {n_landmarks}"] = {"n_landmarks": n_landmarks, "landmark_means": kind}
    rows, numbers = [], {}
    for name in names:
        X, y = binary(name)
        splits = [split(X, y, 0.75, seed) for seed in range(n_splits)]
        numbers[name] = compare_on(splits, settings)
        rows += [[f"{name}: {setting}", *_compared(of)] for setting, of in numbers[name].items()]
    text = (
        "Accuracy (%) of C-LMKL with a quadratic and a Gaussian kernel, C = 1, p = 4/3, three clusters, over "
        f"{n_splits} splits (75 % for training); difference from exact clustering in the same split; agreement with "
        "its hard clusters of the training samples (adjusted Rand index) and mean difference of the chance of two "
        "test samples to be in one cluster. Number: landmarks; *span*: means in their span, *sample*: they alone are "
        "clustered.\n\n"
        f"{markdown_table(['set and clustering', 'accuracy', 'difference', 'Rand', 'chance'], rows)}\n\n"
        f"{largest_differences(numbers)}"
    )
    return text, numbers


def largest_differences(numbers: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Say how far the mean accuracy of each kind of clustering is from that of exact clustering at most."""
    parts = []
    for kind in ("exact, another seed", "span", "sample"):
        values = [
            float(np.mean(of["difference"]))
            for settings in numbers.values()
            for setting, of in settings.items()
            if setting.startswith(kind)
        ]
        parts.append(f"{kind.replace('exact, ', '')} {max(values, key=abs):+.2f}")
    return f"Largest mean differences from exact clustering, in points: {', '.join(parts)}."


def ratios(numbers: dict[str, dict[str, float]], size: int) -> str:
    """Compare the seconds for clusters of the most rows that are clustered exactly."""
    total = {
        kind: numbers[f"{kind}, {size}"]["kernels"] + numbers[f"{kind}, {size}"]["clustering"]
        for kind in ("exact", "span", "sample")
    }
    return (
        f"Exact clustering of {size} rows takes {total['exact'] / total['span']:.1f} times as long as with *span*, "
        f"{total['exact'] / total['sample']:.1f} times as long as with *sample*, kernel values included."
    )


def _compared(of: dict[str, list[float]]) -> list[str]:
    chance = f"{np.mean(of['memberships']):.3f}"
    return [
        mean_and_std(of["accuracy"]),
        mean_and_std(of["difference"]),
        f"{np.mean(of['rand']):.2f}",
        chance,
    ]


# ------------------------------------------------------------------------------------------- landmarks: seconds


def large_set(fast: bool) -> tuple[str, np.ndarray, np.ndarray]:
    """a9a, or generated rows where it is not at hand; in random order."""
    if have_real_data() and not fast:
        X, y = fetch("a9a", subset="train", return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        return "a9a", np.asarray(X, dtype=float)[order], np.asarray(y)[order]
    data = make_ringnorm(400 if fast else 32561, random_state=0)
    return "ringnorm", data.data, data.target


def mean_kernel(bank: KernelBank, X: np.ndarray, block: int = 500) -> np.ndarray:
    """Mean of the kernels between all rows and those that the bank was fitted on, in blocks of rows."""
    mean = np.empty((len(X), len(bank.X_train_)))
    for first in range(0, len(X), block):
        mean[first : first + block] = bank.evaluate(X[first : first + block]).mean(axis=0)
    return mean


def cluster_seconds(X: np.ndarray, kind: str, n_landmarks: int) -> dict[str, float]:
    """Seconds for kernel values and for clustering them, and the memory of the values."""
    rng, options, n_samples = np.random.default_rng(0), ClusterOptions(), len(X)
    basis = (
        np.arange(n_samples)
        if kind == "exact"
        else np.sort(rng.choice(n_samples, n_landmarks, replace=False))
    )
    bank = two_kernels(X.shape[1]).fit(X[basis])
    start = time.perf_counter()
    columns = mean_kernel(bank, X)
    kernels = time.perf_counter() - start
    if kind == "exact":
        kernel_kmeans(columns, options, rng)
    else:
        {"span": landmark_kmeans, "sample": sample_kmeans}[kind](columns, basis, options, rng)
    return {"kernels": kernels, "clustering": time.perf_counter() - start - kernels, "bytes": columns.nbytes}


def seconds(fast: bool) -> tuple[str, dict[str, Any]]:
    """Clustering alone, of more and more rows; then the accuracy of what follows."""
    name, X, y = large_set(fast)
    sizes = {"exact": (200, 400), "landmarks": (200, 400)} if fast else LARGE
    n_landmarks = 50 if fast else N_LANDMARKS
    numbers: dict[str, Any] = {}
    rows = []
    for size in sizes["landmarks"]:
        for kind in ("exact", "span", "sample"):
            if kind == "exact" and size not in sizes["exact"]:
                continue
            of = cluster_seconds(X[:size], kind, n_landmarks)
            numbers[f"{kind}, {size}"] = of
            memory = f"{of['bytes'] / 2**20:.0f}"
            rows.append([f"{size}: {kind}", f"{of['kernels']:.1f}", f"{of['clustering']:.1f}", memory])
    text = (
        f"Seconds for clusters of the first rows of {name}: values of the mean of both kernels, then ten runs of "
        f"k-means; memory of the values. {n_landmarks} landmarks.\n\n"
        f"{markdown_table(['rows', 'kernel values', 'clustering', 'MiB'], rows)}\n\n"
        f"{ratios(numbers, sizes['exact'][-1])}"
    )
    n_train, n_test = (200, 200) if fast else (LARGE_TRAIN, LARGE_TEST)
    splits = [split(X, y, n_train, seed, n_test) for seed in range(1 if fast else LARGE_SPLITS)]
    settings = {kind: {"n_landmarks": n_landmarks, "landmark_means": kind} for kind in ("span", "sample")}
    compared = compare_on(splits, settings)
    more = [[setting, *_compared(of)] for setting, of in compared.items()]
    text += (
        f"\n\nThe same accuracies as above on {name}, {n_train} rows to train on, {n_test} to test, {len(splits)} "
        f"splits:\n\n{markdown_table(['clustering', 'accuracy', 'difference', 'Rand', 'chance'], more)}"
    )
    return text, {"set": name, "seconds": numbers, "accuracy": compared}
