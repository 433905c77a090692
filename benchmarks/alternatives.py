"""BEMKL beside what one would otherwise take, on the same splits: time, accuracy and log loss, or error.

Classification: a support vector machine on the best kernel of the bank, chosen with its price by five-fold
cross-validation, its probabilities by Platt's method; scikit-learn's Gaussian process with the sum of the bank's
Gaussians, each with an amplitude of its own. Regression: the same Gaussian process, and multiple-kernel ridge
regression of himalaya (kernel weights by random search and cross-validation), where it is installed (`pip install
'bayesmkl[bench]'`). BEMKL has nothing to choose. Kernels are evaluated before the clock starts where a method takes
them as matrices, except for BEMKL, which begins with samples.

    python benchmarks/alternatives.py              wdbc, sonar, pima (with BAYESMKL_DATA) and diabetes, 5 splits
    python benchmarks/alternatives.py --fast       wdbc and diabetes, 40 samples, 1 split
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _machine import measure
from _protocol import have_real_data, load, paper_kernels, split
from _report import finish, markdown_table, mean_and_std, parser
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import accuracy_score, log_loss, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, BEMKLRegressor

WIDTHS = [2.0**k for k in range(-3, 7)]  # those of the bank
PRICES = [0.1, 1.0, 10.0, 100.0, 1000.0]
N_SPLITS, N_TRAIN = 5, 0.7
FAST_TRAIN = 40
SETS = ("wdbc", "sonar", "pima")


class Split(NamedTuple):
    """Standardized features and targets, and the kernels of the bank, kernels first."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    kernels: np.ndarray
    kernels_test: np.ndarray


class Prediction(NamedTuple):
    """Labels or targets; probabilities of the second class, or standard deviations."""

    point: np.ndarray
    second: np.ndarray | None


class OneKernelSVC(BaseEstimator):
    """A support vector machine on the kernel at a position of a stack (n_rows, n_train, n_kernels)."""

    def __init__(self, kernel: int = 0, C: float = 1.0):
        self.kernel = kernel
        self.C = C

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.estimator_type = "classifier"
        return tags

    def fit(self, stack: np.ndarray, y: np.ndarray) -> OneKernelSVC:
        self.svm_ = SVC(kernel="precomputed", C=self.C).fit(stack[..., self.kernel], y)
        self.classes_ = self.svm_.classes_
        return self

    def decision_function(self, stack: np.ndarray) -> np.ndarray:
        return self.svm_.decision_function(stack[..., self.kernel])

    def predict(self, stack: np.ndarray) -> np.ndarray:
        return self.svm_.predict(stack[..., self.kernel])

    def score(self, stack: np.ndarray, y: np.ndarray) -> float:
        return accuracy_score(y, self.predict(stack))


def bemkl_classifier(data: Split, views: str) -> Prediction:
    model = BEMKLClassifier(paper_kernels(views=views), margin=1.0, intermediate_scale=1.0).fit(
        data.X, data.y
    )
    return Prediction(model.predict(data.X_test), model.predict_proba(data.X_test)[:, 1])


def best_kernel_svc(data: Split) -> Prediction:
    stack, rows = (np.moveaxis(kernels, 0, -1) for kernels in (data.kernels, data.kernels_test))
    grid = {"kernel": range(stack.shape[2]), "C": PRICES}
    search = GridSearchCV(OneKernelSVC(), grid, cv=5, refit=False).fit(stack, data.y)
    best = OneKernelSVC(**search.best_params_)
    model = CalibratedClassifierCV(best, ensemble=False).fit(stack, data.y)
    return Prediction(model.predict(rows), model.predict_proba(rows)[:, 1])


def summed_kernels() -> Any:
    """The bank's Gaussians on all features, each with an amplitude to learn."""
    total = ConstantKernel() * RBF(WIDTHS[0], "fixed")
    for width in WIDTHS[1:]:
        total += ConstantKernel() * RBF(width, "fixed")
    return total


def gaussian_process(data: Split) -> Prediction:
    model = GaussianProcessClassifier(summed_kernels()).fit(data.X, data.y)
    return Prediction(model.predict(data.X_test), model.predict_proba(data.X_test)[:, 1])


def bemkl_regressor(data: Split, views: str) -> Prediction:
    model = BEMKLRegressor(paper_kernels(views=views)).fit(data.X, data.y)
    return Prediction(*model.predict(data.X_test, return_std=True))


def gaussian_process_regressor(data: Split) -> Prediction:
    kernel = summed_kernels() + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(data.X, data.y)
    return Prediction(*model.predict(data.X_test, return_std=True))


def himalaya_ridge(data: Split) -> Prediction:
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    alphas = np.logspace(-5, 5, 11)
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver_params={"alphas": alphas, "progress_bar": False}, random_state=0
    )
    model.fit(data.kernels, data.y - data.y.mean())
    return Prediction(model.predict(data.kernels_test) + data.y.mean(), None)


def has_himalaya() -> bool:
    try:
        import himalaya.kernel_ridge  # noqa: F401
    except ImportError:
        return False
    return True


