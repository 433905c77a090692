"""Diagnosis of a fitted posterior in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_integer, check_probability, generator_of
from bayesmkl.posterior.calibration import (
    Predictions,
    calibration_section,
    held_out_predictions,
    left_out_predictions,
)
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.importance import importance_section
from bayesmkl.posterior.leave_one_out import leave_one_out, leave_one_out_section
from bayesmkl.posterior.mixing import sampling_section
from bayesmkl.posterior.predictive_checks import check_section
from bayesmkl.posterior.process_diagnosis import sections_of_process
from bayesmkl.posterior.refine import PLURALS, valid_intervals, why_not_sampled
from bayesmkl.posterior.report import Section, line_of_text, render, render_html
from bayesmkl.posterior.sensitivity import sensitivity_section
from bayesmkl.posterior.shared_docs import MODEL
from bayesmkl.posterior.signal import signal_section, sizes_of_draws

FEWEST_DRAWS = 100
DESCRIPTIONS = {
    "vb": "variational",
    "nuts": "NUTS",
    "gibbs": "Gibbs sampling",
    "marginal": "everything integrated out but kernel weights and noise",
}


class Diagnosis(dict):
    """Result of :func:`diagnose`: section -> name -> number, array or text; printed, it is a report.

    Sections are ``sampling`` ("nuts", "gibbs", "marginal") or ``importance`` ("vb"), ``signal``, ``loo``,
    ``sensitivity``, ``checks`` and ``calibration``; each has a ``verdict`` ("good", "caution", "bad" or "skipped")
    and an ``advice``. With more than two classes, or several labels or targets, the numbers of `checks` are under the
    name of each; so are those of `sampling`, `importance` and `sensitivity` where each has kernel weights of its own.
    Of additive Gaussian processes there are ``shares`` too.

    Parameters
    ----------
    title : str
        Of the report.
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
    ['importance', 'signal', 'loo', 'sensitivity', 'checks', 'calibration']
    >>> found.verdicts["loo"] == found["loo"]["verdict"]
    True
    """

    def __init__(self, title: str, about: Sequence[str], sections: Sequence[Section]) -> None:
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
    def sections(self) -> tuple[Section, ...]:
        """Sections of the report, each with its lines, verdict and advice."""
        return self._report[2]

    def __str__(self) -> str:
        return render(*self._report)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render_html(*self._report)


@fill_docs(MODEL)
@own_settings
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
        Samples that the model was not fitted to, as `model` takes them, for calibration. Without them training
        samples are left out in turn by importance sampling, which is less reliable. Several labels of a sample are
        as many events, several targets as many intervals.
    y_test : array-like of shape (n_test,) or (n_test, n_outputs), default=None
        Their labels or targets.
    %(kernels:kept)s
    n_draws : int, default=1000
        Draws in each chain, at least 100: from a variational posterior this many; of existing chains at most this
        many, at even distances.
    ci_prob : float, default=0.94
        Probability content of all intervals.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of draws, replicated targets and Monte Carlo integrals.

    Returns
    -------
    Diagnosis
        A dictionary with a section each for

        * ``sampling`` ("nuts", "gibbs"): R-hat, bulk and tail effective sample sizes of what the model identifies
          (shares, training scores, class probabilities) and, apart, of raw weights; divergences;
        * ``importance`` ("vb"): Pareto k-hat of the variational posterior, of all weights together and of the kernel
          weights alone;
        * ``shares``, of an additive Gaussian process only: Monte Carlo standard errors of shares and ends of their
          intervals;
        * ``signal``: size of the score, variance explained, and whether kernels predict anything, by
          :func:`relevance`; intervals of "vb" are too narrow, and say so;
        * ``loo``: leave-one-out accuracy by PSIS; :func:`compare_loo` compares models by it;
        * ``sensitivity``: how far shares move with the priors, by power-scaling;
        * ``checks``: statistics of the targets against draws from prior and posterior;
        * ``calibration``: log loss, Brier score, expected calibration error and reliability with intervals; in
          regression the coverage of intervals.

        ``print(diagnose(model))`` is a report that says of every section what it means and what to do.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If precomputed kernels are missing, there are too few draws, or `X_test` and `y_test` do not fit.

    Notes
    -----
    The training kernels are evaluated anew. A matrix-vector product of every kernel with every draw is the main cost,
    and for "vb" up to a thousand small integrals, a few seconds on 100 to 200 samples; they are left out where they
    would take minutes. ``signal`` fits "vb" to ten folds, of at most 1000 samples and 4 million entries of kernels,
    and leaves up to 500 samples of "nuts" and "gibbs" out by 200 Gaussian processes.

    Of an additive Gaussian process ``importance`` (or ``sampling``, of its "nuts") is about the draws of its
    hyperparameters: k-hat (or R-hat), effective draws, and the share of the posterior whose evidence is not known.
    Leaving samples out takes no weights but those of hyperparameters, there is no power-scaling of priors
    (``sensitivity`` is skipped), and ``signal`` fits the model once more, without kernels, to at most 1000 samples.

    References
    ----------
    A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).

    A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25.

    Y. Yao, A. Vehtari, D. Simpson and A. Gelman (2018), Yes, but did it work? Evaluating variational inference, ICML.

    A. Vehtari, A. Gelman and J. Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.

    N. Kallioinen, T. Paananen, P.-C. Bürkner and A. Vehtari (2024), Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling, Statistics and Computing 34.

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
    _check_test(X_test, y_test)
    rng = generator_of("random_state", random_state)
    held_out = None if y_test is None else held_out_predictions(fitted, model, X_test, y_test)
    return diagnosis_of(fitted, held_out, kernels, n_draws, ci_prob, rng)


def diagnosis_of(
    fitted: FittedBEMKL,
    held_out: Predictions | None,
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
    title = f"Diagnosis of a {type(fitted.estimator).__name__}"
    if fitted.is_marginal:
        _check_enough(fitted.states[0].n_draws)
        if kernels is not None:
            fitted.training_stack(kernels)  # refused where they are wrong; the model keeps its own
        sections = sections_of_process(fitted, n_draws, ci_prob, rng, held_out)
        return Diagnosis(title, _about(fitted), sections)
    models, log_ratios = evaluate_model(fitted, n_draws, rng, kernels)
    _check_enough(len(models[0].flat.intercept))
    names = fitted.model_names
    if log_ratios is None:
        sections = [sampling_section(names, models, fitted.statistics(None))]
    else:
        states = list(fitted.states)
        sections = [importance_section(names, models, states, log_ratios, rng, valid_intervals(fitted))]
    sections.append(signal_section(fitted, sizes_of_draws(models), ci_prob, kernels))
    loo = leave_one_out(fitted, models, log_ratios)
    as_it_is = None if log_ratios is None else leave_one_out(fitted, models)
    can_be_sampled = why_not_sampled(fitted) is None
    sections.append(leave_one_out_section(loo, as_it_is, fitted.output_kind == "output", can_be_sampled))
    sections.append(sensitivity_section(names, models, fitted.kernel_names, log_ratios is not None, rng))
    sections.append(check_section(fitted, models, rng, ci_prob))
    left_out = left_out_predictions(fitted, loo if as_it_is is None else as_it_is)
    classes = getattr(fitted.estimator, "classes_", None)
    sections.append(calibration_section(left_out if held_out is None else held_out, classes, ci_prob))
    return Diagnosis(title, _about(fitted), sections)


def _about(fitted: FittedBEMKL) -> list[str]:
    estimator, outputs, n_unlabeled = fitted.estimator, "", int((~fitted.labeled).sum())
    if fitted.output_names is not None:
        own = "with kernel weights of their own" if fitted.class_names else "that share their kernel weights"
        outputs = f", {len(fitted.output_names)} {PLURALS[fitted.output_kind]} {own}"
    return [
        f"{fitted.n_samples} training samples{f' ({n_unlabeled} unlabeled)' if n_unlabeled else ''}, "
        f"{estimator.n_kernels_in_} kernel{'s' if estimator.n_kernels_in_ > 1 else ''}{outputs}",
        *line_of_text(f"inference: {DESCRIPTIONS[fitted.inference]}; {'; '.join(fitted.endings)}"),
    ]


def _check_test(X_test: Samples | None, y_test: Targets | None) -> None:
    if (X_test is None) != (y_test is None):
        given, missing = ("X_test", "y_test") if y_test is None else ("y_test", "X_test")
        raise ValueError(
            f"`{missing}` is missing: `{given}` alone tells nothing of calibration. Pass both or none."
        )


def _check_enough(n_draws: int) -> None:
    if n_draws < FEWEST_DRAWS:
        raise ValueError(
            f"`model` has {n_draws} draws in all its chains; a diagnosis needs at least {FEWEST_DRAWS}. Fit with a "
            "larger `n_draws` of `inference`."
        )
