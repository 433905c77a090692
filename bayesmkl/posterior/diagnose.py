"""Diagnosis of a fitted posterior in one call: how its draws were made, what they say, and whether that comes true.

A variational posterior q is judged by its importance ratios p / q over all weights of the collapsed model. They are
heavy-tailed where q is too narrow: for a normal p that is τ times as wide as a normal q in some direction, the shape
k of their tail tends to 1 - 1 / τ²; 0.7 stands for τ = 1.8. In many dimensions small errors add up (k = 2.1 to 2.7
over three seeds on 100 samples of the Wisconsin breast cancer data): a large k says that weighting draws cannot
repair q, not that marginals are wrong.

How the shares of a sampled model move with its priors is power-scaling in ArviZ:
``arviz_stats.psense_summary(to_datatree(model))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata
from sklearn.base import BaseEstimator

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_integer, check_probability, generator_of
from bayesmkl.bemkl.ascent import DIVERGENT, ESS, RHAT
from bayesmkl.bemkl.selection import MOST_ENTRIES
from bayesmkl.gp import hyperposterior as hyper
from bayesmkl.kernels.functions import Gaussian, Linear, Overlap
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.posterior import checks
from bayesmkl.posterior.evaluated import Evaluated, convergence, evaluate_model
from bayesmkl.posterior.explained import noise_variances
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.loo import LeaveOneOut, leave_one_out, leave_one_out_by_cavities
from bayesmkl.posterior.refine import PLURALS, valid_intervals, why_not_sampled
from bayesmkl.posterior.relevance import AGAINST, LARGE, PREDICTS, ProcessRefits, relevance, why_no_refits
from bayesmkl.posterior.tables import kernel_table

FEWEST_DRAWS = 100
DESCRIPTIONS = {
    "vb": "variational",
    "nuts": "NUTS",
    "gibbs": "Gibbs sampling",
    "marginal": "everything integrated out but kernel weights and noise",
}
BAD_RHAT, BAD_ESS, BAD_DIVERGENT = 1.05, 100.0, 0.05  # of chains
LOW_BFMI = 0.3
IDENTIFIED = ("kernel shares", "training scores m/s", "class probabilities")
RAW = "raw weights (b, e)"
ALL_WEIGHTS = "all weights (a, b, e)"
WHY_RAW = (
    "Raw weights are known up to a sign, which the draws have aligned, and, weakly, a scale (c a, e / c) with heavy "
    "tails: they may mix worse than what they make together, and nothing that you read depends on it."
)
GOOD_RHAT, GOOD_ESS = 1.01, 100.0  # of chains of hyperparameters
GOOD_ERROR, LARGEST_ERROR = 0.02, 0.05  # Monte Carlo errors of the ends of intervals of shares
MOST_ROWS = 8
LARGEST_REFIT = 1000  # training samples for which a fit without kernels takes seconds
LARGEST_CAVITIES = 500  # and two hundred Gaussian processes
LARGEST_WIDTHS, MOST_WIDTHS = 400, 20  # targets and columns of numbers for which widths take seconds
N_PERMUTED = 999  # random orders of the residuals
RARE = 0.01  # how often spread that is equal is called unequal
NOT_JUDGED = {  # outcomes whose calibration is judged elsewhere
    "counts": "Counts are discrete: their places in distributions are not uniform. Compare `elpd` of likelihoods.",
    "times": "Censored times are not known, so nobody can count how often intervals hold them. Compare predicted "
    "with observed survival of held-out rows by `bayesmkl.evaluation.survival_calibration`.",
}
# By models: the posterior that was examined, and the call that would predict better, if there is one.
ADVICE: WeakKeyDictionary[BaseEstimator, tuple[Any, str]] = WeakKeyDictionary()
AGAINST_NARROW = "Add kernels that can follow the data, or look for outliers."


class Diagnosis(dict):
    """Result of :func:`diagnose`: a dictionary of sections, each a dictionary of results, that prints as a report.

    Sections are ``sampling`` ("nuts", "gibbs", "marginal") or ``importance`` ("vb"), ``signal``, ``loo``,
    ``checks`` and ``calibration``; each has a ``verdict`` ("good", "caution", "bad" or "skipped")
    and an ``advice``. With more than two classes, or several labels or targets, the numbers of `checks` are under the
    name of each; so are those of `sampling` and `importance` where each has kernel weights of its own.
    Additive Gaussian processes also have ``shares``.

    Parameters
    ----------
    title : str
        Title of the report.
    about : sequence of str
        First lines of the report.
    sections : sequence of Section
        Key, numbers, lines of the report, verdict and advice of each section.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import diagnose
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> found = diagnose(BEMKLRegressor(KernelBank(["linear"])).fit(X, X[:, 0]), n_draws=100, random_state=0)
    >>> list(found)
    ['importance', 'signal', 'loo', 'checks', 'calibration']
    >>> found.verdicts["loo"] == found["loo"]["verdict"]
    True
    """

    def __init__(self, title: str, about: Sequence[str], sections: Sequence[checks.Section]) -> None:
        super().__init__(
            {
                section.key: section.values | {"verdict": section.verdict, "advice": section.advice}
                for section in sections
            }
        )
        self._report = (title, tuple(about), tuple(sections))

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict of each section."""
        return {key: values["verdict"] for key, values in self.items()}

    @property
    def sections(self) -> tuple[checks.Section, ...]:
        """Sections of the report, each with its lines, verdict and advice."""
        return self._report[2]

    def __str__(self) -> str:
        return checks.render(*self._report)

    __repr__ = __str__


