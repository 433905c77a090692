"""Models of `survival.py`: predictions of risk and survival, each tuned on the training part alone."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from _survival_data import Split
from sklearn.model_selection import StratifiedKFold

from bayesmkl import KernelBank, gp
from bayesmkl.evaluation import kaplan_meier

EVERYONE, OURS = "Kaplan-Meier", "GPMKLSurvival"
PEERS = ("Cox net", "random survival forest", "gradient boosting")
N_INNER = 5
MIXES = (0.1, 0.5, 0.9)  # of the penalty: share of the absolute values
N_PENALTIES, N_TREES, N_STEPS = 40, 500, 400
LEAVES = (3, 10, 30)  # fewest samples of a leaf
OPTIONS: dict[str, Any] = {}  # of ours; the short form draws less
Views = dict[str, list[int]]


class Prediction(NamedTuple):
    """What a model says of the test part, and what it chose."""

    risk: np.ndarray  # (n_test,)
    survival: np.ndarray  # (n_test, n_times)
    notes: dict[str, Any]


def available() -> list[str]:
    """Models that can run here: scikit-survival may not be installed."""
    ours = [OURS] if hasattr(gp, OURS) else []
    return [EVERYONE, *ours, *(PEERS if importlib.util.find_spec("sksurv") else ())]


def _everyone(data: Split, views: Views, times: np.ndarray) -> Prediction:
    """The same curve for everybody."""
    survival = kaplan_meier(data.y["event"], data.y["time"]).at(times)
    return Prediction(np.zeros(len(data.X_test)), np.tile(survival, (len(data.X_test), 1)), {})


def _ours(data: Split, views: Views, times: np.ndarray) -> Prediction:
    """Defaults, which nothing tunes."""
    model = getattr(gp, OURS)(KernelBank("auto", views=views), **OPTIONS).fit(data.X, data.y)
    survival = np.asarray(model.predict_survival_function(data.X_test, times))
    return Prediction(np.asarray(model.predict(data.X_test)), survival, {})


def _cox_net(data: Split, views: Views, times: np.ndarray) -> Prediction:
    """Penalty and its mix by the held-out partial likelihood."""
    from sksurv.linear_model import CoxnetSurvivalAnalysis

    def penalized(mix: float, penalties: Any, baseline: bool = False) -> Any:
        return CoxnetSurvivalAnalysis(
            l1_ratio=mix,
            alphas=penalties,
            n_alphas=N_PENALTIES,
            alpha_min_ratio=0.001,
            fit_baseline_model=baseline,
        )

    best = (-np.inf, 0.0, 0.0)
    for mix in MIXES:
        penalties = penalized(mix, None).fit(data.X, data.y).alphas_
        total = np.zeros(len(penalties))
        for train, _ in _folds(data):
            model = penalized(mix, penalties).fit(data.X[train], data.y[train])
            risks = data.X @ model.coef_
            total[: risks.shape[1]] += [held_out_likelihood(data.y, risk, train) for risk in risks.T]
            total[risks.shape[1] :] = -np.inf
        best = max(best, (total.max(), mix, float(penalties[total.argmax()])))
    _, mix, penalty = best
    model = penalized(mix, [penalty], baseline=True).fit(data.X, data.y)
    n_used = int(np.count_nonzero(model.coef_))
    return _predicted(model, data, times, {"mix": mix, "penalty": round(penalty, 5), "coefficients": n_used})


def _forest(data: Split, views: Views, times: np.ndarray) -> Prediction:
    """Size of the leaves by the out-of-bag concordance."""
    from sksurv.ensemble import RandomSurvivalForest

    forests = [
        RandomSurvivalForest(N_TREES, min_samples_leaf=leaf, oob_score=True, random_state=0).fit(
            data.X, data.y
        )
        for leaf in LEAVES
    ]
    model = max(forests, key=lambda forest: forest.oob_score_)
    return _predicted(model, data, times, {"min_samples_leaf": model.min_samples_leaf})


def _boosting(data: Split, views: Views, times: np.ndarray) -> Prediction:
    """Number of steps by the held-out partial likelihood."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    def boosted(n_steps: int) -> Any:
        return GradientBoostingSurvivalAnalysis(
            learning_rate=0.05, n_estimators=n_steps, max_depth=2, subsample=0.5, random_state=0
        )

    total = np.zeros(N_STEPS)
    for train, _ in _folds(data):
        model = boosted(N_STEPS).fit(data.X[train], data.y[train])
        total += [held_out_likelihood(data.y, risk, train) for risk in model.staged_predict(data.X)]
    n_steps = int(total.argmax()) + 1
    return _predicted(boosted(n_steps).fit(data.X, data.y), data, times, {"steps": n_steps})


MODELS: dict[str, Callable[[Split, Views, np.ndarray], Prediction]] = {
    EVERYONE: _everyone,
    OURS: _ours,
    "Cox net": _cox_net,
    "random survival forest": _forest,
    "gradient boosting": _boosting,
}


def partial_likelihood(y: np.ndarray, risk: np.ndarray) -> float:
    """Return Cox's log partial likelihood of log hazards, which have any constant, with Breslow's ties."""
    order = np.argsort(-y["time"], kind="stable")
    time, event, risk = y["time"][order], y["event"][order], risk[order]
    at_risk = np.logaddexp.accumulate(risk)
    last = np.searchsorted(-time, -time, side="right") - 1  # of those with the same time
    return float(np.sum((risk - at_risk[last])[event]))


def held_out_likelihood(y: np.ndarray, risk: np.ndarray, train: np.ndarray) -> float:
    """Return what samples that the risk was not learned from add (Verweij and van Houwelingen 1993)."""
    return partial_likelihood(y, risk) - partial_likelihood(y[train], risk[train])


def _folds(data: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return StratifiedKFold(N_INNER, shuffle=True, random_state=0).split(data.X, data.y["event"])


def _predicted(model: Any, data: Split, times: np.ndarray, notes: dict[str, Any]) -> Prediction:
    """Read off a model of scikit-survival; before its first and after its last time its curves are constant."""
    with warnings.catch_warnings(action="ignore"):
        functions = model.predict_survival_function(data.X_test)
    survival = [function(np.clip(times, *function.domain)) for function in functions]
    before = times < functions[0].domain[0]
    survival = np.where(before, 1.0, np.array(survival))
    return Prediction(np.asarray(model.predict(data.X_test)), np.clip(survival, 0.0, 1.0), notes)
