r"""Leave-one-out predictive accuracy of a model, by Pareto smoothed importance sampling (PSIS-LOO).

Draws from the posterior of all samples are weighted by :math:`1 / p(y_i \mid a, b, e)`, draws from a variational
posterior by :math:`p / q` on top (Magnusson et al. 2019). The collapsed model has a weight of its own for every
training sample, so that single samples can matter a lot: look at how many k-hats are too large before reading a
number.

The likelihood of classification, :math:`P(y_i f_i > \nu)`, does not sum to one over the labels, and grows when ν
falls. What is compared between models is the probability of the label given that there is one, as `predict_proba`
has it,

.. math:: \mathrm{elpd}_i = \log \frac{E_{-i}\, P(y_i f_i > \nu)}{E_{-i}\, P(|f_i| > \nu)},

with the expectations over the posterior without sample i. The weights need no change: they are those of the model
that was fitted. With more than two classes it is the probability of the true class against the rest, normalized over
classes; of classes that compete (multinomial) it is the probability of the true one. With several labels or targets
it is the joint probability or density of all of a sample, which is left out with all that it has. Unlabeled samples
have nothing to predict: they stay in and are not scored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.report import Section, line_of_text, table


class LeaveOneOut(NamedTuple):
    """Predictions of every labeled training sample by the posterior of the others."""

    elpd_i: np.ndarray  # log probability of the own label, or log density of the own target; (n_samples,)
    lpd_i: np.ndarray  # the same with the sample left in
    margin_elpd: float  # sum of log P(y_i f_i > ν), over one-versus-all models too; NaN in regression
    pareto_k: np.ndarray  # (n_samples,), the largest of all models
    good_k: float
    log_probabilities: np.ndarray | None  # (n_samples, n_classes) in classification, or of having each label
    pit: (
        np.ndarray | None
    )  # P(target below the own one) in regression, (n_samples,) or (n_samples, n_outputs)
    approximate: bool  # whether the draws were corrected for being those of a variational posterior
    by_cavities: bool = (
        False  # whether weights are of hyperparameters alone, function values being left out exactly
    )

    @property
    def elpd(self) -> float:
        """Expected log predictive density, in nats, summed over the samples."""
        return float(self.elpd_i.sum())

    @property
    def standard_error(self) -> float:
        """Of `elpd`, over samples."""
        return float(np.sqrt(len(self.elpd_i)) * self.elpd_i.std())

    @property
    def n_bad(self) -> int:
        """Number of samples with too large a k-hat."""
        return int((self.pareto_k > self.good_k).sum())

    def values(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {
            "elpd": self.elpd,
            "se": self.standard_error,
            "p_loo": float((self.lpd_i - self.elpd_i).sum()),
            "margin_elpd": self.margin_elpd,
            "n_bad_k": self.n_bad,
            "max_k": float(self.pareto_k.max()),
            "good_k": self.good_k,
            "elpd_i": self.elpd_i,
            "pareto_k": self.pareto_k,
        }


def leave_one_out(
    fitted: FittedBEMKL, models: list[Evaluated], log_ratios: list[np.ndarray] | None = None
) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others.

    Parameters
    ----------
    fitted : FittedBEMKL
    models : list of Evaluated
    log_ratios : list of array of shape (n_draws,), optional
        ``log p - log q`` of the draws of variational posteriors, to be corrected for.
    """
    weights, pareto_k = [], []
    for k, model in enumerate(models):
        ratios = -model.log_likelihood.T
        if log_ratios is not None:
            ratios = ratios + log_ratios[k]
        own_weights, own_k = smooth_weights(ratios, _relative_efficiency(model))
        weights.append(own_weights)
        pareto_k.append(own_k)
    n_draws, kept = len(models[0].flat.intercept), models[0].labeled
    even = [np.full(own.shape, -np.log(n_draws)) for own in weights]
    log_probabilities = pit = None
    margin_elpd = float("nan")
    if models[0].is_regression:
        log_scale = np.log(fitted.estimator.y_scale_).sum()
        elpd_i, lpd_i = (_log_mean(models, own) - log_scale for own in (weights, even))
        pit = _pit(models[0], weights[0])
    else:
        elpd_i, log_probabilities = _of_classes(fitted, models, weights)
        lpd_i = _of_classes(fitted, models, even)[0][kept]
        elpd_i, log_probabilities = elpd_i[kept], log_probabilities[kept]
        margin_elpd = float(_log_mean(models, weights)[kept].sum())
    return LeaveOneOut(
        elpd_i,
        lpd_i,
        margin_elpd,
        np.max(pareto_k, axis=0)[kept],
        good_k(n_draws),
        log_probabilities,
        pit,
        log_ratios is not None,
    )