@public
def diagnose(
    model: BaseEstimator,
    X_test: Samples | None = None,
    y_test: Targets | None = None,
    *,
    kernels: ArrayLike | None = None,
    n_draws: int = 1000,
    ci_prob: float = 0.94,
    random_state: int | np.random.Generator | None = None,
) -> Diagnosis:
    """Examine the posterior and the predictions of a fitted model.

    Parameters
    ----------
    %(model)s
    X_test : array-like of shape (n_test, n_features) or (n_test, n_train, n_kernels), default=None
        Held-out samples for calibration, as for `predict` of the model. Without them, training samples are left out
        in turn by importance sampling, which is less reliable. Each of several labels of a sample counts as an event,
        and each of several targets as an interval.
    y_test : array-like of shape (n_test,) or (n_test, n_outputs), default=None
        Their labels or targets.
    %(kernels:kept)s
    n_draws : int, default=1000
        Number of draws in each chain, at least 100. A variational posterior gives this many; existing chains give at
        most this many, at even distances.
    ci_prob : float, default=0.94
        Probability content of all intervals.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of draws, replicated targets and Monte Carlo integrals.

    Returns
    -------
    Diagnosis
        A dictionary with the sections

        * ``sampling`` ("nuts", "gibbs"): R-hat, bulk and tail effective sample sizes of identified quantities
          (shares, training scores, class probabilities) and, separately, of raw weights; divergences;
        * ``importance`` ("vb"): Pareto k-hat of the variational posterior, for all weights together;
        * ``shares``, for additive Gaussian processes only: Monte Carlo standard errors of shares and of the ends of
          their intervals;
        * ``signal``: size of the score, variance explained, and whether kernels predict anything, by
          :func:`relevance`; the report notes that intervals of "vb" are too narrow;
        * ``loo``: leave-one-out accuracy by PSIS; :func:`compare_loo` compares models by it;
        * ``widths``, for additive Gaussian processes with at most 400 targets and 20 columns of numbers only: one
          further fit with a single view of all columns and a width for each. The section says whether this fit
          predicts left-out samples better by two standard errors, and gives the call that fits it;
        * ``noise``, for additive Gaussian processes of numbers only: whether the spread of residuals depends on a
          view;
        * ``checks``: statistics of the targets, compared with draws from prior and posterior;
        * ``calibration``: log loss, Brier score, expected calibration error and reliability with intervals; in
          regression the coverage of intervals.

        ``print(diagnose(model))`` explains every section and says what to do.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If precomputed kernels are missing, there are too few draws, or `X_test` and `y_test` do not fit.

    Notes
    -----
    The training kernels are evaluated again. The main cost is a matrix-vector product of every kernel with every
    draw. For "vb", ``signal`` fits the model to ten folds, with at most 1000 samples and 4 million kernel entries.
    For "nuts" and "gibbs", it leaves out up to 500 samples by 200 Gaussian processes.

    For an additive Gaussian process, ``importance`` (or ``sampling``, with "nuts") describes the draws of its
    hyperparameters: k-hat (or R-hat), effective draws, and the posterior probability of points whose evidence did not
    converge. Leaving samples out only needs the weights of the hyperparameters. ``signal`` fits the model once more,
    without kernels, to at most 1000 samples.

    References
    ----------
    A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).

    A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25.

    P. H. Westfall and S. S. Young (1993), Resampling-based multiple testing, Wiley.

    Y. Yao, A. Vehtari, D. Simpson and A. Gelman (2018), Yes, but did it work? Evaluating variational inference, ICML.

    A. Vehtari, A. Gelman and J. Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import diagnose
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(60, 1))
    >>> y = np.sin(3 * X[:, 0]) + rng.normal(scale=0.3, size=60)
    >>> model = BEMKLRegressor(KernelBank(["rbf"])).fit(X[:30], y[:30])
    >>> found = diagnose(model, X[30:], y[30:], n_draws=100, random_state=0)
    >>> found.verdicts["calibration"], found["loo"]["good_k"]
    ('good', 0.5)
    >>> str(found).splitlines()[0]
    'Diagnosis of a BEMKLRegressor'
    """
    fitted = fitted_bemkl(model, of_outcome=False)
    n_draws = check_integer("n_draws", n_draws, low=FEWEST_DRAWS)
    ci_prob = check_probability("ci_prob", ci_prob)
    if (X_test is None) != (y_test is None):
        given, missing = ("X_test", "y_test") if y_test is None else ("y_test", "X_test")
        raise ValueError(
            f"`{missing}` is missing: `{given}` alone cannot show calibration. Pass both or neither."
        )
    rng = generator_of("random_state", random_state)
    held_out = None if y_test is None else checks.held_out_predictions(fitted, model, X_test, y_test)
    return diagnosis_of(fitted, held_out, kernels, n_draws, ci_prob, rng)


