"""Tasks of a design beside multitask BEMKL, on simulations.

Five tasks of forty samples and eight views with linear kernels; three views matter, the same in all tasks or three of
each task's own. `Design(task_column=...)` shares kernel weights among tasks and infers how their functions are
correlated, which here they are not; `BEMKLMultitask` infers how similar kernel weights of tasks are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _report import claim, markdown_table
from scipy import stats

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor
from bayesmkl.gp import Design, Marginal
from bayesmkl.kernels import Linear

N_TASKS, N_VIEWS, N_NEW = 5, 8, 400
WEIGHTS = np.array([1.5, 1.0, 0.7])


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


TASKS = "GPMKL, task column"
ALONE = "GPMKL, one model per task"
RELATIONS = {
    "BEMKLMultitask, default": "learned",
    "BEMKLMultitask, shared weights": "shared",
    "BEMKLMultitask, separate": "separate",
}
FAMILY = (TASKS, ALONE, *RELATIONS)
LEVEL = 0.95

# scores or labels; standard deviations of targets in regression
Predictions = tuple[np.ndarray, np.ndarray | None]


def set_of(setting: Setting) -> str:
    """Name the simulations of a setting."""
    views = "same views" if setting.related else "views of their own"
    return f"tasks, {setting.kind}, {views}, {setting.n_features} features, noise {setting.noise}"


def _bank(setting: Setting) -> KernelBank:
    columns = np.arange(N_VIEWS * setting.n_features).reshape(N_VIEWS, -1)
    views = {f"view {m}": own.tolist() for m, own in enumerate(columns)}
    return KernelBank(Linear(), views=views, normalize="trace")


def _predict(model: Any, X: np.ndarray, setting: Setting, **arguments: Any) -> Predictions:
    if setting.kind == "classification":
        return model.predict(X, **arguments), None
    mean, std = model.predict(X, return_std=True, **arguments)
    return mean, std


def _together(setting: Setting, train: Pool, test: Pool, inference: str | Marginal, seed: int) -> Predictions:
    """Fit one model with a column of tasks."""
    estimator = GPMKLRegressor if setting.kind == "regression" else GPMKLClassifier
    design = Design(task_column=train.X.shape[1])
    model = estimator(_bank(setting), design=design, inference=inference, random_state=seed)
    model.fit(np.column_stack([train.X, train.tasks]), train.y)
    return _predict(model, np.column_stack([test.X, test.tasks]), setting)


def _one_by_one(
    setting: Setting, train: Pool, test: Pool, inference: str | Marginal, seed: int
) -> Predictions:
    """Fit a model to each task."""
    estimator = GPMKLRegressor if setting.kind == "regression" else GPMKLClassifier
    found = np.empty((2, len(test.X)))
    for task in np.unique(train.tasks):
        own, rows = train.tasks == task, test.tasks == task
        model = estimator(_bank(setting), inference=inference, random_state=seed)
        mean, std = _predict(model.fit(train.X[own], train.y[own]), test.X[rows], setting)
        found[0, rows], found[1, rows] = mean, 0.0 if std is None else std
    return found[0], found[1] if setting.kind == "regression" else None


def _bemkl(setting: Setting, train: Pool, test: Pool, relation: str) -> Predictions:
    """Fit multitask BEMKL."""
    estimator = BEMKLMultitaskRegressor if setting.kind == "regression" else BEMKLMultitaskClassifier
    model = estimator(_bank(setting), relation=relation).fit(train.X, train.y, tasks=train.tasks)
    return _predict(model, test.X, setting, tasks=test.tasks)


def task_cell(
    setting: Setting, n_samples: int, seed: int, model: str, inference: str | Marginal = "marginal"
) -> dict[str, Any]:
    """Fit one model to one draw of the data, and judge it."""
    train, test, _ = draw_tasks(setting, n_samples, np.random.default_rng(seed))
    fits: dict[str, Callable[[], Predictions]] = {
        TASKS: lambda: _together(setting, train, test, inference, seed),
        ALONE: lambda: _one_by_one(setting, train, test, inference, seed),
    }
    start = os.times().user
    found, std = fits[model]() if model in fits else _bemkl(setting, train, test, relation=RELATIONS[model])
    seconds = os.times().user - start
    if std is None:
        error, inside = float(np.mean(found != np.sign(test.score))), None
    else:
        error = float(np.mean((found - test.score) ** 2))
        inside = float(np.mean(np.abs(test.y - found) < stats.norm.ppf(0.5 + LEVEL / 2) * std))
    return {
        "set": set_of(setting), "split": seed, "model": model, "seconds": round(seconds, 2),
        "error": error, "inside": inside,
    }  # fmt: skip


def _values(rows: list[dict[str, Any]], name: str, model: str, key: str) -> dict[int, float]:
    return {
        row["split"]: row[key] for row in rows if (row["set"], row["model"]) == (name, model) and key in row
    }


def tasks_table(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    """Errors of all models, and their distance from those with a column of tasks; `numbers` gets them too."""
    body = []
    for setting in SETTINGS:
        name = set_of(setting)
        ours = _values(rows, name, TASKS, "error")
        if not ours:
            continue
        cells = []
        for model in FAMILY[1:]:
            theirs = _values(rows, name, model, "error")
            gaps = np.array([theirs[seed] - own for seed, own in ours.items() if seed in theirs])
            error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else np.nan
            numbers.setdefault(name, {})[model] = {"gap": float(gaps.mean()), "se": error}
            cells.append(f"{gaps.mean():+.3f} ± {error:.3f}")
        numbers[name][TASKS] = {"error": float(np.mean(list(ours.values())))}
        inside = [list(_values(rows, name, model, "inside").values()) for model in (TASKS, FAMILY[2])]
        seconds = [list(_values(rows, name, model, "seconds").values()) for model in (TASKS, FAMILY[2])]
        kind = setting.kind
        percent = " / ".join(f"{100 * np.mean(own):.1f}" for own in inside) if kind == "regression" else "–"
        body.append(
            f"{kind}, {'same views' if setting.related else 'views of their own'} | {setting.n_features}, "
            f"{setting.noise} | {numbers[name][TASKS]['error']:.3f} | {' | '.join(cells)} | {percent} | "
            f"{' / '.join(f'{np.mean(own):.1f}' for own in seconds)} | {len(ours)}"
        )
    headers = [
        "tasks", "features, noise", f"error: {TASKS}", *FAMILY[1:], "in 95 % intervals, %", "seconds", "draws",
    ]  # fmt: skip
    return markdown_table(headers, body)


def task_claims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """What is asked: no form of multitask BEMKL, nor a model per task, is better by more than a standard error."""
    made = []
    for setting in SETTINGS:
        own = numbers.get(set_of(setting))
        if own:
            model = min(FAMILY[1:], key=lambda model: own[model]["gap"])
            what = f"designs, {set_of(setting)}: error above that of {model}"
            made.append(claim(what, own[model]["se"], -own[model]["gap"]))
    return made
