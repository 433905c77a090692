"""Prior and posterior predictive checks.

Draws from the prior have no variance (Student t with 2 degrees of freedom by default): they are described by
quantiles only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl.draws import NonnegativeGamma, PosteriorDraws
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Dirichlet, Gamma
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.report import Section, line_of_text, table, worst

LEAST_CONCENTRATION = 0.5  # 1 degree of freedom of the Student t; with less, draws overflow or are all zero
UNLIKELY, IMPLAUSIBLE = 0.03, 0.005  # tail probabilities
MOST_PRIOR_DRAWS = 1000
TINY = 1e-300


def check_section(
    fitted: FittedBEMKL, models: list[Evaluated], rng: np.random.Generator, ci_prob: float
) -> Section:
    """Compare statistics of the training targets with those of replicated ones.

    Parameters
    ----------
    fitted : FittedBEMKL
    models : list of Evaluated
    rng : numpy.random.Generator
    ci_prob : float
        Content of the intervals.
    """
    reason = why_no_prior_draws(models[0].problem.priors)
    checked = [own for model in models for own in _checks_of_model(fitted, model, rng, ci_prob, reason)]
    return section_of_checks(fitted, checked, ci_prob, reason)


def section_of_checks(
    fitted: FittedBEMKL, checked: list[dict[str, Any]], ci_prob: float, reason: str | None = None
) -> Section:
    """Report checks of every output.

    Parameters
    ----------
    fitted : FittedBEMKL
    checked : list of dict
        Of every output, what `check_output` found of the sources "prior" and "posterior".
    ci_prob : float
        Content of the intervals.
    reason : str, optional
        Why there is no prior check.
    """
    names, values = fitted.output_names or fitted.model_names, {}
    rows, verdicts, far = [], [], []
    for name, own in zip(names, checked, strict=True):
        prefix = f"{name}: " if len(names) > 1 else ""
        for source in ("prior", "posterior"):
            for statistic, found in own.get(source, {}).items():
                cells = [found[key] for key in ("observed", "lower", "median", "upper", "tail_probability")]
                rows.append([f"{prefix}{statistic}, {source}", *cells])
        verdict, own_far = _verdict(own)
        verdicts.append(verdict)
        far += [prefix + statistic for statistic in own_far]
        values[name] = own
    percent = f"{100 * ci_prob:g} %"
    lines = table(["", "observed", f"{percent} from", "median", "to", "tail"], rows)
    lines += line_of_text(
        "tail: probability of a value at least as far out on its side. Statistics without an observed value are "
        "properties of the scores."
    )
    if reason is not None:
        lines += line_of_text(f"No prior predictive check: {reason}.")
    verdict = worst(verdicts)
    single = values if len(names) > 1 else values[names[0]]
    return Section("checks", "Predictive checks", single, lines, verdict, _advice(verdict, far))


def why_no_prior_draws(priors: Priors) -> str | None:
    """Return why nothing can be drawn from these priors, or None if it can."""
    for name, prior in priors._asdict().items():
        if isinstance(prior, Gamma) and prior.concentration < LEAST_CONCENTRATION:
            return (
                f"the prior of the {name} precisions, Gamma({prior.concentration:g}, {prior.rate:g}), leaves weights "
                f"with {2 * prior.concentration:g} degrees of freedom, which overflow or vanish when drawn"
            )
    return None


def prior_draws(problem: Any, n_draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Draw a, b and e (and υ, ε in regression) from the priors of the collapsed model, as one chain.

    Parameters
    ----------
    problem : Problem
    n_draws : int
    rng : numpy.random.Generator
    """
    priors, stack, outputs = problem.priors, problem.stack, problem.y.shape[:-1]

    def student(prior: Gamma, *shape: int) -> np.ndarray:
        precision = rng.gamma(prior.concentration, 1.0 / prior.rate, size=(1, n_draws, *shape))
        return rng.standard_normal(precision.shape) / np.sqrt(precision)

    inclusion = None
    if isinstance(priors.kernel, Gamma):
        weights = student(priors.kernel, stack.n_kernels)
        weights = np.abs(weights) if isinstance(priors.kernel, NonnegativeGamma) else weights
    elif isinstance(priors.kernel, Dirichlet):
        concentration = np.broadcast_to(priors.kernel.concentration, stack.n_kernels)
        weights = rng.dirichlet(concentration, size=(1, n_draws))
    else:
        shape = (1, n_draws, stack.n_kernels)
        inclusion = (rng.random(shape) < priors.kernel.inclusion).astype(float)
        weights = inclusion * priors.kernel.scale * rng.standard_normal(shape)
    intercept, dual = student(priors.intercept, *outputs), student(priors.sample, *outputs, stack.n_train)
    draws = PosteriorDraws(weights, intercept, dual)
    draws = draws._replace(kernel_inclusion=inclusion)
    if not problem.outcome.has_noise:
        return draws
    known, noise = (
        rng.gamma(prior.concentration, 1.0 / prior.rate, size=(1, n_draws, *outputs))
        for prior in (priors.intermediate, priors.noise)
    )
    return draws._replace(intermediate_precision=known, noise_precision=noise)


class CheckedOutput(NamedTuple):
    """One output of a model at the samples that have a target."""

    y: np.ndarray  # (n_samples,)
    replicated: np.ndarray  # (n_draws, n_samples)
    standard_means: np.ndarray  # m / s, (n_draws, n_samples)
    probabilities: np.ndarray | None  # of a positive label, (n_draws, n_samples)
    size: str = "mean |m/s|"  # name of the mean absolute score