def diagnosis_of(
    fitted: FittedBEMKL,
    held_out: checks.Predictions | None,
    kernels: ArrayLike | None,
    n_draws: int,
    ci_prob: float,
    rng: np.random.Generator,
) -> Diagnosis:
    """Do what `diagnose` does with samples that are predicted already.

    Parameters
    ----------
    fitted : FittedBEMKL
    held_out : Predictions or None
        Of samples that the model was not fitted to.
    kernels : array-like of shape (n_samples, n_samples, n_kernels) or None
        Of training, where the model does not keep precomputed ones.
    n_draws : int
    ci_prob : float
    rng : numpy.random.Generator
    """
    sections = _sections(fitted, held_out, kernels, n_draws, ci_prob, rng)
    estimator, outputs, n_unlabeled = fitted.estimator, "", int((~fitted.labeled).sum())
    if fitted.output_names is not None:
        own = "with kernel weights of their own" if fitted.class_names else "that share their kernel weights"
        outputs = f", {len(fitted.output_names)} {PLURALS[fitted.output_kind]} {own}"
    about = [
        f"{fitted.n_samples} training samples{f' ({n_unlabeled} unlabeled)' if n_unlabeled else ''}, "
        f"{estimator.n_kernels_in_} kernel{'s' if estimator.n_kernels_in_ > 1 else ''}{outputs}",
        *checks.line_of_text(f"inference: {DESCRIPTIONS[fitted.inference]}; {'; '.join(fitted.endings)}"),
    ]
    return Diagnosis(f"Diagnosis of a {type(estimator).__name__}", about, sections)


def _sections(
    fitted: FittedBEMKL,
    held_out: checks.Predictions | None,
    kernels: ArrayLike | None,
    n_draws: int,
    ci_prob: float,
    rng: np.random.Generator,
) -> list[checks.Section]:
    """Examine draws of all weights of BEMKL, or of hyperparameters and scores of a Gaussian process."""
    if not fitted.is_marginal:
        models, log_ratios = evaluate_model(fitted, n_draws, rng, kernels)
        _check_enough(len(models[0].flat.intercept))
        names, loo, as_it_is = fitted.model_names, leave_one_out(fitted, models), None
        predicted = checks.left_out_predictions(fitted, loo) if held_out is None else held_out
        if log_ratios is None:
            made = sampling_section(names, models, fitted.statistics(None))
        else:
            made = importance_section(names, log_ratios, valid_intervals(fitted))
            loo, as_it_is = leave_one_out(fitted, models, log_ratios), loo
        can_be_sampled = why_not_sampled(fitted) is None
        return [
            made,
            signal_section(fitted, sizes_of_draws(models), ci_prob, kernels),
            leave_one_out_section(loo, as_it_is, fitted.output_kind == "output", can_be_sampled),
            checks.check_section(fitted, models, rng, ci_prob),
            checks.calibration_section(predicted, getattr(fitted.estimator, "classes_", None), ci_prob),
        ]
    _check_enough(fitted.states[0].n_draws)
    fitted.refuse_kernels(kernels)
    sections = [
        hyperparameters_section(fitted),
        _shares(fitted, ci_prob),
        signal_section(fitted, sizes_of_process(fitted), ci_prob),
    ]
    if fitted.has_landmarks:
        why = (
            "The model has no draws of the scores of its training samples, which are compared with "
            f"{fitted.n_basis} landmarks."
        )
        elpd = fitted.estimator.elpd_i_.sum()
        of_left_out = f"Log densities of left-out samples are in `elpd_i_`: their sum is {elpd:.1f}."
        sections += [
            checks.skipped("loo", "Leave-one-out", f"{why} {of_left_out}"),
            checks.skipped("checks", "Predictive checks", f"{why} Pass held-out samples."),
        ]
        if held_out is None:
            return [*sections, checks.skipped("calibration", "Calibration", f"{why} Pass held-out samples.")]
        return [*sections, _calibration(fitted, held_out, ci_prob)]
    loo = leave_one_out_by_cavities(fitted)
    predicted = checks.left_out_predictions(fitted, loo) if held_out is None else held_out
    return [
        *sections,
        leave_one_out_section(loo, None, not fitted.is_classifier),
        *widths_section(fitted),
        *([] if loo.pit is None or loo.pit.ndim > 1 else [noise_section(fitted, loo.pit, rng)]),
        checks.checks_of_process(fitted, n_draws, ci_prob, rng),
        _calibration(fitted, predicted, ci_prob),
    ]


