"""Diagnosis of localized BEMKL: its intervals or chains, evidence for gates, held-out predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl.marginal.hyperposterior import LARGEST_RHAT, LEAST_DRAWS
from bayesmkl.posterior.calibration import Predictions, calibration_section
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.report import Section, table
from bayesmkl.posterior.summary import kernel_table

__all__ = ["gate_pictures", "sections_of_gates"]

DECIDED = 3.0  # nats by which a bound is above the other
MOST_ROWS = 8


def sections_of_gates(
    fitted: FittedBEMKL, ci_prob: float, held_out: Predictions | None, kernels: ArrayLike | None
) -> list[Section]:
    """Examine the posterior and the predictions of localized BEMKL.

    Parameters
    ----------
    fitted : FittedBEMKL
    ci_prob : float
        Probability content of all intervals.
    held_out : Predictions or None
        Of samples that the model was not fitted to.
    kernels : array-like of shape (n_samples, n_samples, n_kernels) or None
        Of training, where the model does not keep precomputed ones.
    """
    classes = getattr(fitted.estimator, "classes_", None)
    if held_out is None:
        remedy = "Training samples are not left out in turn of models with gates. Pass `X_test` and `y_test`."
        calibration = Section("calibration", "Calibration", {}, [], "skipped", remedy)
    else:
        calibration = calibration_section(held_out, classes, ci_prob)
    first = _intervals() if fitted.inference == "vb" else _chains(fitted)
    return [first, _gates(fitted, ci_prob, kernels), calibration]


def gate_pictures(fitted: FittedBEMKL) -> list[dict[str, Any]]:
    """Return arguments of `plot_gates` for one picture of each class or target.

    Gates are drawn over their feature, or the first of several.

    Parameters
    ----------
    fitted : FittedBEMKL
    """
    estimator, labels = fitted.estimator, fitted.class_labels
    place = None if estimator.n_gate_features_ == 1 else estimator.gate_features_[:, 0]
    return [{"order_by": place, "label": label} for label in ([None] if labels is None else labels)]


def _intervals() -> Section:
    return Section(
        "intervals",
        "Intervals",
        {},
        [],
        "caution",
        "Variational intervals of gates, shares and localities are too narrow: lower bounds of the uncertainty. "
        'Those of inference="marginal" can be read.',
    )


def _chains(fitted: FittedBEMKL) -> Section:
    """Judge the chains of the weights of the gates."""
    estimator, names = fitted.estimator, fitted.model_names
    rhat, ess = (np.broadcast_to(getattr(estimator, name), len(names)) for name in ("rhat_", "ess_"))
    rows = [[name, f"{r:.3f}", f"{n:.0f}"] for name, r, n in zip(names, rhat, ess, strict=True)]
    good = bool(np.all(estimator.converged_))
    values = {name: {"rhat": float(r), "ess": float(n)} for name, r, n in zip(names, rhat, ess, strict=True)}
    return Section(
        "sampling",
        "Markov chains",
        values if fitted.class_names else values[names[0]],
        table(["", "R-hat", "ESS"], rows),
        "good" if good else "bad",
        "The chains of the weights of the gates agree, and say enough."
        if good
        else f"R-hat is above {LARGEST_RHAT}, or there are less than {LEAST_DRAWS:.0f} effective draws: fit with "
        "more `n_points` of `inference`.",
    )


def _gates(fitted: FittedBEMKL, ci_prob: float, kernels: ArrayLike | None) -> Section:
    """Say whether anything is local, by the bounds of gates that differ between samples and of constant ones."""
    estimator: Any = fitted.estimator
    found, gain = kernel_table(fitted.estimator, ci_prob, kernels=kernels), float(estimator.elbo_gain_)
    names = ["locality", "locality_lower", "locality_upper"]
    has_interval = names[1] in found
    of = [fitted.output_kind] if fitted.class_names else []
    rows = [
        [
            " ".join(str(row[name]) for name in [*of, "kernel"]),
            f"{100 * row['share']:.0f} %",
            f"{row['locality']:.2f}",
            f"{row[names[1]]:.2f} - {row[names[2]]:.2f}" if has_interval else "-",
        ]
        for row in found.head(MOST_ROWS).to_dict("records")
    ]
    lines = [
        f"bound of the best local gates, less that of constant ones: {gain:+.1f} nats",
        "gates are the same everywhere"
        if np.isinf(estimator.gate_width_)
        else f"width of the gates: {estimator.gate_width_:.2g} median distances between samples",
        *table(["", "share", "locality", f"{100 * ci_prob:g} % interval"], rows),
    ]
    values = {
        "elbo_gain": gain,
        "gate_width": float(estimator.gate_width_),
        "locality": np.asarray(estimator.locality_),
        "locality_interval": np.asarray(estimator.locality_interval_),
    }
    if abs(gain) <= DECIDED:
        verdict, advice = (
            "caution",
            "The bounds hardly differ: these samples do not tell whether weights depend on the gate columns.",
        )
    elif gain > 0.0:
        verdict, advice = (
            "good",
            "Weights of kernels depend on the gate columns. plot_gates(model) shows how.",
        )
    else:
        verdict, advice = (
            "good",
            "Nothing says that weights of kernels depend on the gate columns. Models without gates have intervals, "
            "leave samples out and are as good: BEMKLClassifier, BEMKLRegressor, bayesmkl.marginal.",
        )
    return Section("gates", "Gates", values, lines, verdict, advice)
