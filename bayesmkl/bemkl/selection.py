r"""Selection of priors and kernels by the evidence lower bound, without cross-validation.

The evidence p(y) of a model averages the probability of the training labels over the prior, and so charges for
flexibility that the data do not need. Every closed-form fit ends with a lower bound of its logarithm, the ELBO.
`select_by_elbo` fits each candidate once and keeps the one with the highest bound.

**Comparability.** Bounds compare only where the candidates give probabilities to the same thing, and where their
priors have a mass that can be compared:

* `margin`: ``P(y f > ν)`` falls as ν grows, whatever the labels, and the evidence with it. The smallest would win.
* `normalize_y`: a target in other units has another density.
* `multiclass`: "shared" and "one-versus-all" explain one column of signs per class; "multinomial" explains one label
  per sample.
* `unlabeled_label`: the bound is highest where all unlabeled samples lie on one side (`model`).
* `relation` and `task_prior` of multitask models: a tie between tasks takes away freedom that the factorization pays
  for, so that the bound rises even where tasks have nothing in common.
* `inference`: only VB has this bound.
* Precisions under Gamma(c, r) with a concentration c below 1/2. The bound contains ``c log r - log Γ(c)`` for each of
  them, about log c if c is small: -23 nats at c = 1e-10, without end as c falls. The evidence itself stays where it
  is, because such a prior has nearly all of its mass at weights too large to be told from each other, which q does
  not reach. So "sparse" competes with nothing but itself, and with the same number of kernels.

**The standard deviation of the intermediate outputs** is chosen in folds: the evidence bound cannot. Held-out
probabilities under the one that is chosen say which temperature they should have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from bayesmkl._utils.axes import shorten
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_grid, check_jobs, check_verbose, shown
from bayesmkl._utils.warnings import holding_back, warn_user

if TYPE_CHECKING:
    import pandas as pd

from sklearn.model_selection import StratifiedKFold

from bayesmkl._utils.options import VB
from bayesmkl._utils.progress import step_progress
from bayesmkl.bemkl.base import BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

RESULTS = ["elbo", "difference", "converged", "n_iter", "n_kernels", "seconds", "error"]


@dataclass(frozen=True, repr=False, eq=False)
class EvidenceSearch:
    """Result of `select_by_elbo`; printing it shows the table.

    Parameters
    ----------
    best_estimator_ : estimator
        The candidate with the highest bound, fitted.
    best_params_ : dict
        Its entry of the grid.
    best_elbo_ : float
        Its bound in nats.
    table : pandas.DataFrame
        One row per candidate, the highest bound first, those that failed last. Columns: the parameters of the grid;
        ``elbo`` in nats, ``difference`` to the highest, ``converged``, ``n_iter`` (sweeps, of all models of a
        candidate together), ``n_kernels``, ``seconds`` and ``error`` (empty, or why the fit failed). The index is
        the candidate's position in the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.bemkl import select_by_elbo
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.sin(2 * X[:, 0])
    >>> grid = {"kernels": [KernelBank(Gaussian(width=width)) for width in (1, 10)]}
    >>> found = select_by_elbo(BEMKLRegressor(), grid, X, y)
    >>> found.table["kernels"].iloc[0].kernels.width, bool(found.best_elbo_ == found.table["elbo"].max())
    (1, True)
    """

    best_estimator_: Any
    best_params_: dict[str, Any]
    best_elbo_: float
    table: pd.DataFrame

    def __repr__(self) -> str:
        shown = self.table.copy()
        for name in shown.columns.difference(RESULTS, sort=False):
            shown[name] = [" ".join(repr(value).split()) for value in shown[name]]
        shown["converged"] = shown["converged"].map({True: "yes", False: "no"})
        shown["error"] = [shorten(text, 60) for text in shown["error"]]
        if (shown["error"] == "").all():
            del shown["error"]
        formats = dict.fromkeys(("elbo", "difference", "seconds"), "{:.2f}".format)
        lines = shown.to_string(
            index=False, na_rep="-", formatters=formats, line_width=10_000, max_colwidth=None
        )
        return f"Evidence lower bound of {len(shown)} candidates, in nats\n{lines}"


def select_by_elbo(
    estimator: BaseEstimator,
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Samples,
    y: Targets,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    **fit_params: Any,
) -> EvidenceSearch:
    r"""Fit one model per combination of parameters and keep the one with the highest evidence lower bound.

    .. math:: \hat{h} = \arg\max_h \; \max_q \; E_q[\log p(y, \Theta \mid X, h) - \log q(\Theta)]
       \;\le\; \max_h \log p(y \mid X, h) .

    No samples are held out, and every candidate is fitted once.

    Parameters
    ----------
    estimator : BEMKL estimator or Pipeline that ends in one
        With ``inference="vb"``. It is cloned, not fitted itself.
    param_grid : dict or list of dict
        Values to try, by parameter, as in :class:`sklearn.model_selection.GridSearchCV`: such as ``{"kernels": [bank,
        other_bank], "kernel_prior": [Gamma(1, 1), Gamma(1, 0.1)]}``. Steps of a pipeline and parameters of a bank are
        reached with two underscores, ``bemkl__kernels__views``.
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        Training samples.
    y : array-like of shape (n_samples,), or (n_samples, n_outputs) where `estimator` takes several
        Labels or targets.
    n_jobs : int, default=None
        Fits that run at the same time, in processes of their own; None is one, -1 as many as there are cores.
    verbose : int, default=0
        With 1, a line per candidate from :class:`joblib.Parallel`.
    **fit_params
        Passed to ``fit``, such as the `tasks` of a multitask estimator.

    Returns
    -------
    EvidenceSearch
        The fitted winner and a table of all candidates.

    Raises
    ------
    ValueError
        If the bounds of the candidates would not compare, see Notes; for a `param_grid`, `n_jobs` or `verbose` that
        cannot be read; or if all fits fail.
    TypeError
        If `estimator` is none.

    Warns
    -----
    ConvergenceWarning
        Once, if the bound of some candidates would still rise.
    FitFailedWarning
        Once, if some candidates could not be fitted.

    Notes
    -----
    A difference of bounds is a difference of log evidences only as far as both bounds are equally tight. They are not
    tight: each kernel costs the bound several nats, and each landmark some, that they do not cost the evidence, so
    that among banks of different sizes it prefers the smaller one. Trust it among candidates of the same number of
    kernels and landmarks, and take differences of a few nats for a tie.

    The bounds of candidates that differ in `margin`, `normalize_y` or `unlabeled_label` do not compare, nor do those
    of "multinomial" and other kinds of `multiclass`, nor those of priors with a concentration below one half, such as
    "sparse", with others or for different numbers of kernels: the density of such a prior has no scale to speak of.
    Parameters that the bound does not depend on, such as `predictive`, are refused as well. With a margin above
    zero the evidence is the probability that all scores lie beyond it on the sides of their labels, to lie within it
    being a third outcome.

    Steps of a pipeline may learn from `X`, of which the evidence says nothing. Steps that learn from `y`, such as a
    selection of features, use the labels twice.

    References
    ----------
    MacKay, D. J. C. (1992). Bayesian interpolation. Neural Computation 4.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.bemkl import select_by_elbo
    >>> from bayesmkl.bemkl import Gamma
    >>> from bayesmkl.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(60, 1))
    >>> y = np.sin(2 * X[:, 0]) > 0
    >>> banks = [KernelBank(Gaussian(width=width)) for width in (0.1, 1, 10)]
    >>> grid = {"kernels": banks, "kernel_prior": [Gamma(1, 1), Gamma(1, 0.1)]}
    >>> found = select_by_elbo(BEMKLClassifier(), grid, X, y)
    >>> found.best_params_["kernels"].kernels.width
    1
    """
    check_grid("param_grid", param_grid)
    check_jobs("n_jobs", n_jobs)
    check_verbose("verbose", verbose)
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(
            f"`estimator` must be a BEMKL estimator or a pipeline that ends in one; got {shown(estimator)}."
        )
    refuse_incomparable([_last_step(estimator)])
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    unknown = [name for grid in grids for name in grid if name not in estimator.get_params()]
    if unknown:
        raise ValueError(
            f"`param_grid`: Invalid parameter {unknown[0]!r}, which {type(estimator).__name__} does not have."
        )
    parameters = list(ParameterGrid(param_grid))
    models = [clone(estimator).set_params(**clone(own, safe=False)) for own in parameters]
    refuse_incomparable([_last_step(model) for model in models])
    parallel = Parallel(n_jobs=n_jobs, verbose=10 * verbose, return_as="generator")
    best, winner, rows = 0, None, []  # no other fitted model is kept
    with holding_back():  # in threads, scikit-learn's wrapper of the tasks would leave filters behind
        for model, row in parallel(delayed(_fit)(model, X, y, fit_params) for model in models):
            rows.append(row)
            if model is None:
                continue
            if winner is not None:
                refuse_other_sizes(_last_step(winner), _last_step(model))
            if winner is None or row["elbo"] > rows[best]["elbo"]:
                best, winner = len(rows) - 1, model
    if winner is None:
        failures = "; ".join(dict.fromkeys(row["error"] for row in rows))
        raise ValueError(f"all {len(rows)} candidates of `param_grid` failed: {failures}")
    _warn(models, rows)
    return EvidenceSearch(winner, parameters[best], rows[best]["elbo"], _table(parameters, rows))


# --------------------------------------------------------------------------------------------------------- fits


def _last_step(model: BaseEstimator) -> Any:
    return _last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def _fit(
    model: BaseEstimator, X: Samples, y: Targets, fit_params: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Fit one candidate, and return it with its row; without a model, and with NaN and the error, where it fails."""
    started = time.perf_counter()
    row: dict[str, Any] = {"elbo": np.nan, "converged": False, "n_iter": np.nan, "n_kernels": np.nan}
    try:
        with holding_back(ConvergenceWarning):
            bemkl = _last_step(model.fit(X, y, **fit_params))
    except Exception as error:
        seconds = time.perf_counter() - started
        return None, row | {"seconds": seconds, "error": f"{type(error).__name__}: {error}"}
    return model, {
        "elbo": float(bemkl.elbo_),
        "converged": bool(bemkl.converged_),
        "n_iter": int(np.sum(bemkl.n_iter_)),
        "n_kernels": int(bemkl.n_kernels_in_),
        "seconds": time.perf_counter() - started,
        "error": "",
    }


