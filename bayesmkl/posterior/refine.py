"""Samplers that a variational posterior has: Gibbs chains that must agree, and NumPyro's program of the model."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.options import NUTS, VB, Gibbs
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_integer, generator_of
from bayesmkl._utils.warnings import warn_user
from bayesmkl.bemkl.ascent import Agreement, Fit, check_can_sample, gibbs_start
from bayesmkl.bemkl.base import FitTask
from bayesmkl.bemkl.draws import PosteriorDraws, align_signs, draw_precisions, score_means, share_of_each
from bayesmkl.bemkl.gibbs import Chains, GibbsState, fit_in_rounds
from bayesmkl.bemkl.nonnegative import NonnegativeReadout
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array
from bayesmkl.posterior.checks import why_no_prior_draws
from bayesmkl.posterior.evaluated import convergence
from bayesmkl.posterior.fitted import ABSENT, FittedBEMKL, fitted_bemkl, public, same_targets
from bayesmkl.posterior.tables import kernel_table

PLURALS = {"class": "classes", "label": "labels", "output": "targets"}
# Of shares. Runs on similar kernels that passed 1.05 and 100 were up to 3 of their standard errors apart.
LARGEST_RHAT, LEAST_ESS = 1.03, 200.0
TILT = 1.0  # standard deviation of the logarithm by which each kernel weight of a start is off


@public
def refine_posterior(
    model: BaseEstimator,
    n_draws: int = 250,
    *,
    n_chains: int = 4,
    max_sweeps: int = 4000,
    kernels: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Any:
    r"""Replace a variational posterior by draws of Gibbs chains that start around it, and check whether they agree.

    The standard deviations of kernel shares under the variational posterior are a half to a tenth of what they should
    be. A Gibbs sweep costs as much as one variational update. Chains start dispersed and run in rounds until they
    agree on the kernel shares. If they do not agree after `max_sweeps`, a warning says so.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted with ``inference="vb"``, or a Pipeline or search that ends in one.
    n_draws : int, default=250
        Number of draws to keep of each chain, at least 10, at even distances in the last round.
    n_chains : int, default=4
        Number of chains, at least 2.
    max_sweeps : int, default=4000
        Maximum number of sweeps of each chain, at least twice `n_draws`. The first `n_draws` sweeps are warm-up.
        Every round has as many sweeps as all rounds before it, which become its warm-up.
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, if the model was fitted to precomputed kernels.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    estimator
        A copy of the fitted BEMKL estimator whose `posterior_`, kernel shares and weights come from the draws. All
        its methods, tables and plots use the draws, and its `inference` is a ``Gibbs``. `converged_` says whether the
        chains agree; if not, tables print "gibbs (not converged)". `model` itself stays unchanged.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `model` was not fitted with ``inference="vb"``, its kernels were precomputed and are not given, or numbers
        of draws, chains or sweeps are too small. Also if the model cannot be sampled: with a sparse prior, kernel
        weights that are shared by several outputs or not negative, unlabeled samples or missing views. The message
        says what to use instead.
    KeyboardInterrupt
        If it is interrupted before every chain has draws; later interrupts keep the last finished round.

    Warns
    -----
    ConvergenceWarning
        Once, if the chains do not agree after `max_sweeps`, or were interrupted.

    See Also
    --------
    diagnose : Further checks of the draws.
    bayesmkl.gp.GPMKLClassifier : A model with independent draws instead of chains.

    Notes
    -----
    Chains agree when the largest rank-normalized split :math:`\hat R` of all kernel shares is at most 1.03, and the
    smallest bulk or tail effective sample size is at least 200. Means are then accurate, and ends of intervals
    roughly so; the tables have the Monte Carlo standard errors of both. The size of the score mixes more slowly than
    the shares; :func:`diagnose` shows how slowly. (The share of a single kernel is always one, so the scores must
    agree instead.)

    With a few dozen samples and kernels that differ, a few hundred sweeps are enough. With hundreds of samples, or
    with similar kernels, chains do not converge in reasonable time, because sample weights and kernel weights depend
    strongly on each other. In this case fit `GPMKLClassifier` or `GPMKLRegressor`, which integrate functions out. All
    4000 sweeps of four chains take about ten seconds of processor time on 60 samples with four kernels, and 80
    seconds on 398 samples with six.

    Each chain starts at a draw from the variational posterior whose kernel weights are multiplied by independent
    log-normal factors. Chains thus start at shares as different as the prior allows, and at scores of the right size.
    A terminal shows the progress of runs that take over five seconds, unless the model has ``verbose=0``.

    References
    ----------
    A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import refine_posterior
    >>> X, noise = np.random.default_rng(0).normal(size=(30, 2)), np.random.default_rng(1).normal(size=30)
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> model = BEMKLRegressor(bank).fit(X, X[:, 0] + noise)
    >>> refined = refine_posterior(model, n_draws=80, random_state=0)
    >>> refined.converged_, bool((refined.kernel_shares_std_ > model.kernel_shares_std_).all())
    (True, True)
    """
    has_draws = "whose draws are the posterior already. Leave it as it is."
    fitted = fitted_bemkl(model, no_process=has_draws, of_outcome=False)
    estimator = fitted.estimator
    if not isinstance(estimator._inference(), VB):
        raise ValueError(
            '`model` must be fitted with inference="vb", whose intervals are too narrow; '
            f"got inference={estimator.inference!r}, whose draws are the posterior already."
        )
    n_draws, n_chains = check_integer("n_draws", n_draws, low=10), check_integer("n_chains", n_chains, low=2)
    max_sweeps = check_integer("max_sweeps", max_sweeps, low=1)
    if max_sweeps < 2 * n_draws:
        raise ValueError(
            f"`max_sweeps` must be at least twice `n_draws`, for as long a warm-up; got max_sweeps={max_sweeps} and "
            f"n_draws={n_draws}."
        )
    reason = why_not_refined(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be refined by Gibbs sampling: {reason}")
    rng = generator_of("random_state", random_state)
    stack = fitted.training_stack(kernels)
    task = FitTask(estimator._problems(stack), stack, estimator.target_, len(fitted.states) > 1)
    for problem in task.problems:
        check_can_sample(problem, 'inference="gibbs"')
    fits: list[Fit] = []
    n_warmup = 0
    for problem, state, name in zip(task.problems, fitted.states, fitted.model_names, strict=True):
        with step_progress(estimator.verbose > 0, name, n_chains * max_sweeps, "sweep") as report:
            starts = [_dispersed(gibbs_start(state, problem, rng), rng) for _ in range(n_chains)]
            enough = partial(_is_enough, problem)
            rounds = fit_in_rounds(problem, starts, n_draws, max_sweeps, rng, enough, report)
            draws = align_signs(PosteriorDraws(**rounds.chains.parameters))
            agreement, stats = _agreement(problem, draws), rounds.chains.stats
            outcome = Outcome.MIXED if _agree(agreement) else Outcome.NOT_MIXED
            outcome = Outcome.INTERRUPTED if rounds.chains.interrupted else outcome
            drawn = draw_precisions(draws, problem.priors, rng)
            fits.append(Fit(drawn, outcome, draws.n_draws, stats=stats, agreement=agreement))
        n_warmup = max(n_warmup, rounds.n_warmup)
        if outcome is Outcome.INTERRUPTED and len(fits) < len(task.problems):
            raise KeyboardInterrupt
    options = Gibbs(n_chains=n_chains, n_warmup=n_warmup, n_draws=n_draws)
    refined = copy.deepcopy(estimator).set_params(inference=options)
    refined._store(task, fits)
    advice = _advice(fits, options, f'Fit {_process(fitted)} or inference="nuts"')
    if advice is not None:
        warn_user(advice, ConvergenceWarning)
    return refined


def _dispersed(start: GibbsState, rng: np.random.Generator) -> GibbsState:
    """Multiply every kernel weight of a start by a factor of its own."""
    readout = start.readout.copy()
    readout[1:] *= np.exp(TILT * rng.standard_normal(len(readout) - 1))
    return start._replace(readout=readout)


def _is_enough(problem: Any, chains: Chains) -> bool:
    return _agree(_agreement(problem, PosteriorDraws(**chains.parameters)))


def _agreement(problem: Any, draws: PosteriorDraws) -> Agreement:
    """Return the largest rank-normalized R-hat and the smallest ESS of shares; of the scores of a single kernel."""
    flat = draws.flat()
    alone = problem.stack.n_kernels == 1
    values = score_means(problem.stack, flat) if alone else share_of_each(problem.stack, flat)
    found = convergence(values.reshape(draws.n_chains, draws.n_draws, -1))
    return Agreement(found["rhat"], min(found["ess_bulk"], found["ess_tail"]), 0.0)


def _agree(agreement: Agreement) -> bool:
    return agreement.rhat <= LARGEST_RHAT and agreement.ess >= LEAST_ESS


def _advice(fits: list[Fit], options: Gibbs, instead: str) -> str | None:
    """Return what to do about chains that were interrupted or do not agree, or None."""
    agreements = [fit.agreement for fit in fits if fit.agreement is not None]
    rhat, ess = max(own.rhat for own in agreements), min(own.ess for own in agreements)
    numbers = (
        f"the largest R-hat is {rhat:.2f} (at most {LARGEST_RHAT}), and the smallest effective sample size {ess:.0f} "
        f"(at least {LEAST_ESS:.0f})"
    )
    if fits[-1].outcome is Outcome.INTERRUPTED:
        return (
            f"refine_posterior was interrupted and kept {options.n_draws} draws of each chain after "
            f"{options.n_warmup} sweeps: {numbers}."
        )
    if all(fit.outcome.converged for fit in fits):
        return None
    return (
        f"refine_posterior did not get there: after {2 * options.n_warmup} sweeps of each its {options.n_chains} "
        f"chains do not agree on kernel shares: {numbers}. Intervals still depend on the seed. {instead}, or "
        "increase `max_sweeps`."
    )


def _process(fitted: FittedBEMKL) -> str:
    """Return the additive Gaussian process of the same targets."""
    return fitted.process or ("GPMKLClassifier" if fitted.is_classifier else "GPMKLRegressor")


def why_not_sampled(fitted: FittedBEMKL) -> str | None:
    """Say what of a variational posterior no sampler has, and what to do instead; None if NUTS has it."""
    state = fitted.states[0]
    if fitted.is_drawn:
        return None
    if getattr(state.intermediate, "absent", None) is not None:
        return ABSENT
    if isinstance(state.readout, NonnegativeReadout):
        return (
            "its kernel weights are not negative. Fit with `nonnegative=False`, or sample weights on the simplex by "
            'inference="nuts" with kernel_prior="dirichlet".'
        )
    if not fitted.labeled.all():
        return "some of its samples are unlabeled. Fit it to the labeled ones, or read labels off `transduction_`."
    if fitted.is_multinomial:
        return 'its classes compete. Fit GPMKLClassifier, or with multiclass="shared" and inference="nuts".'
    return None


def why_not_refined(fitted: FittedBEMKL) -> str | None:
    """Say what of a variational posterior Gibbs sampling does not have, and what to do instead; None if it can."""
    reason = why_not_sampled(fitted)
    if reason is not None or fitted.output_names is None or fitted.class_names is not None:
        return reason
    alone = "a model for every target."
    if fitted.is_classifier:
        alone = 'with multiclass="one-versus-all", where each has a model of its own.'
    return (
        f"its {PLURALS[fitted.output_kind]} share the kernel weights. Fit {_process(fitted)}, or with "
        f'inference="nuts", or {alone}'
    )


def valid_intervals(fitted: FittedBEMKL) -> str:
    """Say what gives intervals that can be read."""
    reason = why_not_sampled(fitted)
    if reason is not None:
        return f"No sampler has this model: {reason}"
    best, which = f'{_process(fitted)} or inference="nuts"', "gives intervals that can be read"
    if fitted.process is not None:
        return f"{fitted.process} {which}."
    if why_no_prior_draws(fitted.problems_without_kernels()[0].priors) is not None:
        return (
            f'{_process(fitted)}, or a prior that can be sampled ("nonsparse") and inference="nuts", {which}.'
        )
    if why_not_refined(fitted) is not None:
        return f"{best} {which}."
    return f"{best} {which}, and so does `refine_posterior(model)` where its chains agree."


SHOWN = ("class", "kernel", "view", "share", "share_std")  # columns of kernel_table


class TwinCheck(NamedTuple):
    """Result of :func:`check_twin`.

    Parameters
    ----------
    bound : float
        Evidence lower bound of the model in closed form, in nats: its `elbo_`.
    estimate, standard_error : float
        Monte Carlo estimate of this bound under the NumPyro program, and its standard error.
    shares : pandas.DataFrame of shape (n_kernels, n_columns)
        Shares of the model as in :func:`kernel_table`, ``share`` and ``share_std``, beside those of NUTS,
        ``nuts_share`` and ``nuts_share_std``.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.posterior.refine import TwinCheck
    >>> TwinCheck(-77.0, -76.5, 0.25, pd.DataFrame()).deviation
    2.0
    """

    bound: float
    estimate: float
    standard_error: float
    shares: pd.DataFrame

    @property
    def deviation(self) -> float:
        """Standard errors between the bound and its estimate; more than three are a sign of an error."""
        return abs(self.estimate - self.bound) / self.standard_error


@public
def check_twin(
    model: BaseEstimator,
    X: Samples,
    y: Targets,
    *,
    n_particles: int = 1024,
    nuts: NUTS | None = NUTS(),  # noqa: B008
    random_state: int = 0,
) -> TwinCheck:
    """Check a variational posterior against the same model as a NumPyro program.

    The program states the generative model of the paper, with one sample site per variable. The posterior is a guide
    made of NumPyro's own densities. Neither shares a formula with the closed-form bound.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted with ``inference="vb"``, or a Pipeline or search that ends in one;
        of one output, or of several classes with ``multiclass="one-versus-all"``.
    X, y : samples and targets
        The samples and targets that the model was fitted to.
    n_particles : int, default=1024
        Number of draws from the posterior for the estimate, at least 2.
    nuts : NUTS or None, default=NUTS()
        Options of the NUTS fit to `X` and `y` that gives the shares to compare with. None leaves it out.
    random_state : int, default=0
        Seed of the draws and the chains.

    Returns
    -------
    TwinCheck
        ``bound``, ``estimate``, ``standard_error`` and ``shares``. The bound should be within three standard errors
        of the estimate. Shares of NUTS come from the exact posterior and usually have larger standard deviations.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `model` was not fitted with ``inference="vb"`` or has no such program, or was fitted to another `X` or `y`.

    See Also
    --------
    diagnose : Whether a posterior can be trusted.
    refine_posterior : Chains that start around a variational posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import check_twin
    >>> X = np.random.default_rng(0).normal(size=(12, 2))
    >>> model = BEMKLRegressor(KernelBank(["linear"], views="each")).fit(X, X[:, 0])
    >>> found = check_twin(model, X, X[:, 0], nuts=None)
    >>> bool(found.deviation < 3), found.shares.columns.tolist()
    (True, ['kernel', 'view', 'share', 'share_std'])
    """
    n_particles = check_integer("n_particles", n_particles, low=2)
    random_state = check_integer("random_state", random_state, low=0)
    fitted = fitted_bemkl(model, no_process="which has no such bound.", of_outcome=False)
    if not isinstance(fitted.estimator._inference(), VB):
        raise ValueError(
            f'`model` must be fitted with inference="vb", which has a bound; got inference={fitted.inference!r}.'
        )
    reason = why_not_refined(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be compared with its NumPyro program: {reason}")
    rows: Any = fitted.transform(X)
    _check_same(fitted, rows, y)
    estimate, variance = _estimate(fitted, rows, n_particles, random_state)
    table = kernel_table(fitted.estimator, shares=True)
    shares = table.drop(columns=[name for name in table if name not in SHOWN])
    if nuts is not None:
        chains = clone(fitted.estimator).set_params(inference=nuts, random_state=random_state).fit(rows, y)
        of_chains = rows if fitted.estimator.kernel_bank_ is None else None
        found = kernel_table(chains, shares=True, kernels=of_chains)
        keys = [name for name in ("class", "kernel") if name in shares]
        own = found[[*keys, "share", "share_std"]].rename(
            columns=lambda name: name.replace("share", "nuts_share")
        )
        shares = shares.merge(own, on=keys)
    return TwinCheck(float(fitted.estimator.elbo_), estimate, float(np.sqrt(variance)), shares)


def _estimate(fitted: FittedBEMKL, X: Any, n_particles: int, seed: int) -> tuple[float, float]:
    """Return the estimated bounds of all models together, and the variance of this estimate."""
    from bayesmkl.posterior.guide import elbo_particles

    kernels = X if fitted.estimator.kernel_bank_ is None else None
    stack = DenseStack(stored_array(fitted.training_stack(kernels)))
    estimate = variance = 0.0
    for problem, state in zip(fitted._problems_over(stack), fitted.states, strict=True):
        particles = elbo_particles(problem, state, n_particles, seed)
        estimate += float(particles.mean())
        variance += float(particles.var(ddof=1)) / n_particles
    return estimate, variance


def _check_same(fitted: FittedBEMKL, X: Samples, y: Targets) -> None:
    """Raise unless samples and targets are those of the fit."""
    bank, estimator = fitted.estimator.kernel_bank_, fitted.estimator
    same = same_targets(np.asarray(y, dtype=None if fitted.is_classifier else float), fitted.target)
    if same and bank is not None:
        same = np.array_equal(estimator._validate_rows(X), bank.X_train_, equal_nan=True)
    if not same:
        raise ValueError(
            "`X` and `y` must be the samples and targets that `model` was fitted to, in the same order; got others. "
            "Pass what `fit` got."
        )
