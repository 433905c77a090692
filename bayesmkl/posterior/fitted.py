"""One description of a fitted model, of BEMKL or an additive Gaussian process, also inside pipelines and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples
from bayesmkl.bemkl import BEMKLClassifier, BEMKLOrdinalClassifier, BEMKLRegressor, BEMKLSurvival
from bayesmkl.bemkl.draws import NonnegativeGamma, PosteriorDraws, variational_draws
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.multitask_estimators import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor
from bayesmkl.bemkl.nonnegative import NonnegativeReadout
from bayesmkl.bemkl.reading import ScoreDraws
from bayesmkl.gp import GPMKLClassifier, GPMKLOrdinalClassifier, GPMKLRegressor, GPMKLSurvival
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.estimators.settings import is_spike_slab
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels.stacks.dense import DenseStack

MODEL = entries(
    """
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, with any inference, or a Pipeline or
        search that ends in one.
    model:times : estimator
        A fitted GPMKLSurvival or BEMKLSurvival, or a Pipeline or search that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_features), or kernels
        New samples, as for `predict` of the model.
    kernels:kept : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, if the model was fitted to precomputed kernels and does not keep them.
    ci_prob : float, default=0.94
        Probability content of the equal-tailed intervals.
    ci_prob:plot : float, default=0.94
        Probability content of the intervals, see :func:`kernel_table`.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws from a variational posterior.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.

    TypeError
        For any other model; for a multitask model too.
    TypeError:tasks
        For any other model.
    """
)


_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

SINGLE = (BEMKLClassifier, BEMKLRegressor, BEMKLOrdinalClassifier, BEMKLSurvival)
MULTITASK = (BEMKLMultitaskClassifier, BEMKLMultitaskRegressor)
MARGINAL = (GPMKLClassifier, GPMKLRegressor, GPMKLOrdinalClassifier, GPMKLSurvival)
# BEMKL of other outcomes than labels and numbers, and the additive Gaussian processes of these.
PROCESSES: dict[type, str] = {
    BEMKLOrdinalClassifier: "GPMKLOrdinalClassifier",
    BEMKLSurvival: "GPMKLSurvival",
}
# Why a model of missing views cannot be sampled or refitted.
ABSENT = 'it integrates over missing views. Fit with missing_views="error" to samples that have all views.'
N_DRAWS = 1000  # from a variational posterior, where nothing else is asked for


class FittedBEMKL(NamedTuple):
    """The posterior and names of a fitted model, of BEMKL or an additive Gaussian process.

    There is one state, or one for each of the outputs (classes, labels) where these have kernel weights of their own.
    """

    estimator: Any  # BEMKLClassifier or BEMKLRegressor
    states: tuple[Any, ...]  # factors of a variational posterior, PosteriorDraws, or HyperDraws
    histories: tuple[np.ndarray, ...]  # ELBO after every sweep; empty where the inference has no bound
    kernel_names: list[str]
    kernel_views: list[str] | None  # None where kernels were precomputed
    output_names: list[str] | None  # of more than two classes, or of several labels or targets
    transformers: tuple[Any, ...] = ()  # what the samples pass in a Pipeline before the estimator

    @property
    def inference(self) -> str:
        """Inference that found the posterior: "vb", "nuts", "gibbs" or "marginal"."""
        return self.estimator._inference().name if self.is_drawn or self.is_marginal else "vb"

    @property
    def temperature(self) -> float:
        """Temperature of predicted class probabilities; 1 where none takes part."""
        return getattr(self.estimator, "temperature_", 1.0)

    @property
    def is_marginal(self) -> bool:
        """Whether function values are integrated out, and there are draws of shares and training scores."""
        return isinstance(self.states[0], HyperDraws)

    @property
    def selects_kernels(self) -> bool:
        """Whether it is an additive Gaussian process under a spike-and-slab prior."""
        return self.is_marginal and is_spike_slab(self.estimator.kernel_prior, self.estimator.KERNEL_PRIORS)

    @property
    def design(self) -> FittedDesign | None:
        """Covariates, groups and tasks beside the kernels; None of BEMKL."""
        return self.estimator.design_ if self.is_marginal else None

    @property
    def has_tasks(self) -> bool:
        """Whether the design has tasks; BEMKL has estimators of its own for them."""
        return self.design is not None and self.design.has_tasks

    @property
    def process(self) -> str | None:
        """The Gaussian process to fit instead, where BEMKL has little more than tables; else None."""
        return PROCESSES.get(type(self.estimator))

    @property
    def is_drawn(self) -> bool:
        """Whether the posterior is a set of draws of Markov chains over all weights, one chain after the other."""
        return isinstance(self.states[0], PosteriorDraws)

    @property
    def class_names(self) -> list[str] | None:
        """Names of the outputs where each has kernel weights of its own; None of a single model."""
        return self.output_names if len(self.states) > 1 else None

    @property
    def class_labels(self) -> np.ndarray | None:
        """Kind of `class_names`: classes, labels or tasks as they are; None of a single model."""
        return _output_labels(self.estimator) if len(self.states) > 1 else None

    def kernel_groups(self, by: str | None) -> list[str]:
        """Return for every kernel the view that it is of, or its name, see `groups_of`."""
        return groups_of(self.kernel_names, self.kernel_views, by)

    @property
    def model_names(self) -> list[str]:
        """One name for each of `states`: its class or label, or "model" if there is but one."""
        return self.class_names or ["model"]

    @property
    def output_kind(self) -> str:
        """Kind of the outputs: "class", "label", "output" or "task"."""
        if isinstance(self.estimator, MULTITASK):
            return "task"
        if not self.is_classifier:
            return "output"
        return "label" if getattr(self.estimator, "is_multilabel_", False) else "class"

    @property
    def outcome(self) -> str:
        """Kind of the targets: "labels" (classes too), "numbers", "counts", "grades" or "times"."""
        own = getattr(self.estimator, "_OUTCOME", None)
        return own or ("labels" if hasattr(self.estimator, "classes_") else "numbers")

    @property
    def is_classifier(self) -> bool:
        """Whether targets are classes or labels, without an order."""
        return self.outcome == "labels"

    def units(self, k: int) -> tuple[float, float]:
        """Return location and scale that turn what the model sees of output `k` into the units of the user."""
        if self.outcome != "numbers" or (np.ndim(self.estimator.y_scale_) and self.output_names is None):
            return 0.0, 1.0  # tasks have units of their own
        location, scale = (np.atleast_1d(v) for v in (self.estimator.y_mean_, self.estimator.y_scale_))
        return float(location[k]), float(scale[k])

    def about_output(self, k: int) -> dict[str, str]:
        """Return the column that says which output a row of a table is of, where there are several."""
        return {} if self.output_names is None else {self.output_kind: self.output_names[k]}

    @property
    def is_multinomial(self) -> bool:
        """Whether the outputs are classes that compete for a sample."""
        return isinstance(self.states[0], State) and self.states[0].competes

    @property
    def labeled(self) -> np.ndarray:
        """Mask of training samples with a target, (n_samples,) of bool: all but those marked as unlabeled."""
        unlabeled = self.is_classifier and self.estimator.target_.ndim == 1
        return (self.estimator.target_ != 0.0) if unlabeled else np.ones(self.n_samples, dtype=bool)

    @property
    def n_samples(self) -> int:
        """Number of training samples."""
        return self.estimator.target_.shape[-1]

    @property
    def has_landmarks(self) -> bool:
        """Whether `a` has an entry per landmark, not per training sample."""
        bank = self.estimator.kernel_bank_
        return bank is not None and bank.landmarks_ is not None

    def refuse_landmarks(self, what: str) -> None:
        """Raise for an additive Gaussian process of pseudo-samples, which has no draws at its training samples.

        Parameters
        ----------
        what : str
            That needs these.
        """
        if self.is_marginal and self.has_landmarks:
            raise ValueError(
                f"`model` compares samples with landmarks, and has no draws of their scores for {what}. Fit one with "
                "`landmarks=None` to some of the samples."
            )

    @property
    def n_basis(self) -> int:
        """Number of landmarks, or of training samples without them."""
        return len(self.estimator.kernel_bank_.basis_) if self.has_landmarks else self.n_samples

    @property
    def target(self) -> np.ndarray:
        """Training labels, or targets in their own units.

        The shape is (n_samples,), or (n_samples, n_outputs) with several labels (0 and 1) or targets.
        """
        estimator, codes = self.estimator, self.estimator.target_
        if not self.is_classifier and (self.is_marginal or self.outcome != "numbers"):
            return estimator._target_in_units()
        if not self.is_classifier:
            return estimator.y_mean_ + estimator.y_scale_ * codes.T
        if self.output_kind == "label":
            return (codes.T > 0).astype(int)
        if codes.ndim == 2:
            return estimator.classes_[codes.argmax(axis=0)]
        labels = estimator.classes_[(codes > 0).astype(int)]
        return labels if self.labeled.all() else np.where(self.labeled, labels, estimator.unlabeled_label)

    @property
    def endings(self) -> list[str]:
        """Outcome of the inference as text; once if several models have the same."""
        outcomes = self.estimator.outcome_ if len(self.states) > 1 else [self.estimator.outcome_]
        return list(dict.fromkeys(outcome.value for outcome in outcomes))

    def draws(self, n_draws: int | None, rng: np.random.Generator) -> list[PosteriorDraws]:
        """Draw from a variational posterior, or thin the chains evenly; one PosteriorDraws per model.

        Outputs that share their kernel weights are an axis of it.

        Parameters
        ----------
        n_draws : int or None
            Draws in each chain: of existing chains at most as many as there are. None keeps all of them, or draws
            1000 from a variational posterior.
        rng : numpy.random.Generator
        """
        if not self.is_drawn:
            return [variational_draws(state, n_draws or N_DRAWS, rng) for state in self.states]
        return [own.map(lambda values: values[:, evenly(values.shape[1], n_draws)]) for own in self.states]

    def statistics(self, n_draws: int | None) -> list[dict[str, np.ndarray]]:
        """Return the sampler statistics of each draw of `draws`, by name; one dictionary per model."""
        stats = getattr(self.estimator, "sample_stats_", {})
        per_model = list(stats) if isinstance(stats, tuple) else [stats] * len(self.states)
        return [
            {name: values[:, evenly(values.shape[1], n_draws)] for name, values in own.items()}
            for own in per_model
        ]

    def weight_draws(self, k: int) -> np.ndarray | None:
        """Return the kernel weights of all draws of model `k`, (n_draws, n_kernels); None of "vb"."""
        if self.is_marginal:
            return self.states[k].kernel_weights[self.states[k].point]
        return self.states[k].flat().kernel_weights if self.is_drawn else None

    def included(self, k: int) -> np.ndarray | None:
        """Return which kernels are in every draw of model `k`, (n_draws, n_kernels); None where all of them are.

        Of chains over sets of kernels draws are all sweeps, of which the posterior has some.
        """
        if self.selects_kernels and self.states[k].included.size:
            return self.states[k].included.reshape(-1, len(self.kernel_names))
        if self.selects_kernels:
            return (self.states[k].kernel_weights > 0.0)[self.states[k].point]
        found = self.states[k].flat().kernel_inclusion if self.is_drawn else None
        return None if found is None else found > 0.5

    def training_stack(self, kernels: ArrayLike | None = None) -> DenseStack:
        """Return the training kernels, evaluated anew, or those that the user gives back.

        Parameters
        ----------
        kernels : array-like of shape (n_samples, n_samples, n_kernels), optional
            Training kernels of the model, if they were precomputed.

        Raises
        ------
        ValueError
            If precomputed kernels are missing, of the wrong shape, or given where a bank has them.
        """
        estimator = self.estimator
        bank = estimator.kernel_bank_
        if kernels is not None and bank is not None:
            raise ValueError(
                "`kernels` is for models that were fitted to precomputed kernels; this one evaluates its own "
                "kernels with its KernelBank. Leave it out."
            )
        if kernels is None and bank is None and not self.is_marginal:
            raise ValueError(
                "`kernels` must be the training kernels of shape (n_samples, n_samples, n_kernels): the model was "
                "fitted to precomputed ones and does not keep them. Pass the stack that `fit` got."
            )
        if kernels is not None:
            kernels = self._checked(kernels)
        if self.is_marginal:  # which keeps them
            return estimator._stored_training()
        return estimator._training_stack() if bank is not None else estimator._row_stack(kernels)

    def _checked(self, kernels: ArrayLike) -> np.ndarray:
        """Return training kernels that were given back; raise for others."""
        n_train, n_kernels = self.estimator.n_features_in_, self.estimator._n_kernels_given
        kernels = check_numbers("kernels", kernels)
        alone = n_kernels == 1 and kernels.shape == (n_train, n_train)
        if kernels.shape != (n_train, n_train, n_kernels) and not alone:
            raise ValueError(
                f"`kernels` must be the training kernels of shape ({n_train}, {n_train}, {n_kernels}); got "
                f"{kernels.shape}. Pass the stack that `fit` got."
            )
        complete = getattr(self.estimator, "present_", None) is None
        if complete and not np.isfinite(kernels.astype(np.float64)).all():
            raise ValueError("`kernels` must be finite; got NaN or infinity. Pass the stack that `fit` got.")
        return kernels

    def refuse_kernels(self, kernels: ArrayLike | None) -> None:
        """Raise for wrong training kernels, where they are given and not needed."""
        if kernels is not None:
            self.training_stack(kernels)

    def transform(self, X: Samples) -> Any:
        """Pass new samples through the steps before the estimator."""
        return passed(self.transformers, X)

    def scores(self, X: Samples) -> ScoreDraws | None:
        """Predict the score of new samples in regression where there are draws of it; else None."""
        (score, *_), _ = self.estimator._scores(self.estimator._row_stack(self.transform(X)))
        return score if isinstance(score, ScoreDraws) else None

    def problems(self, kernels: ArrayLike | None = None) -> list[Any]:
        """Return the problem of each model, without its Gram matrix; `kernels` as in `training_stack`."""
        return self._problems_over(self.training_stack(kernels))

    def problems_without_kernels(self) -> list[Any]:
        """Return the same over a stack without rows, which has priors and targets and costs nothing."""
        return self._problems_over(DenseStack(np.empty((self.estimator.n_kernels_in_, 0, self.n_basis))))

    def _problems_over(self, stack: DenseStack) -> list[Any]:
        problems = self.estimator._problems(stack, with_gram=False)
        return [_completed(*pair) for pair in zip(problems, self.states, strict=True)]


def _completed(problem: Any, state: State | PosteriorDraws) -> Any:
    """Put into a problem what its posterior tells of the model: signs of weights, cut points, and of absent views.

    Where samples lack views, the posterior belongs to kernels that are measured from a center.
    """
    if isinstance(state, PosteriorDraws):
        return problem
    if state.distances is not None:
        problem = problem._replace(outcome=problem.outcome._replace(distances=state.distances))
    if isinstance(state.readout, NonnegativeReadout):
        prior = NonnegativeGamma(*problem.priors.kernel)
        problem = problem._replace(priors=problem.priors._replace(kernel=prior))
    absent = getattr(state.intermediate, "absent", None)
    if absent is None:
        return problem
    return problem._replace(stack=absent.moments.centered(problem.stack), absent=absent)


def groups_of(kernels: list[str], views: list[str] | None, by: str | None) -> list[str]:
    """Return for every kernel the view that it is of, or its name: of "kernel", and where there are no views."""
    if by == "view" and views is None:
        raise ValueError(
            '`by` "view" needs the views of a KernelBank; `model` was fitted to precomputed kernels. Use by="kernel".'
        )
    return kernels if by == "kernel" or views is None else views


def evenly(n_total: int, n_kept: int | None) -> np.ndarray:
    """Return the indices of at most `n_kept` of `n_total` entries at even distances; None keeps all.

    Examples
    --------
    >>> evenly(10, 4)
    array([0, 2, 5, 7])
    """
    n_kept = n_total if n_kept is None else min(n_kept, n_total)
    return np.arange(n_kept) * n_total // n_kept


def public(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Fill the entries of `MODEL` into the docstring of a public function, and run it under settings of its own."""
    return fill_docs(MODEL)(own_settings(function))