def _calibration(fitted: FittedBEMKL, predictions: checks.Predictions, ci_prob: float) -> checks.Section:
    """Judge probabilities and intervals; those of counts and times are judged elsewhere."""
    if fitted.outcome in NOT_JUDGED:
        return checks.skipped("calibration", "Calibration", NOT_JUDGED[fitted.outcome])
    classes = getattr(fitted.estimator, "classes_", None)
    return checks.calibration_section(predictions, classes, ci_prob, AGAINST_NARROW)


def _check_enough(n_draws: int) -> None:
    if n_draws < FEWEST_DRAWS:
        raise ValueError(
            f"`model` has {n_draws} draws in all its chains; a diagnosis needs at least {FEWEST_DRAWS}. Fit with a "
            "larger `n_draws` of `inference`."
        )


# ------------------------------------------------------------------------------------------- were draws made well?


def sampling_section(
    names: list[str], models: list[Evaluated], stats: list[dict[str, np.ndarray]]
) -> checks.Section:
    """Judge the chains by the quantities that the model identifies.

    Parameters
    ----------
    names : list of str
        Of the models.
    models : list of Evaluated
    stats : list of dict
        What the sampler says of each draw.
    """
    values, rows, verdicts, trajectories = {}, [], [], []
    for name, model, own in zip(names, models, stats, strict=True):
        found = {what: convergence(draws) for what, draws in _quantities(model).items()}
        values[name] = found | _trajectories(own)
        verdicts.append(_verdict(found, values[name], model.draws.n_chains))
        prefix = f"{name}: " if len(names) > 1 else ""
        rows += [
            [prefix + what, c["n"], f"{c['rhat']:.3f}", c["ess_bulk"], c["ess_tail"]]
            for what, c in found.items()
        ]
        if "divergent" in values[name]:
            of_all = values[name]
            trajectories.append(
                f"{prefix}{of_all['n_divergent']} divergent draws ({100 * of_all['divergent']:.2g} %); BFMI "
                f"{of_all['bfmi']:.2f}; {of_all['mean_steps']:.0f} leapfrog steps per draw on average."
            )
    draws = models[0].draws
    n_taken = stats[0]["diverging"].shape[1] if "diverging" in stats[0] else draws.n_draws
    thinned = "" if n_taken == draws.n_draws else f" (thinned from {n_taken})"
    lines = [f"{draws.n_chains} chain(s) of {draws.n_draws} draws{thinned}; the worst of each kind:"]
    lines += checks.table(["", "number", "R-hat", "bulk ESS", "tail ESS"], rows) + trajectories
    verdict = checks.worst(verdicts)
    advice = _advice_on_chains(verdict, draws.n_chains)
    return checks.Section("sampling", "Sampling", checks.of_models(values), lines, verdict, advice)


def _quantities(model: Evaluated) -> dict[str, np.ndarray]:
    flat, outputs = model.flat, model.outputs
    quantities = {
        "kernel shares": model.shares,
        "training scores m/s": np.hstack([output.standard_means for output in outputs]),
    }
    if not model.is_regression:
        quantities["class probabilities"] = np.hstack([output.label_probabilities for output in outputs])
    quantities[RAW] = np.column_stack([flat.intercept, flat.kernel_weights])
    return {what: model.in_chains(values) for what, values in quantities.items()}