def _warn(models: Sequence[Any], rows: list[dict[str, Any]]) -> None:
    failed = [row["error"] for row in rows if row["error"]]
    if failed:
        warn_user(
            f"{len(failed)} of {len(rows)} candidates failed and are last in the table; the first: {failed[0]}",
            FitFailedWarning,
        )
    n_open = sum(
        not row["converged"] and not row["error"] and _last_step(model).tol > 0.0
        for model, row in zip(models, rows, strict=True)
    )
    if n_open:
        warn_user(
            f"{n_open} of {len(rows)} candidates did not converge (`converged` in the table): their bounds would "
            "still rise, and the order may change. Increase `max_iter`.",
            ConvergenceWarning,
        )


def _table(parameters: list[dict[str, Any]], rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    results = pd.DataFrame(rows)
    results["difference"] = results["elbo"] - results["elbo"].max()
    names = dict.fromkeys(name for own in parameters for name in own)
    columns = {name: pd.Series([own.get(name) for own in parameters], dtype=object) for name in names}
    table = pd.concat([pd.DataFrame(columns), results[RESULTS]], axis=1)
    return table.sort_values("elbo", ascending=False, kind="stable", na_position="last")


# -------------------------------------------------------------------------------------------- comparability of bounds


LEAST_CONCENTRATION = 0.5
TASKS = "the bound favors closely tied tasks even if they are unrelated. Choose it by cross-validation"
NO_INFLUENCE = ("kernel_names", "predictive", "storage", "verbose")
INCOMPARABLE = dict.fromkeys(NO_INFLUENCE, "the bound does not depend on it") | {
    "margin": (
        "a larger margin always lowers the bound, whatever the labels are, so the smallest would always win. "
        "Choose it by cross-validation"
    ),
    "normalize_y": "the bound changes with the units of the target. Choose it by cross-validation",
    "relation": TASKS,
    "task_prior": TASKS,
    "unlabeled_label": (
        "bounds of semi-supervised and supervised fits are about different data. Choose with the labeled "
        "samples alone"
    ),
}


def refuse_incomparable(models: list[Any]) -> None:
    """Raise if bounds of the unfitted `models` are about different things; the module says which and why."""
    for model in models:
        if not isinstance(model, BaseBEMKL):
            raise ValueError(
                "`estimator` must be a BEMKL estimator, or a pipeline that ends in one; "
                f"got {type(model).__name__}, which has no evidence lower bound."
            )
        if not isinstance(model._inference(), VB):
            raise ValueError(
                '`estimator` and candidates must have inference="vb": samplers have no evidence lower bound; '
                f'got {model.inference!r}. Choose with "vb", then fit the winner with it.'
            )
    names = {type(model).__name__ for model in models}
    if len(names) > 1:
        raise ValueError(f"candidates must be estimators of one kind; got {sorted(names)}.")
    values = {name: _distinct(models, name) for name in models[0].get_params(deep=False)}
    for name, reason in INCOMPARABLE.items():
        if len(values.get(name, ())) > 1:
            raise ValueError(f"`param_grid` must not vary `{name}`: {reason}.")
    label = getattr(models[0], "unlabeled_label", None)
    if label is not None:
        raise ValueError(
            f"`unlabeled_label` must be None here; got {label!r}. The bound of a semi-supervised fit is often "
            "highest where all unlabeled samples lie on one side. Choose with the labeled samples alone, then fit "
            "the winner to all."
        )
    kinds = values.get("multiclass", [])
    if len(kinds) > 1 and "multinomial" in kinds:
        raise ValueError(
            f'`param_grid` must not mix `multiclass` "multinomial" with others; got {kinds}: it gives a probability '
            "to one label per sample, the others to one sign per class and sample. Compare them by cross-validation."
        )
    _refuse_scale_free(models, values)


def refuse_other_sizes(first: BaseEstimator, other: BaseEstimator) -> None:
    """Raise where two fits under a scale-free prior on the kernel weights have different numbers of them."""
    sizes = [np.size(model.kernel_weights_) for model in (first, other)]
    if sizes[0] != sizes[1] and _is_scale_free(first, "kernel_prior"):
        raise ValueError(
            f"candidates must have the same number of kernel weights under `kernel_prior` {first.kernel_prior!r}; "
            f"got {sizes[0]} and {sizes[1]}. A prior with a concentration below {LEAST_CONCENTRATION} lowers the "
            'bound by many nats for each weight, whatever the data. Use "nonsparse", or cross-validation.'
        )


def _refuse_scale_free(models: list[Any], values: dict[str, list[Any]]) -> None:
    for name, distinct in values.items():
        if not name.endswith("_prior") or len(distinct) < 2:
            continue
        for model in models:
            if _is_scale_free(model, name):
                raise ValueError(
                    f"`param_grid` must not compare `{name}` {getattr(model, name)!r} with others: under a "
                    f"Gamma prior with a concentration below {LEAST_CONCENTRATION} the bound mostly reflects "
                    "the prior: it falls without limit as the concentration does, whatever the data. Vary "
                    "the rate of priors such as Gamma(1, rate), or compare by cross-validation."
                )
    if len(values.get("multiclass", ())) > 1 and _is_scale_free(models[0], "kernel_prior"):
        raise ValueError(
            f"`param_grid` must not vary `multiclass` under `kernel_prior` {models[0].kernel_prior!r}: it sets the "
            f"number of weights with that prior, and with a concentration below {LEAST_CONCENTRATION} each weight "
            'lowers the bound by many nats, whatever the data. Use kernel_prior="nonsparse".'
        )


def _is_scale_free(model: BaseEstimator, name: str) -> bool:
    if getattr(model, name) == "auto":
        return False
    try:
        return model._prior(name).concentration < LEAST_CONCENTRATION
    except (TypeError, ValueError):  # no such prior: the fit will say so
        return False


def _distinct(models: list[Any], name: str) -> list[Any]:
    """Return the different values of a parameter, told apart by what they look like."""
    return list({repr(getattr(model, name)): getattr(model, name) for model in models}.values())


# -------------------------------------------------------------------------------- the scale of intermediate outputs


SCALES = (1.0, 0.3, 0.1)  # in the order of the fits, each of which starts where the one before ended
USUAL = 1.0  # the paper's, where nothing is compared
N_FOLDS = 5
LEAST_SAMPLES = 3  # of every class, so that two are left in a fold
MOST_SAMPLES = 1000
MOST_ENTRIES = 2**22  # of all kernels: fifteen fits to four fifths of the samples take seconds
LEAST_PROBABILITY = 1e-15
# Of the bound. Losses are not converged here, but fits that follow each other share most of what is missing, so that
# their differences are nearly those of converged fits. With starts of their own they need a tenth of it.
TOL = 1e-3


def choose_by_folds(
    model: Any,
    settings: Settings,
    stack: Stack,
    targets: np.ndarray,
    truth: np.ndarray,
    probabilities_of: Callable[[list[Any], Stack, Settings], np.ndarray],
) -> tuple[float, np.ndarray | None]:
    r"""Return the :math:`\sigma_g` of smallest log loss in five folds, of .1, .3 and 1, and what folds say under it.

    The latter are log probabilities, (n_samples, n_classes), or None where scales are not compared.

    Every fold is fitted by "vb" to a part of the training kernels, under the "nonsparse" prior where that of the
    model has no closed-form updates. The fit with 1 has the usual start, and those with .3 and .1 start from the
    posterior before. Their tolerance is fixed, so that the choice does not depend on `tol`.

    Nothing is compared, and the usual one returned, for more than 1000 samples, kernels of more than 4 million
    entries, landmarks, streamed kernels, samples without a view, and classes of fewer than three samples.

    Parameters
    ----------
    model : BEMKLClassifier or BEMKLOrdinalClassifier
    settings : Settings
    stack : Stack
        Training kernels.
    targets : ndarray of shape (..., n_samples)
        As the model sees them; every sample has one.
    truth : ndarray of int of shape (n_samples,)
        Numbers of the classes, columns of the probabilities.
    probabilities_of : callable
        From posteriors, kernels of new rows and settings to the probabilities of the classes.
    """
    n_samples = len(truth)
    whole = stack.storage != "streamed" and stack.present is None and stack.n_train == n_samples
    few = n_samples <= MOST_SAMPLES and stack.n_kernels * n_samples**2 <= MOST_ENTRIES
    smallest = int(np.bincount(truth).min())
    if not few or not whole or smallest < LEAST_SAMPLES:
        return USUAL, None
    loop = settings.loop._replace(  # square kernels have no Newton steps
        tol=TOL, accelerate=True, step="coordinate", backend="numpy"
    )
    settings = settings._replace(inference=VB(), loop=loop, n_init=1)
    if not isinstance(settings.priors.kernel, Gamma):
        settings = settings._replace(priors=settings.priors._replace(kernel=model.PRIORS["nonsparse"]))
    held_out = np.empty((len(SCALES), n_samples, int(truth.max()) + 1))  # log probabilities
    splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=model.random_state or 0)
    folds = list(splitter.split(truth, truth))
    with step_progress(model.verbose > 0, "folds", len(folds), "fold") as report:
        for n, (train, test) in enumerate(folds):
            kernels = stack.columns(train)
            fold, rows = (DenseStack(np.ascontiguousarray(kernels[:, some])) for some in (train, test))
            gram, states = model._gram(fold), list[Any]()
            for k, scale in enumerate(SCALES):
                own = settings._replace(intermediate_scale=scale)
                problems = model._problems_of(fold, gram, np.ascontiguousarray(targets[..., train]), own)
                task = FitTask(problems, fold, targets, False, states or ["mean"] * len(problems))
                states = [result.state for result in model._maximize(task, own)]
                probabilities = probabilities_of(states, rows, own)
                held_out[k, test] = np.log(np.maximum(probabilities, LEAST_PROBABILITY))
            if report is not None:
                report(n + 1, "log loss of the scales")
    best = int(np.argmax(held_out[:, np.arange(n_samples), truth].sum(axis=1)))
    return SCALES[best], held_out[best]
