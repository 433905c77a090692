r"""Leave-one-out predictive accuracy of a model, and comparison of models by it.

How samples are left out depends on the posterior. Draws of all weights of BEMKL are weighted, by Pareto smoothed
importance sampling (PSIS-LOO): by :math:`1 / p(y_i \mid a, b, e)`, draws from a variational posterior by
:math:`p / q` on top (Magnusson et al. 2019). The collapsed model has a weight of its own for every
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

Of additive Gaussian processes the score of a sample given all others is its cavity, given hyperparameters: no weights
are needed there. What is left are the hyperparameters, whose posterior without sample i weighs each of their points
by :math:`1 / \hat Z_i` (Vehtari et al. 2016, Bayesian leave-one-out cross-validation approximations for Gaussian
latent variable models, JMLR 17). These weights have k-hats of their own. Most of them hardly vary, as one sample of
many says little of a few numbers, and then the shape of their tail means nothing.

So it is in sampled BEMKL models with sample weights integrated out: given draws of e, of the noise and of the
precisions λ and γ, the training scores are a Gaussian process with the covariance
:math:`K_e \Lambda^{-1} K_e^\top + \sigma_g^2 e^\top e\, I + \gamma^{-1} 1 1^\top`. Reweighting draws of the weights
`a` themselves, of which every training sample has one, fails for most samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.validation import check_choice, check_integer, generator_of, shown
from bayesmkl._utils.warnings import holding_back
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.gp.conditioning import Sites, cavity
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.reading import HyperDraws, average_left_out
from bayesmkl.outcomes import Gaussian, Probit
from bayesmkl.outcomes.base import Likelihood, copies_of, repeated
from bayesmkl.posterior.evaluated import Evaluated, evaluate_model
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, same_targets

if TYPE_CHECKING:
    import pandas as pd

EVEN = 0.9  # part of the draws that are effective under weights which hardly vary
N_POINTS = 200  # draws that are looked at: one factorization or, of labels, about ten for each
TOL = 1e-2  # of the sites, in standard deviations of a score
METHODS = ("stacking", "BB-pseudo-BMA", "pseudo-BMA")
FEWEST_DRAWS = 100


@own_settings
def compare_loo(
    models: Mapping[str, Any],
    method: str = "stacking",
    *,
    kernels: Mapping[str, ArrayLike] | None = None,
    n_draws: int = 1000,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Compare models of the same samples by leave-one-out predictive accuracy.

    Parameters
    ----------
    models : mapping of str to estimator
        At least two fitted models by name, each of BEMKL or an additive Gaussian process. They may differ in kernels,
        priors, margin and inference, and in how they model several classes or targets.
    method : {"stacking", "BB-pseudo-BMA", "pseudo-BMA"}, default="stacking"
        How the column ``weight`` is found, see ``arviz_stats.compare``.
    kernels : mapping of str to array-like of shape (n_samples, n_samples, n_kernels), default=None
        Training kernels, by the name of the model, for models that were fitted to precomputed kernels.
    n_draws : int, default=1000
        Draws in each chain, see :func:`diagnose`.
    random_state : int, default=None
        Seed of the draws from variational posteriors.

    Returns
    -------
    pandas.DataFrame
        A row per model, the best first, with the columns of ``arviz_stats.compare``: ``rank``, ``elpd`` (nats, higher
        is better), ``se``, ``elpd_diff``, ``dse``, ``weight`` and more, depending on the version of ArviZ. It also
        has ``bad_k``, the number of samples whose k-hat is too large to trust the elpd, and ``inference``.

    Raises
    ------
    TypeError
        For any other models; for multitask models too.
    NotFittedError
        Before `fit`.
    ValueError
        If there are fewer than two models, or their targets differ.

    Notes
    -----
    In classification, the probability of the label is scored given that the sample has a label, so that models with
    different margins can be compared. With several labels or targets, the joint probability of a sample is scored.
    Unlabeled samples are not scored. Draws of "vb" are corrected by the rule of
    ``arviz_stats.loo_approximate_posterior``. The rule needs a variational posterior close to the exact one; mostly
    all of their samples count as ``bad_k``. If a decision is close, fit with "nuts" or compare by cross-validation.
    Additive Gaussian processes ("marginal") leave function values out exactly, given hyperparameters; their k-hats
    are those of the hyperparameters.

    References
    ----------
    Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC. Statistics and Computing 27.

    Magnusson, M. et al. (2019). Bayesian leave-one-out cross-validation for large data. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import compare_loo
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> models = {name: BEMKLRegressor(KernelBank([name])).fit(X, y) for name in ("linear", "rbf")}
    >>> compare_loo(models, random_state=0).index.tolist()
    ['rbf', 'linear']
    """
    from arviz_stats import compare

    check_choice("method", method, METHODS)
    n_draws = check_integer("n_draws", n_draws, low=FEWEST_DRAWS)
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            f"`models` must be a mapping of names to at least two fitted models; got {shown(models)}."
        )
    kernels = {} if kernels is None else kernels
    if not isinstance(kernels, Mapping) or not set(kernels) <= set(models):
        raise ValueError(
            f"`kernels` must be a mapping of names in `models` to their training kernels; got {shown(kernels)}."
        )
    each, found = {}, {}
    for name, model in models.items():
        each[name], rng = fitted_bemkl(model, of_outcome=False), generator_of("random_state", random_state)
        found[name] = leave_each_out(each[name], n_draws, rng, kernels.get(name))
    _check_same({name: fitted.target for name, fitted in each.items()})
    results = {name: _elpd_data(own) for name, own in found.items()}
    exact = {"round_to": "none"} if "round_to" in signature(compare).parameters else {}  # since ArviZ 1
    with holding_back(Warning):  # what ArviZ warns of, `bad_k` says
        frame = compare(results, method=method, **exact)
    frame["bad_k"] = [found[name].n_bad for name in frame.index]
    frame["inference"] = [each[name].inference for name in frame.index]
    return frame


