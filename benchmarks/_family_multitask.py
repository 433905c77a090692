"""Multitask BEMKL beside models of one task: where tasks have similar kernel weights, and where they do not.

Five tasks of forty samples each. A sample has eight views of a few features; a task's score is the sum over views of
the kernel weight times a direction of the view that is the task's own, scaled to unit variance. Three views matter,
by weights of 1.5, 1 and 0.7: the same three in all tasks, up to noise of 0.05, or three of each task's own. Every
view has a linear kernel. Models that are compared have the same data, and the same priors on what a task has of its
own. A full run appends one JSON line per setting and repeat to benchmarks/results/family_multitask.jsonl, and
continues where the last one stopped; remove the file to start over.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _report import ROOT, markdown_table
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, KernelBank
from bayesmkl.kernels import Linear

RESULTS = ROOT / "benchmarks" / "results" / "family_multitask.jsonl"
N_TASKS, N_VIEWS, N_NEW = 5, 8, 400
WEIGHTS = np.array([1.5, 1.0, 0.7])
DEFAULTS = "BEMKLRegressor"


class Setting(NamedTuple):
    """How the data of one row of the table are made."""

    kind: str  # "regression" or "classification"
    n_features: int  # of every view
    noise: float  # added to scores of unit variance
    related: bool = True


SETTINGS = (
    Setting("regression", 2, 0.7),
    Setting("regression", 3, 0.3),
    Setting("classification", 2, 0.3),
    Setting("classification", 3, 0.3),
    Setting("regression", 2, 0.7, related=False),
    Setting("regression", 3, 0.3, related=False),
    Setting("classification", 2, 0.3, related=False),
    Setting("classification", 3, 0.3, related=False),
)


def models_for(setting: Setting) -> dict[str, dict[str, str]]:
    """Return the parameters of what is compared, separate models first."""
    models = {"separate": {"relation": "separate"}, "learned": {}}
    if setting.related:
        models["close"] = {"task_prior": "close"}
        models["shared"] = {"relation": "shared"}
    else:
        models["careful"] = {"task_prior": "careful"}
    if setting.kind == "regression":
        models[DEFAULTS] = {"relation": "separate", "intermediate_prior": "nonsparse"}
    return models


class Pool(NamedTuple):
    """Samples of all tasks together."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    score: np.ndarray  # without noise


def draw_tasks(setting: Setting, n_samples: int, rng: np.random.Generator) -> tuple[Pool, Pool, np.ndarray]:
    """Return training and test samples of all tasks, and the kernel weights of every task."""
    weights, parts = np.zeros((N_TASKS, N_VIEWS)), []
    for task in range(N_TASKS):
        matter = np.arange(3) if setting.related else rng.choice(N_VIEWS, size=3, replace=False)
        weights[task, matter] = WEIGHTS
        weights[task] += 0.05 * rng.standard_normal(N_VIEWS) if setting.related else 0.0
        views = rng.standard_normal((n_samples + N_NEW, N_VIEWS, setting.n_features))
        directions = rng.standard_normal((N_VIEWS, setting.n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        score = np.einsum("ivf,vf,v->i", views, directions, weights[task]) / np.linalg.norm(weights[task])
        y = score + setting.noise * rng.standard_normal(len(score))
        y = np.where(y > 0.0, 1.0, -1.0) if setting.kind == "classification" else y
        parts.append(Pool(views.reshape(len(y), -1), y, np.full(len(y), task), score))
    cuts = (slice(None, n_samples), slice(n_samples, None))
    train, test = (Pool(*(np.concatenate([field[cut] for field in fields]) for fields in zip(*parts, strict=True)))
                   for cut in cuts)  # fmt: skip
    return train, test, weights


FIELDS = ("error", "correlation", "sweeps", "coverage")  # the last in regression only


def errors_of(setting: Setting, model: Any, test: Pool) -> tuple[float, list[float]]:
    """Return the error and, in regression, the coverage of 95 % intervals; all tasks have equally many samples."""
    if setting.kind == "classification":
        return float(np.mean(model.predict(test.X, tasks=test.tasks) != np.sign(test.score))), []
    mean, std = model.predict(test.X, tasks=test.tasks, return_std=True)
    covered = np.abs(test.y - mean) < stats.norm.ppf(0.975) * std
    return float(np.mean((mean - test.score) ** 2)), [float(covered.mean())]


def repeat(setting: Setting, n_samples: int, seed: int) -> dict[str, list[float]]:
    """Fit all models to one draw of the data: the `FIELDS` of each."""
    train, test, weights = draw_tasks(setting, n_samples, np.random.default_rng(seed))
    n_columns = N_VIEWS * setting.n_features
    views = {
        f"view {m}": list(columns) for m, columns in enumerate(np.arange(n_columns).reshape(N_VIEWS, -1))
    }
    bank = KernelBank(Linear(), views=views, normalize="trace")
    estimator = BEMKLMultitaskRegressor if setting.kind == "regression" else BEMKLMultitaskClassifier
    found = {}
    for name, parameters in models_for(setting).items():
        model = estimator(bank, **parameters)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            model.fit(train.X, train.y, tasks=train.tasks)
        if model.relation == "separate":
            pairs = zip(model.kernel_weights_, weights, strict=True)
            correlation = np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs])
        else:
            correlation = np.corrcoef(model.common_kernel_weights_, weights.mean(axis=0))[0, 1]
        error, coverage = errors_of(setting, model, test)
        found[name] = [error, float(correlation), float(np.sum(model.n_iter_)), *coverage]
    return found


