"""Diagnosis of an additive Gaussian process: draws of hyperparameters, errors of shares, signal, checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.gp.hyperposterior import (
    GOOD_K,
    LARGEST_K,
    LARGEST_RHAT,
    LEAST_DRAWS,
    MOST_UNKNOWN,
    remedy_of_weights,
)
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.calibration import Predictions, calibration_section, left_out_predictions
from bayesmkl.posterior.cavities import leave_one_out_by_cavities
from bayesmkl.posterior.fitted import FittedBEMKL, evenly
from bayesmkl.posterior.leave_one_out import leave_one_out_section
from bayesmkl.posterior.predictive_checks import CheckedOutput, check_output, section_of_checks
from bayesmkl.posterior.report import Section, line_of_text, table
from bayesmkl.posterior.signal import signal_section, sizes_of_process
from bayesmkl.posterior.summary import kernel_table

GOOD_RHAT, GOOD_ESS = 1.01, 100.0
GOOD_ERROR, LARGEST_ERROR = 0.02, 0.05  # Monte Carlo errors of the ends of intervals of shares
MOST_ROWS = 8
MOST_PRIOR_DRAWS = 500  # each is a function at all training samples
INSTEAD = {
    "counts": "Counts are discrete: their places in distributions are not uniform. Compare `elpd` of likelihoods.",
    "times": "Of censored times `bayesmkl.evaluation.survival_calibration` says how often held-out events came.",
}
AGAINST_NARROW = "Add kernels that can follow the data, or look for outliers."


def sections_of_process(
    fitted: FittedBEMKL, n_draws: int, ci_prob: float, rng: np.random.Generator, held_out: Predictions | None
) -> list[Section]:
    """Examine the posterior and the predictions of an additive Gaussian process.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int
        Draws that are compared with the targets, at most.
    ci_prob : float
        Probability content of all intervals.
    rng : numpy.random.Generator
    held_out : Predictions or None
        Of samples that the model was not fitted to.
    """
    if fitted.has_landmarks:
        return _sections_of_landmarks(fitted, ci_prob, held_out)
    loo = leave_one_out_by_cavities(fitted)
    predictions = left_out_predictions(fitted, loo) if held_out is None else held_out
    classes = getattr(fitted.estimator, "classes_", None)
    return [
        hyperparameters_section(fitted),
        _shares(fitted, ci_prob),
        signal_section(fitted, sizes_of_process(fitted), ci_prob),
        leave_one_out_section(loo, None, not fitted.is_classifier),
        Section(
            "sensitivity",
            "Prior sensitivity",
            {},
            [],
            "skipped",
            "Draws have no density of their own to be weighted by. Fit again with another `kernel_prior`, or another "
            "scale of it, and report both.",
        ),
        _checks(fitted, n_draws, ci_prob, rng),
        _calibration(fitted, predictions, classes, ci_prob),
    ]


def _sections_of_landmarks(
    fitted: FittedBEMKL, ci_prob: float, held_out: Predictions | None
) -> list[Section]:
    """Examine what there is of a model of pseudo-samples, which has no draws at its training samples."""
    elpd = float(fitted.estimator.elpd_i_.sum())
    instead = {
        (
            "loo",
            "Leave-one-out",
        ): f"Log densities of left-out samples are in `elpd_i_`: their sum is {elpd:.1f}.",
        ("checks", "Predictive checks"): "Pass held-out samples.",
        ("calibration", "Calibration"): "Pass held-out samples.",
    }
    skipped = {
        key: Section(
            key,
            title,
            {},
            [],
            "skipped",
            "The model has no draws of the scores of its training samples, which are compared with "
            f"{fitted.n_basis} landmarks. {remedy}",
        )
        for (key, title), remedy in instead.items()
    }
    if held_out is not None:
        classes = getattr(fitted.estimator, "classes_", None)
        skipped["calibration"] = _calibration(fitted, held_out, classes, ci_prob)
    return [
        hyperparameters_section(fitted),
        _shares(fitted, ci_prob),
        signal_section(fitted, sizes_of_process(fitted), ci_prob),
        *skipped.values(),
    ]


def _calibration(
    fitted: FittedBEMKL, predictions: Predictions, classes: np.ndarray | None, ci_prob: float
) -> Section:
    """Judge probabilities and intervals; those of counts and times are judged elsewhere."""
    if fitted.outcome in INSTEAD:
        return Section("calibration", "Calibration", {}, [], "skipped", INSTEAD[fitted.outcome])
    return calibration_section(predictions, classes, ci_prob, AGAINST_NARROW)


def hyperparameters_section(fitted: FittedBEMKL) -> Section:
    """Judge the draws of the hyperparameters: importance weights, or chains.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    estimator: Any = fitted.estimator
    options = estimator._inference()
    values: dict[str, Any] = {
        "n_evaluations": int(estimator.n_evaluations_),
        "n_points": len(fitted.states[0].kernel_weights),
        "ess": float(estimator.ess_),
        "unconverged": float(estimator.unconverged_),
    }
    chains = bool(np.isnan(estimator.pareto_k_))
    values |= {"rhat": float(estimator.rhat_)} if chains else {"pareto_k": float(estimator.pareto_k_)}
    ess, unknown = values["ess"], values["unconverged"]
    wrong = values["rhat"] > LARGEST_RHAT if chains else not values["pareto_k"] <= LARGEST_K
    rough = values["rhat"] > GOOD_RHAT if chains else values["pareto_k"] > GOOD_K
    verdict = (
        "bad"
        if wrong or ess < LEAST_DRAWS or unknown >= MOST_UNKNOWN
        else "caution"
        if rough or ess < GOOD_ESS or (chains and options.n_chains == 1)
        else "good"
    )
    sampler = "NUTS" if chains else "importance sampling"
    sampler = "chains over sets of kernels" if fitted.selects_kernels else sampler
    name, number = ("R-hat", values["rhat"]) if chains else ("k-hat", values["pareto_k"])
    lines = table(
        ["hyperparameters", "evaluated", "kept", "effective", name, "unknown evidence"],
        [
            [
                sampler,
                values["n_evaluations"],
                values["n_points"],
                f"{ess:.0f}",
                f"{number:.3f}" if chains else f"{number:.2f}",
                f"{100 * unknown:.1f} %",
            ]
        ],
    )
    lines += line_of_text(
        "unknown evidence: posterior probability of the points at which expectation propagation did not converge."
    )
    key, title = ("sampling", "Sampling") if chains else ("importance", "Importance sampling")
    return Section(
        key, title, values, lines, verdict, _advice_on_draws(verdict, float(estimator.pareto_k_), unknown)
    )