class LeaveOneOut(NamedTuple):
    """Predictions of every labeled training sample by the posterior of the others."""

    elpd_i: np.ndarray  # log probability of the own label, or log density of the own target; (n_samples,)
    lpd_i: np.ndarray  # the same with the sample left in
    margin_elpd: float  # sum of log P(y_i f_i > ν), over one-versus-all models too; NaN in regression
    pareto_k: np.ndarray  # (n_samples,), the largest of all models
    good_k: float
    log_probabilities: np.ndarray | None  # (n_samples, n_classes) in classification, or of having each label
    # P(target below the own one) in regression, (n_samples,) or (n_samples, n_outputs)
    pit: np.ndarray | None
    approximate: bool  # whether the draws were corrected for being those of a variational posterior
    # whether weights are of hyperparameters alone, function values being left out exactly
    by_cavities: bool = False

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


def leave_one_out_by_cavities(fitted: FittedBEMKL) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    fitted.refuse_landmarks("leave-one-out predictions, but for their log densities in `elpd_i_`")
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    targets = estimator._targets_of_outputs()
    moments = draws.cavity_mean, draws.cavity_variance
    left_out = taken_out = log_predictive_of_points(fitted, *moments)
    copies = 1.0
    if estimator.sample_weight_ is not None:
        likelihood, weighed = repeated(estimator.likelihood_, targets, estimator.sample_weight_)
        taken_out = log_normalizers(likelihood, weighed, *moments, draws.parameters)
        copies = copies_of(likelihood, weighed[0])
    left = average_left_out(draws.probability, left_out, estimator._power(targets) * taken_out)
    precision = 1.0 / draws.cavity_variance
    variance = 1.0 / (precision + draws.site_precision / copies)
    mean = variance * (precision * draws.cavity_mean + draws.site_linear / copies)
    left_in = log_predictive_of_points(fitted, mean, variance)
    each = logsumexp(left_in, b=draws.probability[:, None, None], axis=0)
    joint = logsumexp(left_in.sum(axis=1), b=draws.probability[:, None], axis=0)
    log_probabilities = pit = None
    if fitted.is_classifier:
        log_probabilities = estimator._log_classes(targets, left.each)
    elif fitted.outcome == "numbers":
        pit = _pit_cavities(estimator.likelihood_, draws, targets, np.exp(left.log_weights))
    elif fitted.outcome == "grades":
        each = draws.cavity_mean[:, 0], draws.cavity_variance[:, 0], draws.parameters[:, 0]
        log_probabilities = estimator._log_probabilities(*each, left.log_weights)
    return LeaveOneOut(
        estimator._counted(estimator._log_predictive(targets, left.each, left.joint)),
        estimator._counted(estimator._log_predictive(targets, each, joint)),
        float("nan"),
        _pareto_k(-taken_out.sum(axis=1)[draws.point].T),
        good_k(draws.n_draws),
        log_probabilities,
        pit,
        approximate=False,
        by_cavities=True,
    )