def _trajectories(stats: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the statistics of the trajectories of NUTS; nothing for Gibbs."""
    from arviz_stats.base import array_stats

    found: dict[str, Any] = {}
    if "diverging" in stats:
        found["n_divergent"] = int(stats["diverging"].sum())
        found["divergent"] = float(stats["diverging"].mean())
    if "energy" in stats:
        found["bfmi"] = float(np.min(array_stats.bfmi(stats["energy"])))
    if "n_steps" in stats:
        found["mean_steps"] = float(stats["n_steps"].mean())
    return found


def _verdict(found: dict[str, dict[str, float]], trajectories: dict[str, Any], n_chains: int) -> str:
    identified = [found[what] for what in IDENTIFIED if what in found and found[what]["n"]]
    rhat = max(c["rhat"] for c in identified)
    ess = min(min(c["ess_bulk"], c["ess_tail"]) for c in identified)
    divergent, bfmi = trajectories.get("divergent", 0.0), trajectories.get("bfmi", 1.0)
    if rhat > BAD_RHAT or not ess >= BAD_ESS or divergent > BAD_DIVERGENT:
        return "bad"
    if n_chains == 1 or not rhat <= RHAT or ess < ESS or divergent > DIVERGENT or bfmi < LOW_BFMI:
        return "caution"
    return "good"


def _advice_on_chains(verdict: str, n_chains: int) -> str:
    if verdict == "good":
        return f"The chains agree, and there are enough effective draws for 94 % intervals. {WHY_RAW}"
    limits = (
        f"Wanted of the first rows: R-hat at most {RHAT}, ESS at least {ESS:.0f}, divergences at most "
        f"{100 * DIVERGENT:.1g} %."
    )
    alone = " One chain alone has no R-hat: it cannot show that it missed a part." if n_chains == 1 else ""
    found, more = "Do not use these draws yet.", "`n_warmup` and `n_draws`"
    if verdict == "caution":
        found, more = "Means are usable, ends of intervals are rough.", "`n_draws`"
    return (
        f"{found}{alone} {limits} Increase {more} of `inference`; against divergences bring its `target_accept` "
        f"closer to 1. {WHY_RAW}"
    )


def importance_section(names: list[str], log_ratios: list[np.ndarray], instead: str) -> checks.Section:
    """Judge a variational posterior by its importance ratios.

    Parameters
    ----------
    names : list of str
        Of the models.
    log_ratios : list of array of shape (n_draws,)
        ``log p(y, a, b, e) - log q(a, b, e)``.
    instead : str
        What gives intervals that hold, for the advice.
    """
    tails = [tail_of(ratios) for ratios in log_ratios]
    rows = [
        [
            f"{name}: {ALL_WEIGHTS}" if len(names) > 1 else ALL_WEIGHTS,
            tail["n_draws"],
            f"{tail['sd']:.1f}",
            f"{tail['effective']:.1f}",
            f"{tail['pareto_k']:.2f}",
        ]
        for name, tail in zip(names, tails, strict=True)
    ]
    lines = checks.table(["log p/q of", "draws", "sd (nats)", "effective", "k-hat"], rows)
    joint = max(tail["pareto_k"] for tail in tails)
    good = all(tail["pareto_k"] <= tail["good_k"] for tail in tails)
    advice = "Draws of the variational posterior can be weighted to those of the exact one."
    if not good:
        about_joint = (
            f" The k-hat of all weights, {joint:.1f}, says only that weighting draws of q cannot repair it: in so "
            "many dimensions small errors add up, and it does not mean that marginals or predictions are wrong."
        )
        about_joint = about_joint if joint > 0.7 else ""
        advice = f"Means and predictions may be fine, intervals are not to be trusted.{about_joint} {instead}"
    values = checks.of_models({name: {"joint": tail} for name, tail in zip(names, tails, strict=True)})
    title = "Variational against exact posterior"
    return checks.Section("importance", title, values, lines, "good" if good else "caution", advice)


def tail_of(log_ratios: np.ndarray) -> dict[str, float]:
    """Return k-hat, effective number of draws and standard deviation of log importance ratios."""
    log_weights, pareto_k = smooth_weights(log_ratios)
    return {
        "n_draws": len(log_ratios),
        "sd": float(log_ratios.std(ddof=1)),
        "effective": float(1.0 / np.exp(2.0 * log_weights).sum()),
        "pareto_k": float(pareto_k),
        "good_k": good_k(len(log_ratios)),
    }


def hyperparameters_section(fitted: FittedBEMKL) -> checks.Section:
    """Judge the draws of the hyperparameters: importance weights, or chains.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    estimator: Any = fitted.estimator
    ess, unknown = float(estimator.ess_), float(estimator.unconverged_)
    chains = bool(np.isnan(estimator.pareto_k_))
    number = float(estimator.rhat_ if chains else estimator.pareto_k_)
    values = {
        "n_evaluations": int(estimator.n_evaluations_),
        "n_points": len(fitted.states[0].kernel_weights),
        "ess": ess,
        "unconverged": unknown,
        "rhat" if chains else "pareto_k": number,
    }
    wrong = number > hyper.LARGEST_RHAT if chains else not number <= hyper.LARGEST_K
    if chains:
        rough = number > GOOD_RHAT or ess < GOOD_ESS or estimator._inference().n_chains == 1
    else:  # weights that differ little may look heavy-tailed by chance
        rough = number > hyper.GOOD_K and ess < hyper.EFFICIENT * values["n_points"]
    if wrong or ess < hyper.LEAST_DRAWS or unknown >= hyper.MOST_UNKNOWN:
        verdict = "bad"
    else:
        verdict = "caution" if rough else "good"
    sampler = "NUTS" if chains else "importance sampling"
    sampler = "chains over sets of kernels" if fitted.selects_kernels else sampler
    name, shown = ("R-hat", f"{number:.3f}") if chains else ("k-hat", f"{number:.2f}")
    counts = [values["n_evaluations"], values["n_points"], f"{ess:.0f}"]
    lines = checks.table(
        ["hyperparameters", "evaluated", "kept", "effective", name, "unknown evidence"],
        [[sampler, *counts, shown, f"{100 * unknown:.1f} %"]],
    )
    lines += checks.line_of_text(
        "unknown evidence: posterior probability of the points at which expectation propagation did not converge."
    )
    advice = _advice_on_hyperparameters(verdict, chains, number, unknown)
    key, title = ("sampling", "Sampling") if chains else ("importance", "Importance sampling")
    return checks.Section(key, title, values, lines, verdict, advice)


def _advice_on_hyperparameters(verdict: str, chains: bool, number: float, unknown: float) -> str:
    if unknown >= hyper.MOST_UNKNOWN:
        return (
            'Evidences are not to be believed there. Use approximation="laplace" in `inference`, or a `kernel_prior` '
            "with a smaller scale."
        )
    if verdict == "good":
        return f"The draws of the hyperparameters are those of the posterior{'; the chains agree' * chains}."
    enough = f"at least {GOOD_ESS if chains else hyper.LEAST_DRAWS:.0f} effective draws."
    wanted = (
        f"R-hat of several chains at most {GOOD_RHAT}, {enough} Increase `n_points` of `inference`, or its "
        "`n_warmup`."
        if chains
        else f"k-hat at most {hyper.GOOD_K}, {enough} {hyper.remedy_of_weights(number)}"
    )
    found = "Do not use these draws yet." if verdict == "bad" else "Ends of intervals are rough."
    return f"{found} Wanted: {wanted}"


def _shares(fitted: FittedBEMKL, ci_prob: float) -> checks.Section:
    """Report the shares with what another seed would change."""
    found = kernel_table(fitted.estimator, ci_prob, shares=True).sort_values("share", ascending=False)
    ends = ("share", "share_lower", "share_upper")
    columns = ["kernel", *(name for end in ends for name in (end, f"{end}_mcse"))]
    of_means, *of_ends = (float(found[f"{end}_mcse"].max()) for end in ends)
    largest = max(of_means, *of_ends)
    rows = [
        [name, *(f"{value:.3f}" for value in numbers)]
        for name, *numbers in found[columns].head(MOST_ROWS).itertuples(index=False)
    ]
    lines = checks.table(
        ["share of", "mean", "error", f"{100 * ci_prob:g} % from", "error", "to", "error"], rows
    )
    lines += checks.line_of_text(
        f"error: Monte Carlo standard error, by which another seed moves the number. Largest of all "
        f"{len(found)} kernels: {of_means:.3f} of means, {largest:.3f} of ends."
    )
    values = {"kernel": found["kernel"].tolist()} | {name: found[name].to_numpy() for name in columns[1:]}
    verdict = "good" if largest <= GOOD_ERROR else "caution" if largest <= LARGEST_ERROR else "bad"
    advice = (
        "Another seed gives the same shares, to the second digit or nearly so."
        if verdict == "good"
        else "Ends of intervals change with the seed. Increase `n_points` and `n_draws` of `inference`: twice as "
        "many make errors 0.7 times as large."
    )
    return checks.Section("shares", "Shares of kernels", values, lines, verdict, advice)


# ------------------------------------------------------------------------------------------ is there any signal?


def sizes_of_process(fitted: FittedBEMKL) -> tuple[np.ndarray, np.ndarray]:
    """Return variances over the training samples of what kernels add to the score, and of its noise.

    Each is of shape (n_draws, n_outputs).

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process.
    """
    return fitted.states[0].variances[..., -1], noise_variances(fitted)


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
) -> checks.Section:
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
        return checks.Section("signal", "Signal", values, lines, "skipped", reason)
    row = relevance(fitted.estimator, by="all", kernels=kernels).iloc[0]
    differences = ("elpd_diff", "se", "log_evidence_diff", "elbo_diff")
    values |= {name: float(row[name]) for name in differences if name in row.index}
    how = " (ten folds)" if "elbo_diff" in values else ""
    text = f"Left-out samples{how} against no kernels: {values['elpd_diff']:+.1f} nats, "
    text += f"standard error {values['se']:.1f}"
    if "log_evidence_diff" in values:
        text += f"; log Bayes factor {values['log_evidence_diff']:+.1f}"
    lines += checks.line_of_text(f"{text}.")
    signal, values["evidence"] = row["verdict"] in PREDICTS, row["verdict"]
    by_elpd = row["verdict_by"] == "elpd"
    by = "by left-out samples, since this model has no evidence" if by_elpd else "by the log Bayes factor"
    start = "Evidence against the claim" if row["verdict"] == AGAINST else "No evidence"
    advice = (
        f"The kernels predict the outcome ({row['verdict']}, {by}). `relevance` says which views that needs."
        if signal
        else f"{start} that the kernels predict the outcome ({by}). Shares divide what may be nothing: do not "
        "read them. More samples may show what these do not."
    )
    return checks.Section("signal", "Signal", values, lines, "good" if signal else "caution", advice)