def leave_one_out_section(
    found: LeaveOneOut, as_it_is: LeaveOneOut | None, is_regression: bool, can_be_sampled: bool = True
) -> Section:
    """Report the accuracy and its reliability; `as_it_is` is that of a variational posterior, not corrected."""
    n = len(found.elpd_i)
    rows = [_row("corrected for p / q" if found.approximate else "posterior without i", found, n)]
    values = found.values()
    if as_it_is is not None:
        rows.append(_row("variational posterior as it is", as_it_is, n))
        values["as_it_is"] = as_it_is.values()
    lines = table(["leave-one-out", "elpd", "se", "per sample", "p_loo", "bad k-hat"], rows)
    lines += line_of_text(_meaning(found, is_regression))
    verdict = (
        "good"
        if found.n_bad == 0
        else "caution"
        if found.n_bad <= 0.05 * n and not found.approximate
        else "bad"
    )
    advice = _advice(verdict, found, as_it_is, can_be_sampled)
    title = f"Leave-one-out accuracy ({'cavities' if found.by_cavities else 'PSIS'})"
    return Section("loo", title, values, lines, verdict, advice)


def _meaning(found: LeaveOneOut, is_regression: bool) -> str:
    """Say what is summed."""
    by = "by the posterior of the others, in nats."
    if is_regression:
        return f"elpd: log density of each sample's target (original units) {by}"
    if found.by_cavities:
        return f"elpd: log probability of each label {by}"
    return (
        f"elpd: log probability of each label, given that there is one, {by} "
        f"With the margin in it, log P(y f > margin) sums to {found.margin_elpd:.1f}."
    )


def _row(name: str, found: LeaveOneOut, n: int) -> list[Any]:
    v = found.values()
    return [
        name,
        f"{v['elpd']:.1f}",
        f"{v['se']:.1f}",
        f"{v['elpd'] / n:.3f}",
        f"{v['p_loo']:.1f}",
        f"{found.n_bad} of {n}",
    ]


def _advice(verdict: str, found: LeaveOneOut, as_it_is: LeaveOneOut | None, can_be_sampled: bool) -> str:
    if verdict == "good":
        return f"All k-hats are below {found.good_k:.2f}: the estimate is reliable; `compare_loo` compares models."
    if found.by_cavities:
        return (
            f"{found.n_bad} samples have a k-hat above {found.good_k:.2f}: leaving one out moves the hyperparameters "
            "further than their points reach. Fit with a larger `n_points` of `inference`, or use `cross_val_score`."
        )
    if found.approximate:
        text = (
            f"{found.n_bad} samples have a k-hat above {found.good_k:.2f}: the variational posterior is too far from "
            "the exact one for its draws to be corrected."
        )
        if as_it_is is not None and as_it_is.n_bad <= 0.05 * len(as_it_is.pareto_k):
            text += (
                " Taken as it is, it cannot see its own error: that line is too optimistic (on 100 samples of wdbc "
                "it promised a log loss of .04 where new samples gave .13)."
            )
        sampled = ', held-out data, or inference="nuts".' if can_be_sampled else " or held-out data."
        return f"{text} Use `cross_val_score`{sampled}"
    return (
        f"{found.n_bad} samples have a k-hat above {found.good_k:.2f}: each has a weight of its own in the model, "
        "and leaving it out moves the posterior too far for reweighting. Read the elpd as a rough guess; use "
        "`cross_val_score` or held-out data for a decision."
    )


