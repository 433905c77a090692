"""Signal of a model: absolute size of the score, variance explained, and whether kernels predict anything at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl.bemkl.selection import MOST_ENTRIES
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.refits import CLEAR, why_no_refits
from bayesmkl.posterior.relevance import relevance
from bayesmkl.posterior.report import Section, line_of_text, table

LARGEST_REFIT = 1000  # training samples for which a fit without kernels takes seconds
LARGEST_CAVITIES = 500  # and two hundred Gaussian processes


def sizes_of_process(fitted: FittedBEMKL) -> tuple[np.ndarray, np.ndarray]:
    """Return variances over the training samples of what kernels add to the score, and of its noise.

    Each is of shape (n_draws, n_outputs).

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    draws: HyperDraws = fitted.states[0]
    variance = fitted.estimator._without_effects(draws).var(axis=-1)
    likelihood, own = fitted.estimator.likelihood_, np.moveaxis(draws.parameters[draws.point], -1, 0)
    targets = fitted.estimator._targets_of_outputs()
    noise = [likelihood.noise_variance(y, own[..., k]) for k, y in enumerate(targets)]
    return variance, np.stack(noise, axis=-1)


def sizes_of_draws(models: list[Evaluated]) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of evaluated draws, whose noise is that of the intermediate outputs too."""
    outputs = [output for model in models for output in model.outputs]
    variance = np.stack([output.means.var(axis=-1) for output in outputs], axis=-1)
    return variance, np.stack([(output.scales**2).mean(axis=-1) for output in outputs], axis=-1)


def signal_section(
    fitted: FittedBEMKL,
    sizes: tuple[np.ndarray, np.ndarray],
    ci_prob: float,
    kernels: ArrayLike | None = None,
) -> Section:
    """Report the absolute size of the score, and whether kernels predict anything that is left out.

    Parameters
    ----------
    fitted : FittedBEMKL
    sizes : tuple of two arrays of shape (n_draws, n_outputs)
        Variances of score and noise.
    ci_prob : float
        Content of the intervals.
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.
    """
    values, lines = _size(fitted, sizes, ci_prob)
    reason = _why_not(fitted)
    if reason is not None:
        return Section("signal", "Signal", values, lines, "skipped", reason)
    row = relevance(fitted.estimator, by="all", kernels=kernels).iloc[0]
    differences = ("elpd_diff", "se", "log_evidence_diff", "elbo_diff")
    values |= {name: float(row[name]) for name in differences if name in row.index}
    how = " (ten folds)" if "elbo_diff" in values else ""
    text = f"Left-out samples{how} against no kernels: {values['elpd_diff']:+.1f} nats, "
    text += f"standard error {values['se']:.1f}"
    if "log_evidence_diff" in values:
        text += f"; log Bayes factor {values['log_evidence_diff']:+.1f}"
    lines += line_of_text(f"{text}.")
    signal = row["verdict"] == "signal"
    advice = (
        f"Signal: left-out samples are predicted better than without kernels, by more than {CLEAR:g} standard "
        "errors. `relevance` says which views that needs."
        if signal
        else "No signal: left-out samples are not predicted measurably better than without kernels. Shares divide "
        "what may be nothing: do not read them."
    )
    return Section("signal", "Signal", values, lines, "good" if signal else "caution", advice)


def _size(
    fitted: FittedBEMKL, sizes: tuple[np.ndarray, np.ndarray], ci_prob: float
) -> tuple[dict[str, Any], list[str]]:
    """Return numbers and lines of the size of the score."""
    variance, noise = sizes
    scale = np.array([fitted.units(k)[1] for k in range(variance.shape[1])])
    tails = [0.5 - 0.5 * ci_prob, 0.5 + 0.5 * ci_prob]
    what = {"score_std": scale * np.sqrt(variance), "explained": variance / (variance + noise)}
    values: dict[str, Any] = {}
    rows = []
    for name, text in (("score_std", "sd of the score"), ("explained", "variance explained")):
        mean, (lower, upper) = what[name].mean(axis=0), np.quantile(what[name], tails, axis=0)
        found = np.stack([mean, lower, upper])
        values[name] = dict(
            zip(("mean", "lower", "upper"), found if fitted.output_names else found[:, 0], strict=True)
        )
        for output, numbers in zip(fitted.output_names or [""], found.T, strict=True):
            rows.append([f"{output}: {text}" if output else text, *map(float, numbers)])
    narrow = f"{fitted.inference} (too narrow)" if fitted.inference == "vb" else ""
    lines = table([narrow, "mean", f"{100 * ci_prob:g} % from", "to"], rows)
    lines += line_of_text(
        "sd of the score over the training samples"
        + (", without effects of covariates and groups" if _has_effects(fitted) else "")
        + (_units_of_score(fitted) if fitted.outcome == "numbers" else "")
        + "; variance explained: of the score, and of score and noise together."
    )
    return values, lines


def _has_effects(fitted: FittedBEMKL) -> bool:
    design = fitted.estimator.design_ if fitted.is_marginal else None
    return design is not None and design.has_effects


def _units_of_score(fitted: FittedBEMKL) -> str:
    design = fitted.estimator.design_ if fitted.is_marginal else None
    if design is not None and design.has_tasks:
        return ", in standard deviations of the targets of a task"
    return ", in units of the target"


def _why_not(fitted: FittedBEMKL) -> str | None:
    """Say why no verdict is made here; None where it takes seconds."""
    reason = why_no_refits(fitted)
    if reason is not None:
        return f"Whether kernels predict anything is not found out: {reason}"
    n, by_itself = fitted.n_samples, 'made here: `relevance(model, by="all")`.'
    if n > LARGEST_REFIT:
        what = f"a fit without them, too long for {n} samples to be"
        return f"Whether kernels predict anything takes {what} {by_itself}"
    many = fitted.inference == "vb" and fitted.estimator.n_kernels_in_ * n * fitted.n_basis > MOST_ENTRIES
    if many or (fitted.is_drawn and n > LARGEST_CAVITIES):
        return (
            f"Whether kernels predict anything takes leaving samples out, too long for {n} of them and "
            f"{fitted.estimator.n_kernels_in_} kernels to be {by_itself}"
        )
    return None