def compare(errors: np.ndarray, base: np.ndarray) -> str:
    """Relative difference of the mean error, with the p value of a paired two-sided t test."""
    p = stats.ttest_rel(errors, base).pvalue
    return (
        f"{100.0 * (errors.mean() / base.mean() - 1.0):+.1f} % (p {'< .001' if p < 0.001 else f'= {p:.3f}'})"
    )


def row_of(setting: Setting, values: dict[str, np.ndarray]) -> list[str]:
    """Return one row of the table from the `FIELDS` of every repeat."""
    base, learned = values["separate"][:, 0], values["learned"]
    correlations = f"{values['separate'][:, 1].mean():.3f} / {learned[:, 1].mean():.3f}"
    is_regression = setting.kind == "regression"
    cells = [
        f"{setting.kind}, {'related' if setting.related else 'unrelated'}",
        f"{setting.n_features}, {setting.noise}",
        f"{base.mean():.4f}",
        compare(learned[:, 0], base),
    ]
    for name in ("close", "shared", "careful", DEFAULTS):
        cells.append(compare(values[name][:, 0], base) if name in values else "–")
    cells.append(correlations if setting.related else "–")
    return [*cells, f"{100.0 * learned[:, 3].mean():.1f} %" if is_regression else "–"]


def cells_of(setting: Setting, n_samples: int, n_repeats: int, keep: bool) -> list[dict[str, list[float]]]:
    """Return the results of all repeats, those that are known from `RESULTS` if they are kept."""
    cells = read(RESULTS) if keep else []
    known = {cell["seed"]: cell["found"] for cell in cells if cell["setting"] == list(setting)}
    for seed in range(n_repeats):
        if seed not in known:
            known[seed] = repeat(setting, n_samples, seed)
            if keep:
                append(RESULTS, {"setting": list(setting), "seed": seed, "found": known[seed]})
    return [known[seed] for seed in range(n_repeats)]


def run(fast: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the table and its numbers."""
    n_samples, n_repeats = (10, 2) if fast else (40, 20)
    rows, numbers = [], {}
    for setting in SETTINGS[:1] if fast else SETTINGS:
        cells = cells_of(setting, n_samples, n_repeats, keep=not fast)
        values = {name: np.array([cell[name] for cell in cells]) for name in cells[0]}
        rows.append(row_of(setting, values))
        numbers[", ".join(map(str, setting))] = {
            name: dict(zip(FIELDS, v.T.tolist(), strict=False)) for name, v in values.items()
        }
    headers = ["tasks", "features, noise", "error, separate", "learned", "close", "shared", "careful", DEFAULTS,
               "correlation of weights, one task / common", "coverage at 95 %"]  # fmt: skip
    text = (
        f"{N_TASKS} tasks of {n_samples} samples, {n_repeats} repeats. Errors: in regression the mean squared error "
        "against the score without noise, in units of its variance; in classification the share of wrong signs of "
        "that score. Other columns are relative to separate models, with the p value of a paired t test over "
        f"repeats. {DEFAULTS}: separate models with the default priors of that estimator. Intervals are those of "
        "`learned`.\n\n"
    )
    return text + markdown_table(headers, rows), numbers