def _advice_on_draws(verdict: str, pareto_k: float, unknown: float) -> str:
    chains = bool(np.isnan(pareto_k))
    if unknown >= MOST_UNKNOWN:
        return (
            'Evidences are not to be believed there. Use approximation="laplace" in `inference`, or a `kernel_prior` '
            "with a smaller scale."
        )
    if verdict == "good":
        return f"The draws of the hyperparameters are those of the posterior{'; the chains agree' * chains}."
    wanted = (
        f"Wanted: R-hat of several chains at most {GOOD_RHAT}, at least {GOOD_ESS:.0f} effective draws. Increase "
        "`n_points` of `inference`, or its `n_warmup`."
        if chains
        else f"Wanted: k-hat at most {GOOD_K}, at least {GOOD_ESS:.0f} effective draws. {remedy_of_weights(pareto_k)}"
    )
    return f"{'Do not use these draws yet.' if verdict == 'bad' else 'Ends of intervals are rough.'} {wanted}"


def _shares(fitted: FittedBEMKL, ci_prob: float) -> Section:
    """Report the shares with what another seed would change."""
    found = kernel_table(fitted.estimator, ci_prob)
    ends = ("share", "share_lower", "share_upper")
    columns = ["kernel", *(name for end in ends for name in (end, f"{end}_mcse"))]
    largest = {end: float(found[f"{end}_mcse"].max()) for end in ends}
    worst = max(largest.values())
    percent = f"{100 * ci_prob:g} %"
    header = ["share of", "mean", "error", f"{percent} from", "error", "to", "error"]
    rows = [
        [name, *(f"{value:.3f}" for value in numbers)]
        for name, *numbers in found[columns].head(MOST_ROWS).itertuples(index=False)
    ]
    lines = table(header, rows)
    lines += line_of_text(
        f"error: Monte Carlo standard error, by which another seed moves the number. Largest of all "
        f"{len(found)} kernels: {largest['share']:.3f} of means, {worst:.3f} of ends."
    )
    values = {"kernel": found["kernel"].tolist()} | {name: found[name].to_numpy() for name in columns[1:]}
    verdict = "good" if worst <= GOOD_ERROR else "caution" if worst <= LARGEST_ERROR else "bad"
    advice = (
        "Another seed gives the same shares, to the second digit or nearly so."
        if verdict == "good"
        else "Ends of intervals change with the seed. Increase `n_points` and `n_draws` of `inference`: twice as "
        "many make errors 0.7 times as large."
    )
    return Section("shares", "Shares of kernels", values, lines, verdict, advice)


def _checks(fitted: FittedBEMKL, n_draws: int, ci_prob: float, rng: np.random.Generator) -> Section:
    """Compare statistics of the training targets with those of replicated ones."""
    if fitted.outcome == "times":
        reason = "Replicated times are not censored, and those of the samples are."
        return Section("checks", "Predictive checks", {}, [], "skipped", reason)
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    after = _outputs(fitted, draws.score[chosen], draws.parameters[draws.point[chosen]], rng)
    n_prior, n_outputs = min(MOST_PRIOR_DRAWS, len(chosen)), draws.score.shape[1]
    weights, parameters = estimator._draw_prior(n_prior, n_outputs, rng)
    scores = estimator._draw_prior_scores(weights, n_outputs, rng)
    before = _outputs(fitted, scores, parameters, rng)
    checked = [
        {
            "posterior": check_output(fitted, k, posterior, ci_prob),
            "prior": check_output(fitted, k, prior, ci_prob, posterior=False),
        }
        for k, (posterior, prior) in enumerate(zip(after, before, strict=True))
    ]
    return section_of_checks(fitted, checked, ci_prob)


def _outputs(
    fitted: FittedBEMKL, scores: np.ndarray, parameters: np.ndarray, rng: np.random.Generator
) -> list[CheckedOutput]:
    """Replicate the targets of scores, (n_draws, n_outputs, n_samples)."""
    estimator: Any = fitted.estimator
    likelihood, targets = estimator.likelihood_, estimator._targets_of_outputs()
    drawn = estimator._draw_targets(scores, parameters, rng)
    p = None
    if fitted.is_classifier:
        drawn = (drawn > 0.0).astype(np.int8)
        p = np.exp(
            likelihood.log_density(np.ones_like(scores), scores, np.moveaxis(parameters, -1, 0)[..., None])
        )
    return [
        CheckedOutput(
            y if y.ndim == 1 else y[0],
            drawn[:, k],
            scores[:, k],
            None if p is None else p[:, k],
            "mean |score|",
        )
        for k, y in enumerate(targets)
    ]