def fitted_bemkl(
    model: BaseEstimator, multitask: bool = False, no_process: str | None = None, of_outcome: bool = True
) -> FittedBEMKL:
    """Find the fitted BEMKL estimator in `model`, or the additive Gaussian process.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or BEMKLOrdinalClassifier, an additive Gaussian process, or a
        Pipeline or search that ends in one.
    multitask : bool, default=False
        Whether multitask models will do as well, of which only names and fitted attributes are described.
    no_process : str, optional
        Why additive Gaussian processes will not do, whose posterior has other draws, and what to do instead.
    of_outcome : bool, default=True
        Whether BEMKL of grades and times will do.

    Returns
    -------
    FittedBEMKL

    Raises
    ------
    TypeError
        For any other object.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    found = unwrapped(model, (*SINGLE, *MULTITASK, *MARGINAL))
    if found is None:
        raise TypeError(
            "`model` must be a BEMKLClassifier, a BEMKLRegressor, a GPMKLClassifier, a GPMKLRegressor or another "
            "estimator of bayesmkl.gp, or a Pipeline or fitted search that ends in one; got "
            f"{type(model).__name__}, which has no BEMKL posterior."
        )
    estimator, transformers = found
    if isinstance(estimator, MULTITASK) and not multitask:
        raise TypeError(
            f"`model` must not be a multitask model; got {type(estimator).__name__}. Use `kernel_table`, "
            "`plot_kernel_weights` or `plot_elbo`, or fit one task alone."
        )
    if isinstance(estimator, MARGINAL) and no_process is not None:
        raise TypeError(f"`model` must be a BEMKL model; got {type(estimator).__name__}, {no_process}")
    if type(estimator) in PROCESSES and not of_outcome:
        raise TypeError(
            f"`model` must not be a {type(estimator).__name__}, which only has tables, plots of weights, draws and "
            f"`to_datatree`. Fit a {PROCESSES[type(estimator)]} to the same kernels for the rest."
        )
    check_is_fitted(estimator, "posterior_")
    histories = getattr(estimator, "elbo_history_", ())
    labels = _output_labels(estimator)
    return FittedBEMKL(
        estimator,
        states_of(estimator),
        (histories,) if isinstance(histories, np.ndarray) else tuple(histories),
        [str(name) for name in estimator.kernel_names_],
        _views_of(estimator),
        None if labels is None else [str(label) for label in labels],
        tuple(transformers),
    )


def _views_of(estimator: Any) -> list[str] | None:
    """Return the view of every kernel; None of precomputed ones without."""
    if estimator.kernel_bank_ is not None:
        return list(estimator.kernel_bank_.kernel_views_)
    return None if getattr(estimator, "kernel_views", None) is None else estimator._kernel_views()


def unwrapped(model: Any, kinds: tuple[type, ...]) -> tuple[Any, list[Any]] | None:
    """Return the estimator of one of some classes in `model`, and what its samples pass before; None without one.

    Parameters
    ----------
    model : estimator
        Or a Pipeline or fitted search that ends in one.
    kinds : tuple of type
    """
    estimator, transformers = model, []
    while not isinstance(estimator, kinds):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif getattr(estimator, "steps", None):
            transformers += [step for _, step in estimator.steps[:-1] if hasattr(step, "transform")]
            estimator = estimator.steps[-1][1]
        else:
            return None
    return estimator, transformers


def passed(transformers: Iterable[Any], X: Samples) -> Any:
    """Pass new samples through the steps before an estimator."""
    for step in transformers:
        X = step.transform(X)
    return X


def same_targets(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether training targets are the same; numbers up to rounding."""
    if first.shape != second.shape:
        return False
    numeric = all(np.issubdtype(each.dtype, np.floating) for each in (first, second))
    return np.allclose(first, second, rtol=1e-9) if numeric else bool((first == second).all())