def log_predictive_of_points(fitted: FittedBEMKL, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the log density of every target whose score is normal, point by point.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    mean, variance : ndarray of shape (n_points, n_outputs, n_samples)
        Of the scores.

    Returns
    -------
    ndarray of shape (n_points, n_outputs, n_samples)
    """
    estimator: Any = fitted.estimator
    moments = mean, variance, fitted.states[0].parameters
    return log_normalizers(estimator.likelihood_, estimator._targets_of_outputs(), *moments)


def log_normalizers(likelihood: Likelihood, targets: np.ndarray, *moments: np.ndarray) -> np.ndarray:
    """Return log densities of targets whose scores are normal, `of_points`."""
    return of_points(lambda *one: likelihood.tilted(*one).log_normalizer, targets, *moments)


def of_points(say: Callable[..., np.ndarray], targets: np.ndarray, *moments: np.ndarray) -> np.ndarray:
    """Return what a likelihood says of targets whose scores are normal, point by point.

    Parameters
    ----------
    say : callable
        Of the targets of one output, mean and variance of the scores, and parameters.
    targets : ndarray of shape (n_outputs, n_samples) or (n_outputs, n_fields, n_samples)
    *moments : ndarrays
        Means and variances of the scores, (n_points, n_outputs, n_samples), and parameters, (n_points, n_outputs,
        n_parameters).

    Returns
    -------
    ndarray of shape (n_points, n_outputs, n_samples)
    """
    points = zip(*moments, strict=True)
    return np.array([[say(*one) for one in zip(targets, *each, strict=True)] for each in points])


def _pareto_k(log_ratios: np.ndarray) -> np.ndarray:
    """Return k-hat of the weights of draws, (n_samples, n_draws); zero where as good as all draws stay effective."""
    raw = np.exp(log_ratios - logsumexp(log_ratios, axis=1, keepdims=True))
    uneven = 1.0 / (raw**2).sum(axis=1) < EVEN * raw.shape[1]
    found = np.zeros(len(raw))
    if uneven.any():
        found[uneven] = smooth_weights(log_ratios[uneven])[1]
    return found


def _pit_cavities(likelihood: Any, draws: HyperDraws, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return P(target below the own one), (n_samples,) or (n_samples, n_outputs)."""
    each = of_points(likelihood.cdf, targets, draws.cavity_mean, draws.cavity_variance, draws.parameters)
    below = np.clip((weights[:, None] * each).sum(axis=0), 0.0, 1.0)
    return below[0] if len(below) == 1 else below.T


def leave_one_out_of_draws(fitted: FittedBEMKL, problems: list[Any]) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others; what the samples left in say is not found.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of the inference "nuts" or "gibbs".
    problems : list
        Its problems, over dense training kernels.
    """
    models = []
    for problem, draws in zip(problems, fitted.states, strict=True):
        models.append(Evaluated(problem, _few(draws)))
        with blas_threads_for(problem.y.shape[-1]):
            for output in models[-1].outputs:
                output._scores = _cavities(output)
    return leave_one_out(fitted, models)


def _few(draws: PosteriorDraws) -> PosteriorDraws:
    """Take draws at even distances, as one chain."""
    flat = draws.flat()
    chosen = evenly(len(flat.intercept), N_POINTS)
    return flat.map(lambda values: values[None, chosen])


def _cavities(output: Evaluated) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of left-out scores, noise included, each of shape (n_draws, n_samples)."""
    problem, draws = output.problem, output.flat
    sites: Sites | None = None
    means = np.empty((len(draws.intercept), problem.y.shape[-1]))
    scales = np.empty_like(means)
    for t, weights in enumerate(draws.kernel_weights):
        mixed = problem.stack.combine(weights) / np.sqrt(draws.sample_precision[t])
        intercept = 1.0 / draws.intercept_precision[t]
        covariance, square = mixed @ mixed.T + intercept, float(weights @ weights)
        if output.is_regression:
            noise = 1.0 / draws.noise_precision[t] + square / draws.intermediate_precision[t]
            found = exact_evidence(Gaussian(), problem.y, covariance, np.sqrt([noise]))
        else:
            noise = 1.0
            covariance = plus_diagonal(covariance, square / problem.intermediate_precision)
            found = ep_evidence(
                Probit(float(problem.outcome.margin)), problem.y, covariance, np.empty(0), sites, tol=TOL
            )
            sites = found.sites if found.converged else None
        left = cavity(found.posterior, found.sites)
        means[t], scales[t] = left.mean, np.sqrt(1.0 / left.precision + noise)
    return means, scales


def leave_each_out(
    fitted: FittedBEMKL, n_draws: int, rng: np.random.Generator, kernels: ArrayLike | None = None
) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others, in the way that the model has.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int
        Draws in each chain, see `FittedBEMKL.draws`; not used of additive Gaussian processes.
    rng : numpy.random.Generator
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.
    """
    if fitted.is_marginal:
        fitted.refuse_kernels(kernels)
        return leave_one_out_by_cavities(fitted)
    return leave_one_out(fitted, *evaluate_model(fitted, n_draws, rng, kernels))


def _elpd_data(found: LeaveOneOut) -> Any:
    """Wrap a result as ArviZ's own, which `compare` takes."""
    from arviz_base import from_dict
    from arviz_stats import loo
    from xarray import DataArray

    shape = (1, FEWEST_DRAWS, len(found.elpd_i))  # of likelihoods, of which nothing is kept
    tree = from_dict(
        {"posterior": {"b": np.zeros(shape[:2])}, "log_likelihood": {"y": np.zeros(shape)}},
        dims={"y": ["obs_id"]},
    )
    even = tree["log_likelihood/y"] - np.log(FEWEST_DRAWS)
    pareto_k = DataArray(found.pareto_k, dims=["obs_id"], coords={"obs_id": tree["log_likelihood"].obs_id})
    with holding_back(Warning):  # `warning` says what ArviZ would
        template = loo(tree, pointwise=True, log_weights=even, pareto_k=pareto_k, reff=1.0)
    return dataclasses.replace(
        template,
        elpd=found.elpd,
        se=found.standard_error,
        p=float((found.lpd_i - found.elpd_i).sum()),
        elpd_i=template.elpd_i.copy(data=found.elpd_i),
        good_k=found.good_k,
        warning=found.n_bad > 0,
    )


def _check_same(targets: dict[str, np.ndarray]) -> None:
    (first, expected), *others = targets.items()
    for name, target in others:
        if not same_targets(target, expected):
            raise ValueError(
                f"`models` must be fitted to the same samples in the same order; the targets of {name!r} differ from "
                f"those of {first!r}. Fit both to the same training set."
            )