def _size(
    fitted: FittedBEMKL, sizes: tuple[np.ndarray, np.ndarray], ci_prob: float
) -> tuple[dict[str, Any], list[str]]:
    """Return numbers and lines of the size of the score."""
    variance, noise = sizes
    scale = np.array([fitted.units(k)[1] for k in range(variance.shape[1])])
    tails = [0.5 - 0.5 * ci_prob, 0.5 + 0.5 * ci_prob]
    what = {
        "score_std": ("sd of the score", scale * np.sqrt(variance)),
        "explained": ("variance explained", variance / (variance + noise)),
    }
    values: dict[str, Any] = {}
    rows = []
    for name, (text, drawn) in what.items():
        found = np.stack([drawn.mean(axis=0), *np.quantile(drawn, tails, axis=0)])
        numbers = found if fitted.output_names else found[:, 0]
        values[name] = dict(zip(("mean", "lower", "upper"), numbers, strict=True))
        for output, own in zip(fitted.output_names or [""], found.T, strict=True):
            rows.append([f"{output}: {text}" if output else text, *map(float, own)])
    narrow = "vb (too narrow)" if fitted.inference == "vb" else ""
    lines = checks.table([narrow, "mean", f"{100 * ci_prob:g} % from", "to"], rows)
    design, about = fitted.design, "sd of the score over the training samples"
    if design is not None and design.has_effects:
        about += ", without effects of covariates and groups"
    if fitted.outcome == "numbers":
        unit = "standard deviations of the targets of a task" if fitted.has_tasks else "units of the target"
        about += f", in {unit}"
    lines += checks.line_of_text(
        f"{about}; variance explained: of the score, and of score and noise together."
    )
    return values, lines


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