Method = Callable[[Split], Prediction]
ON_EACH, HIMALAYA = "BEMKL, on all and on each", "himalaya, multiple-kernel ridge"
CLASSIFIERS: dict[str, Method] = {
    "BEMKL, kernels on all features": lambda data: bemkl_classifier(data, "all"),
    ON_EACH: lambda data: bemkl_classifier(data, "all+each"),
    "SVC, best kernel and price": best_kernel_svc,
    "Gaussian process, summed kernels": gaussian_process,
}
REGRESSORS: dict[str, Method] = {
    "BEMKL, kernels on all features": lambda data: bemkl_regressor(data, "all"),
    ON_EACH: lambda data: bemkl_regressor(data, "all+each"),
    "Gaussian process, summed kernels": gaussian_process_regressor,
    HIMALAYA: himalaya_ridge,
}


def with_kernels(X: np.ndarray, X_test: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> Split:
    bank = paper_kernels(views="all")
    kernels = np.ascontiguousarray(np.moveaxis(bank.fit_transform(X), -1, 0))
    return Split(X, X_test, y, y_test, kernels, bank.row_stack(X_test))


def splits_of(name: str, n_splits: int, n_train: int | None) -> list[Split]:
    """Splits that keep the shares of the classes; standardized by the training part, targets too."""
    if name != "diabetes":
        X, y = load(name)
        size = n_train or round(N_TRAIN * len(y))
        return [with_kernels(*split(X, y, size, seed)) for seed in range(n_splits)]
    X, y = load_diabetes(return_X_y=True)
    found = []
    for seed in range(n_splits):
        train, test, y_train, y_test = train_test_split(
            X, y, train_size=n_train or N_TRAIN, random_state=seed
        )
        scaler, center, spread = StandardScaler().fit(train), y_train.mean(), y_train.std()
        parts = scaler.transform(train), scaler.transform(test)
        found.append(with_kernels(*parts, (y_train - center) / spread, (y_test - center) / spread))
    return found


def judged(data: Split, prediction: Prediction, regression: bool) -> dict[str, float]:
    """Accuracy and log loss; or root mean squared error and negative log density, of standardized targets."""
    y, (point, second) = data.y_test, prediction
    if not regression:
        return {"score": 100.0 * accuracy_score(y, point), "loss": log_loss(y, second)}
    error = root_mean_squared_error(y, point)
    if second is None:
        return {"score": error}
    density = 0.5 * np.log(2.0 * np.pi * second**2) + 0.5 * ((y - point) / second) ** 2
    return {"score": error, "loss": float(density.mean())}


def compare(name: str, fast: bool) -> list[dict[str, Any]]:
    """All methods on all splits of one set."""
    n_splits, n_train = (1, FAST_TRAIN) if fast else (N_SPLITS, None)
    regression = name == "diabetes"
    methods = dict(REGRESSORS if regression else CLASSIFIERS)
    if regression and not has_himalaya():
        print("himalaya is not installed: its row is left out. `pip install 'bayesmkl[bench]'`\n")
        del methods[HIMALAYA]
    if fast:
        del methods[ON_EACH]
    rows = []
    for data in splits_of(name, n_splits, n_train):
        for label, method in methods.items():
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # amplitudes at their bounds, kernels that hardly help
                prediction = method(data)
            seconds = time.perf_counter() - start
            scores = judged(data, prediction, regression)
            rows.append({"set": name, "method": label, "samples": len(data.y), "seconds": seconds, **scores})
    return rows


def table(rows: list[dict[str, Any]], regression: bool) -> str:
    """Means over splits, and standard deviations."""
    lines = []
    for name, method in dict.fromkeys((row["set"], row["method"]) for row in rows):
        own = [row for row in rows if (row["set"], row["method"]) == (name, method)]
        losses = [row["loss"] for row in own if "loss" in row]
        lines.append(
            [
                f"{name}, {own[0]['samples']}",
                method,
                mean_and_std([row["score"] for row in own], 3 if regression else 1),
                mean_and_std(losses, 3) if losses else "–",
                f"{np.median([row['seconds'] for row in own]):.3g}",
            ]
        )
    scores = ["error (RMSE)", "negative log density"] if regression else ["accuracy", "log loss"]
    return markdown_table(["set, training samples", "method", *scores, "seconds"], lines)


def main() -> None:
    options = parser(__doc__).parse_args()
    machine = measure(options.fast)
    print(machine.report() + "\n")
    n_splits = 1 if options.fast else N_SPLITS
    sets = SETS if have_real_data() and not options.fast else SETS[:1]
    rows = [row for name in sets for row in compare(name, options.fast)]
    of_targets = compare("diabetes", options.fast)
    text = (
        f"{n_splits} split{'s' * (n_splits > 1)}; seconds are medians of choosing, fitting and predicting.\n\n"
        f"{table(rows, False)}\n\n{table(of_targets, True)}"
    )
    finish(options, "alternatives", text, {"machine": machine._asdict(), "rows": rows + of_targets})


if __name__ == "__main__":
    main()