def _relative_efficiency(model: Evaluated) -> float:
    """Return the effective draws per draw of the log likelihoods of all samples, on average."""
    if model.draws.n_chains == 1:
        return 1.0
    from arviz_stats.base import array_stats

    per_sample = np.moveaxis(model.in_chains(np.exp(model.log_likelihood)), -1, 0)
    moving = per_sample[per_sample.std(axis=(1, 2)) > 1e-12]
    if len(moving) == 0:
        return 1.0
    return float(np.clip(array_stats.ess(moving, method="mean", relative=True).mean(), 1e-3, 1.0))


def _log_mean(models: list[Evaluated], weights: list[np.ndarray]) -> np.ndarray:
    """Return the log of the weighted mean likelihood of every sample, summed over the models, (n_samples,)."""
    each = [
        np.logaddexp.reduce(own + model.log_likelihood.T, axis=1)
        for model, own in zip(models, weights, strict=True)
    ]
    return np.sum(each, axis=0)


def _of_classes(
    fitted: FittedBEMKL, models: list[Evaluated], weights: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return log probabilities of what is true, (n_samples,), and of all classes or labels, (n_samples, n)."""
    if models[0].is_multinomial:
        (model,) = models
        return _of_true_class(weights[0][..., None] + model.log_classes.transpose(1, 0, 2), model.problem.y)
    pairs = zip(models, weights, strict=True)
    sides = [_log_sides(output, own) for model, own in pairs for output in model.outputs]
    if len(sides) == 1 or fitted.output_kind == "label":
        any_label = [_log_any_label(model, own) for model, own in zip(models, weights, strict=True)]
        log_own = _log_mean(models, weights) - np.sum(any_label, axis=0)
        return log_own, sides[0] if len(sides) == 1 else np.column_stack([both[:, 1] for both in sides])
    y = np.concatenate([np.atleast_2d(model.problem.y) for model in models])
    return _of_true_class(np.column_stack([both[:, 1] for both in sides])[:, None], y)


def _of_true_class(log_p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum (n_samples, n_draws, n_classes) over draws, normalize over classes, and pick those where y is largest."""
    log_p = np.logaddexp.reduce(log_p, axis=1)
    log_p = log_p - np.logaddexp.reduce(log_p, axis=1)[:, None]
    return log_p[np.arange(len(log_p)), y.argmax(axis=0)], log_p


def _log_sides(output: Evaluated, weights: np.ndarray) -> np.ndarray:
    """Return log probabilities of the labels -1 and +1 of one output given that there is a label, (n_samples, 2)."""
    sides = np.logaddexp.reduce(weights[..., None] + output.log_sides.transpose(1, 0, 2), axis=1)
    return sides - np.logaddexp(sides[:, 0], sides[:, 1])[:, None]


def _log_any_label(model: Evaluated, weights: np.ndarray) -> np.ndarray:
    """Return the log probability that all scores of a sample are beyond the margin, on either side, (n_samples,)."""
    each = [np.logaddexp(output.log_sides[..., 0], output.log_sides[..., 1]) for output in model.outputs]
    return np.logaddexp.reduce(weights + np.sum(each, axis=0).T, axis=1)


def _pit(model: Evaluated, weights: np.ndarray) -> np.ndarray:
    found = []
    for output in model.outputs:
        below = ndtr((output.problem.y - output.means) / output.scales).T
        found.append(np.clip((np.exp(weights) * below).sum(axis=1), 0.0, 1.0))
    return np.column_stack(found) if len(found) > 1 else found[0]