def states_of(estimator: BaseEstimator) -> tuple[Any, ...]:
    """Return the posterior of every set of kernel weights; tasks have one each, within that of all.

    Parameters
    ----------
    estimator : estimator
        Fitted.
    """
    if isinstance(estimator, MULTITASK):
        return (None,) * len(estimator.tasks_)
    posterior = estimator.posterior_
    return posterior if type(posterior) is tuple else (posterior,)  # a single posterior is a NamedTuple


def _output_labels(estimator: BaseEstimator) -> np.ndarray | None:
    """Return classes and labels, or numbers of targets; None of a single output."""
    if isinstance(estimator, MULTITASK):
        return np.asarray(estimator.tasks_)
    if not has_outputs(estimator):
        return None
    return np.asarray(getattr(estimator, "classes_", range(len(estimator.target_))))


def has_outputs(estimator: Any) -> bool:
    """Return whether the target of a fitted estimator has an axis of outputs."""
    if isinstance(estimator, MARGINAL):
        return estimator._has_outputs
    return estimator.target_.ndim == 2 and type(estimator) not in PROCESSES


OF_TIMES = "Fit a GPMKLSurvival or a BEMKLSurvival to times to an event."


@public
def predict_latent(model: BaseEstimator, X: Samples, return_std: bool = False) -> Any:
    """Predict latent scores of new samples, also with a model inside a Pipeline or search.

    Parameters
    ----------
    %(model)s
    %(X)s
    return_std : bool, default=False
        Also return standard deviations.

    Returns
    -------
    mean : ndarray of shape (n_rows,), or (n_rows, n_outputs) of several classes, labels, targets or tasks
        As `predict_latent` of the estimator returns.
    std : ndarray of the same shape
        Standard deviations, with `return_std`.

    Raises
    ------
    TypeError
        For any other model, or one without a latent score.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import predict_latent
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = make_pipeline(StandardScaler(), BEMKLClassifier(KernelBank())).fit(X, X[:, 0] > 0)
    >>> mean, std = predict_latent(model, X[:5], return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """
    remedy = (
        "Use `predict(X, return_std=True)` of the estimator or its pipeline for the moments of the target."
    )
    return _ask(model, X, "predict_latent", remedy, return_std=return_std)