def _checks_of_model(
    fitted: FittedBEMKL, model: Evaluated, rng: np.random.Generator, ci_prob: float, no_prior: str | None
) -> list[dict[str, Any]]:
    """Check every output of one model; `no_prior` says why there are no draws from the prior, if so."""
    found: list[dict[str, Any]] = [
        {"posterior": check_output(fitted, k, output, ci_prob)}
        for k, output in enumerate(_outputs(model, rng))
    ]
    if no_prior is not None:
        return [own | {"prior_skipped": no_prior} for own in found]
    n = min(MOST_PRIOR_DRAWS, len(model.flat.intercept))
    prior = Evaluated(model.problem, prior_draws(model.problem, n, rng))
    return [
        own | {"prior": check_output(fitted, k, output, ci_prob, posterior=False)}
        for k, (own, output) in enumerate(zip(found, _outputs(prior, rng), strict=True))
    ]


def _outputs(model: Evaluated, rng: np.random.Generator) -> list[CheckedOutput]:
    """Replicate the targets of all outputs."""
    replicated, kept = model.replicate(rng), model.labeled
    if replicated.ndim == 2:
        replicated = replicated[:, None]
    found = []
    for c, output in enumerate(model.outputs):
        p = None
        if model.is_multinomial:
            p = np.exp(model.log_classes[..., c] - np.logaddexp.reduce(model.log_classes, axis=-1))
        elif not model.is_regression:
            p = output.label_probabilities
        means, p = output.standard_means[:, kept], None if p is None else p[:, kept]
        found.append(CheckedOutput(output.problem.y[kept], replicated[:, c][:, kept], means, p))
    return found


def check_output(
    fitted: FittedBEMKL, k: int, output: CheckedOutput, ci_prob: float, posterior: bool = True
) -> dict[str, dict[str, float]]:
    """Return observed value, quantiles and tail probability of every statistic of an output.

    Parameters
    ----------
    fitted : FittedBEMKL
    k : int
        Number of the output, in the model that it belongs to.
    output : CheckedOutput
    ci_prob : float
        Content of the intervals.
    posterior : bool, default=True
        Whether draws are from the posterior, not from the prior.
    """
    tails = [0.5 - 0.5 * ci_prob, 0.5, 0.5 + 0.5 * ci_prob]
    if output.probabilities is None:
        location, scale = fitted.units(k)
        observed = {name: statistic(output.y[None])[0] for name, statistic in TARGET_STATISTICS.items()}
        drawn = {name: statistic(output.replicated) for name, statistic in TARGET_STATISTICS.items()}
        units = {name: (0.0 if name == "sd" else location, scale) for name in drawn}
    else:
        observed, drawn = _label_statistics(output, output.probabilities, posterior)
        units = dict.fromkeys(drawn, (0.0, 1.0))
    found = {}
    for name, values in drawn.items():
        location, scale = units[name]
        lower, median, upper = (float(location + scale * q) for q in np.quantile(values, tails))
        found[name] = {
            "observed": float(location + scale * observed[name]),
            "lower": lower,
            "median": median,
            "upper": upper,
            "tail_probability": _tail_probability(values, observed[name]),
        }
    return found


def _label_statistics(
    output: CheckedOutput, p: np.ndarray, posterior: bool
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return observed and drawn statistics of labels and scores."""
    positive = output.y > 0
    drawn = {
        "share of the class": output.replicated.mean(axis=1),
        output.size: np.abs(output.standard_means).mean(axis=1),
    }
    observed = {"share of the class": float(positive.mean()), output.size: float("nan")}
    if posterior:  # parameters from the prior have nothing to do with the observed labels
        own, other = (np.where(label, p, 1.0 - p) for label in (positive, output.replicated > 0))
        drawn["log p(y) - log p(y rep)"] = (np.log(own + TINY) - np.log(other + TINY)).sum(axis=1)
        observed["log p(y) - log p(y rep)"] = 0.0
    return observed, drawn


TARGET_STATISTICS = {
    "mean": lambda y: y.mean(axis=1),
    "sd": lambda y: y.std(axis=1),
    "smallest": lambda y: y.min(axis=1),
    "largest": lambda y: y.max(axis=1),
}


def _tail_probability(drawn: np.ndarray, observed: float) -> float:
    """Return the probability of a value at least as far out as the observed one, on its side; NaN without one."""
    if np.isnan(observed):
        return float("nan")
    ties = 0.5 * (drawn == observed).mean()
    return float(min((drawn > observed).mean(), (drawn < observed).mean()) + ties)


def _verdict(own: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the verdict and which statistics are far out."""
    tails = {
        f"{statistic}, {source}": (source, found["tail_probability"])
        for source in ("prior", "posterior")
        for statistic, found in own.get(source, {}).items()
    }
    limits = {"prior": IMPLAUSIBLE, "posterior": UNLIKELY}
    far = [name for name, (source, tail) in tails.items() if tail < limits[source]]
    if any(source == "posterior" and tail < IMPLAUSIBLE for source, tail in tails.values()):
        return "bad", far
    return ("caution" if far else "good"), far


def _advice(verdict: str, far: list[str]) -> str:
    if verdict == "good":
        return (
            "Targets drawn from the fitted model look like the observed ones, and the prior allows for them."
        )
    where = f"Far out in what the model makes: {'; '.join(far)}."
    if verdict == "caution":
        return (
            f"{where} Look at it: a target that needs a transform (logarithm), outliers, or priors that do not fit "
            "the scale of the kernels (normalize them)."
        )
    return (
        f"{where} Look for outliers or a target that needs a transform; add kernels that can follow the data. Do not "
        "read much into the posterior before."
    )