def widths_section(fitted: FittedBEMKL) -> list[checks.Section]:
    """Find out whether one view of all columns, with a width for each, predicts better, by a further fit.

    It has products of all columns, and learns which of them matter. There is no section for models that it cannot
    be compared with, or with too many samples or columns for it to take seconds.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process without landmarks.
    """
    estimator: Any = fitted.estimator
    bank, design, n_targets = estimator.kernel_bank_, fitted.design, np.size(estimator._targets_of_outputs())
    if bank is None or estimator.kernel_centers_ is not None or n_targets > LARGEST_WIDTHS:
        return []
    columns, n_all = bank._used_columns(), bank.n_features_in_
    codes = np.zeros(n_all) if bank.column_plan_ is None else bank.column_plan_.codes()
    is_so = len(bank.views_) == 1 and any(getattr(k, "learns", None) == "each" for k in bank.kernels_)
    n_numbers = int((codes[columns] == 0).sum())
    if is_so or fitted.has_tasks or is_sparse(bank.X_train_) or not 1 < n_numbers <= MOST_WIDTHS:
        return []
    kernels: list[Any] = [Gaussian(width="each"), Linear()]
    if (codes[columns] == 2).any():
        kernels.append(Overlap())
    refits = ProcessRefits(fitted)
    other = refits.of_one_view(kernels, columns)
    values = other.ahead_of(refits.own)
    is_better = values["elpd_diff"] > LARGE * values["se"] and other.pareto_k <= hyper.GOOD_K
    said = "{elpd_diff:+.1f} nats for left-out samples, standard error {se:.1f}".format(**values)
    lines = checks.line_of_text(f"One view of all columns, with a width for each (one further fit): {said}.")
    advice = "One view of all columns, with a width for each, would not predict clearly better."
    if is_better:
        are_all = len(np.union1d(columns, [] if design is None else design.columns)) == n_all
        labels = bank.column_labels_ or range(n_all)
        views = None if are_all else {"all": [labels[j] for j in columns]}
        advice = (
            f"One view of all columns, with a width for each, would predict better ({said}): "
            f"`model.set_params(kernels=KernelBank({kernels}, scale=True), views={views})`, and fit again. "
            "`feature_table` then says which columns matter."
        )
    ADVICE[estimator] = estimator.posterior_, advice if is_better else ""
    verdict = "caution" if is_better else "good"
    return [checks.Section("widths", "Views and widths", values, lines, verdict, advice)]