@public
def predict_survival_function(
    model: BaseEstimator, X: Samples, times: ArrayLike | None = None, ci_prob: float | None = None
) -> Any:
    """Predict survival probabilities at given times, also with a model inside a Pipeline or search.

    Parameters
    ----------
    %(model:times)s
    %(X)s
    times : array-like of shape (n_times,), default=None
        Times, in the units of the training times. None takes the observed times of events.
    ci_prob : float, default=None
        Also return bounds of the equal-tailed interval of this probability content, pointwise.

    Returns
    -------
    survival : ndarray of shape (n_rows, n_times)
        Posterior mean of the survival function of every row.
    lower, upper : ndarray of the same shape
        Its bounds, with `ci_prob`.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl.bemkl import BEMKLSurvival
    >>> from bayesmkl.posterior import predict_survival_function
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.rec.fromarrays([np.full(40, True), np.exp(X[:, 0])], names="event,time")
    >>> model = make_pipeline(StandardScaler(), BEMKLSurvival()).fit(X, y)
    >>> predict_survival_function(model, X[:5], [0.5, 1.0]).shape
    (5, 2)
    """
    return _ask(model, X, "predict_survival_function", OF_TIMES, times=times, ci_prob=ci_prob)


@public
def predict_quantile(model: BaseEstimator, X: Samples, q: float = 0.5) -> np.ndarray:
    """Predict the time by which the event has happened with probability `q`, also inside a Pipeline or search.

    Parameters
    ----------
    %(model:times)s
    %(X)s
    q : float, default=0.5
        The probability; 0.5 gives median times.

    Returns
    -------
    ndarray of shape (n_rows,)
        Times, in the units of the training times.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl.bemkl import BEMKLSurvival
    >>> from bayesmkl.posterior import predict_quantile
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.rec.fromarrays([np.full(40, True), np.exp(X[:, 0])], names="event,time")
    >>> predict_quantile(make_pipeline(StandardScaler(), BEMKLSurvival()).fit(X, y), X[:5]).shape
    (5,)
    """
    return _ask(model, X, "predict_quantile", OF_TIMES, q=q)


def _ask(model: BaseEstimator, X: Samples, method: str, remedy: str, **options: Any) -> Any:
    """Call a method of the final estimator on rows that have passed the steps before it."""
    fitted = fitted_bemkl(model, multitask=True)
    if not hasattr(fitted.estimator, method):
        raise TypeError(
            f"`model` must be a model with `{method}`; got {type(fitted.estimator).__name__}. {remedy}"
        )
    return getattr(fitted.estimator, method)(fitted.transform(X), **options)