def noise_section(fitted: FittedBEMKL, pit: np.ndarray, rng: np.random.Generator) -> checks.Section:
    r"""Find out whether the spread of residuals follows a view.

    With :math:`s` the normal scores of the sizes of the residuals of left-out samples, :math:`s^T K_v s` is large
    where samples that a view calls alike have residuals of like size. It is compared with what it is for residuals
    in random order; of several views, with the largest of them (Westfall and Young 1993).

    Parameters
    ----------
    fitted : FittedBEMKL
        Of an additive Gaussian process of numbers.
    pit : ndarray of shape (n_samples,)
        Where left-out targets are in their predictive distributions.
    rng : numpy.random.Generator
        Draws orders.
    """
    sizes = rankdata(np.abs(pit - 0.5))
    scores = norm.ppf((sizes - 0.5) / len(sizes))
    orders = np.stack([scores, *(rng.permutation(scores) for _ in range(N_PERMUTED))], axis=1)
    labeled, found = fitted.labeled, dict[str, np.ndarray]()
    for name, kernel in zip(fitted.kernel_groups(None), fitted.training_stack().each(), strict=True):
        own = np.nan_to_num(kernel[np.ix_(labeled, labeled)])
        around = own - own.mean(axis=0) - own.mean(axis=1, keepdims=True) + own.mean()
        unit = np.trace(around) or 1.0
        found[name] = found.get(name, 0.0) + np.einsum("ib,ib->b", orders, around @ orders) / unit
    alike = np.stack(list(found.values()))
    alike = (alike - alike[:, 1:].mean(axis=1, keepdims=True)) / alike[:, 1:].std(axis=1, keepdims=True)
    p_values = (1 + (alike[:, 1:].max(axis=0) >= alike[:, :1]).sum(axis=1)) / (N_PERMUTED + 1)
    follows = [name for name, p in zip(found, p_values, strict=True) if p < RARE]
    lines = checks.table(
        ["spread of residuals", "p-value"], [[n, f"{p:.3f}"] for n, p in zip(found, p_values, strict=True)]
    )
    lines += checks.line_of_text(
        "p-value: how often spread that follows no view looks as if it did, for the largest of all views."
    )
    advice = (
        f"Noise is larger for some samples than for others, and follows {', '.join(follows)}: intervals are too wide "
        "where it is small and too narrow where it is large. Model the logarithm of the target if it is positive."
        if follows
        else "The spread of the residuals follows no view, as far as these samples show."
    )
    values = {"view": list(found), "p_value": p_values}
    return checks.Section("noise", "Noise", values, lines, "caution" if follows else "good", advice)


# --------------------------------------------------------------------------------------------- left-out samples


def leave_one_out_section(
    found: LeaveOneOut, as_it_is: LeaveOneOut | None, is_regression: bool, can_be_sampled: bool = True
) -> checks.Section:
    """Report the accuracy and its reliability; `as_it_is` is that of a variational posterior, not corrected."""
    n, values = len(found.elpd_i), found.values()
    named = {"corrected for p / q" if found.approximate else "posterior without i": found}
    if as_it_is is not None:
        named["variational posterior as it is"] = as_it_is
        values["as_it_is"] = as_it_is.values()
    rows = [
        [
            name,
            *(f"{number:.1f}" for number in (own.elpd, own.standard_error)),
            f"{own.elpd / n:.3f}",
            f"{own.values()['p_loo']:.1f}",
            f"{own.n_bad} of {n}",
        ]
        for name, own in named.items()
    ]
    lines = checks.table(["leave-one-out", "elpd", "se", "per sample", "p_loo", "bad k-hat"], rows)
    by = "by the posterior of the others, in nats."
    if is_regression:
        about = f"elpd: log density of each sample's target (original units) {by}"
    elif found.by_cavities:
        about = f"elpd: log probability of each label {by}"
    else:
        about = (
            f"elpd: log probability of each label, given that there is one, {by} "
            f"With the margin in it, log P(y f > margin) sums to {found.margin_elpd:.1f}."
        )
    lines += checks.line_of_text(about)
    few = found.n_bad <= 0.05 * n and not found.approximate
    verdict = "good" if found.n_bad == 0 else "caution" if few else "bad"
    advice = _advice_on_left_out(verdict, found, as_it_is, can_be_sampled)
    title = f"Leave-one-out accuracy ({'cavities' if found.by_cavities else 'PSIS'})"
    return checks.Section("loo", title, values, lines, verdict, advice)


def _advice_on_left_out(
    verdict: str, found: LeaveOneOut, as_it_is: LeaveOneOut | None, can_be_sampled: bool
) -> str:
    if verdict == "good":
        return f"All k-hats are below {found.good_k:.2f}: the estimate is reliable; `compare_loo` compares models."
    text = f"{found.n_bad} samples have a k-hat above {found.good_k:.2f}:"
    if found.by_cavities:
        return (
            f"{text} leaving one out moves the hyperparameters further than their points reach. Fit with a larger "
            "`n_points` of `inference`, or use `cross_val_score`."
        )
    if not found.approximate:
        return (
            f"{text} each has a weight of its own in the model, and leaving it out moves the posterior too far for "
            "reweighting. Read the elpd as a rough guess; use `cross_val_score` or held-out data for a decision."
        )
    text += " the variational posterior is too far from the exact one for its draws to be corrected."
    if as_it_is is not None and as_it_is.n_bad <= 0.05 * len(as_it_is.pareto_k):
        text += (
            " Taken as it is, it cannot see its own error: that line is too optimistic (on 100 samples of wdbc "
            "it promised a log loss of .04 where new samples gave .13)."
        )
    sampled = ', held-out data, or inference="nuts".' if can_be_sampled else " or held-out data."
    return f"{text} Use `cross_val_score`{sampled}"
