"""Cross-validation of BEMKL under a grid of priors; on JAX all folds are swept together.

What the fits have in common is done once. All settings of a fold share its kernels. Where the kernels of a fold are
those of all samples, cut to it (precomputed ones, and banks that learn nothing from the samples), all folds share
these (`FoldStack`). On JAX, the loops of fits that share their kernels advance in lock step (`batch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split

from bayesmkl._estimator import step_progress
from bayesmkl._utils.memory import available_memory
from bayesmkl._utils.options import VB
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_folds, check_grid, shown
from bayesmkl.bemkl.estimators.base import FitTask
from bayesmkl.bemkl.estimators.classifier import BEMKLClassifier
from bayesmkl.bemkl.estimators.regressor import BEMKLRegressor
from bayesmkl.bemkl.inference.batch import maximize_elbo_batch
from bayesmkl.bemkl.inference.loop import LoopOptions
from bayesmkl.bemkl.inference.runs import variational_fit
from bayesmkl.kernels.row_sources import is_row_source
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.fold import FoldStack, is_fold

__all__ = ["CrossFit", "cross_fit"]

PRIORS = (
    "bias_prior",
    "intermediate_prior",
    "intermediate_scale",
    "kernel_prior",
    "margin",
    "noise_prior",
    "sample_prior",
)
WHOLE_SHARE = 0.5  # of the available memory, for the kernels between all samples
DEVICE_SHARE = 0.25  # of the memory of an accelerator, for kernels of folds that are swept together


class CrossFit(NamedTuple):
    """One fit of `cross_fit`.

    Parameters
    ----------
    estimator : BEMKLClassifier or BEMKLRegressor
        Fitted to the samples of `train`.
    parameters : dict
        Its entry of the grid.
    train : ndarray of int, of shape (n_train,)
        Positions of the samples that it was fitted to.
    test : ndarray of int, of shape (n_test,)
        Positions of the samples that its fold leaves out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.bemkl import cross_fit
    >>> X, y = load_iris(return_X_y=True)
    >>> fit = cross_fit(BEMKLClassifier(KernelBank("rbf")), X[50::2], y[50::2], cv=2)[0]
    >>> fit.train.shape, fit.test.shape, fit.parameters
    ((25,), (25,), {})
    """

    estimator: Any
    """Fitted."""
    parameters: dict[str, Any]
    """Its entry of the grid."""
    train: np.ndarray
    """Samples that it was fitted to."""
    test: np.ndarray
    """Samples that its fold leaves out."""


class _Member(NamedTuple):
    """An estimator that is ready to be fitted: data validated, kernels computed."""

    result: CrossFit
    task: FitTask
    runs: list[tuple[Any, Any]]  # problems and starts
    in_place: bool = False  # its kernels are a part of those of all samples


def cross_fit(
    estimator: BEMKLClassifier | BEMKLRegressor,
    X: Samples,
    y: Any,
    cv: Any = 5,
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
) -> list[CrossFit]:
    """Fit clones of an estimator to all training folds, with all combinations of priors.

    With ``storage=Storage(backend="jax")`` the fits advance together: what differs between them, labels, masks and
    priors, is mapped over, so that many share one pass over the kernels, and one compilation serves all folds. On
    NumPy one follows the other, but the kernels of a fold are computed once.

    Parameters
    ----------
    estimator : BEMKLClassifier or BEMKLRegressor
        With ``inference="vb"`` and ``missing_views="error"``. It is cloned, not fitted itself.
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels or targets.
    cv : int, splitter or iterable, default=5
        Folds, as in :func:`sklearn.model_selection.cross_validate`; of a number, stratified and not shuffled for
        classes.
    param_grid : dict or list of dict, optional
        Values to try of `kernel_prior`, `sample_prior`, `bias_prior`, `margin`, `intermediate_scale`,
        `intermediate_prior` and `noise_prior`, by parameter, as in :class:`sklearn.model_selection.GridSearchCV`.

    Returns
    -------
    list of CrossFit
        Folds in their order, and for each of them the settings in the order of the grid: `estimator` (fitted),
        `parameters`, and the samples of `train` and `test`.

    Raises
    ------
    ValueError
        If the estimator, or a parameter of the grid, is not of those above; and as `fit` raises.

    Warns
    -----
    ConvergenceWarning, KernelQualityWarning
        As `fit` warns.

    Notes
    -----
    Every estimator is what its own ``fit`` finds: on NumPy to the last bit, on JAX up to the order of sums, about
    1e-12 of the largest entry of each factor after the same sweeps. How many sweeps an accelerated fit takes may
    change with that order, and its result as much as `tol` allows.

    Whether the folds can share the kernels of all samples is found out by comparing those of the first folds with
    them, to 1e-12 of their largest entry. Banks that learn from the training samples (``normalize="center"`` or
    "trace") have kernels of their own in every fold. On a CPU such folds are then fitted one after the other, and
    only the settings of one fold together; on an accelerator as many folds as fit into a quarter of its memory.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.bemkl import Gamma, cross_fit
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50::2], y[50::2]
    >>> model = BEMKLClassifier(KernelBank("rbf", views="each"), margin=1.0, intermediate_scale=1.0)
    >>> grid = {"kernel_prior": [Gamma(1, 1), Gamma(1, 0.1)]}
    >>> fits = cross_fit(model, X, y, cv=2, param_grid=grid)
    >>> [round(fit.estimator.score(X[fit.test], y[fit.test]), 2) for fit in fits]
    [0.88, 0.88, 0.92, 0.92]
    """
    check_folds("cv", cv)
    if param_grid is not None:
        check_grid("param_grid", param_grid)
    settings = list(ParameterGrid(param_grid if param_grid is not None else {}))
    _check(estimator, settings)
    if is_row_source(X):
        raise ValueError(
            f"`X` must be an array or a DataFrame, whose folds are taken by their rows; got {X!r}."
        )
    X, y = indexable(X, y)
    splits = list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))
    for rows in (np.asarray(part) for split in splits for part in split):
        if not len(rows) or rows.dtype.kind not in "biu" or (rows.dtype.kind != "b" and rows.max() >= len(y)):
            raise ValueError(f"`cv` must give positions from 0 to {len(y) - 1}; got {shown(rows)}.")
    fitted: list[CrossFit] = []
    members: list[_Member] = []  # to be fitted together
    options = estimator._loop_options()
    may_share, whole = options.backend == "jax" and len(splits) > 1, None
    for train, test in splits:
        own = list(_members(estimator, X, y, (np.asarray(train), np.asarray(test)), settings))
        if may_share:
            whole = _whole_stack(estimator, X, own[0].task.stack) if whole is None else whole
            may_share = whole is not None and is_fold(own[0].task.stack, whole, np.asarray(train))
        if may_share and whole is not None:
            stack = FoldStack(whole, np.asarray(train))
            own = [_in_place(member, stack) for member in own]
        members += own
        if _bytes(members) + _bytes(own) > _room(options):
            fitted, members = fitted + _fit(members, options), []
    return fitted + _fit(members, options)


# -------------------------------------------------------------------------------------------------------- checks


def _check(estimator: BaseEstimator, settings: list[dict[str, Any]]) -> None:
    if not isinstance(estimator, (BEMKLClassifier, BEMKLRegressor)):
        raise ValueError(
            f"`estimator` must be a BEMKLClassifier or BEMKLRegressor; got {type(estimator).__name__}. For others, "
            "pipelines among them, use sklearn.model_selection.cross_validate."
        )
    if estimator.missing_views != "error":
        raise ValueError(
            f'`estimator` must have missing_views="error"; got {estimator.missing_views!r}. Fits that integrate over '
            "missing views cannot advance together: use sklearn.model_selection.cross_validate."
        )
    if not isinstance(estimator._inference(), VB):
        raise ValueError(
            f'`estimator` must have inference="vb"; got {estimator.inference!r}. Samplers run one after the other: '
            "use sklearn.model_selection.cross_validate."
        )
    _check_names(estimator, settings)
    for setting in settings:
        try:
            clone(estimator).set_params(**clone(setting, safe=False))._check_parameters()
        except ValueError as error:
            raise ValueError(f"`param_grid`: {error}") from error


def _check_names(estimator: BaseEstimator, settings: list[dict[str, Any]]) -> None:
    allowed = [name for name in PRIORS if name in estimator.get_params(deep=False)]
    for name in dict.fromkeys(name for setting in settings for name in setting):
        if name not in allowed:
            raise ValueError(
                f"`param_grid` must vary only {', '.join(allowed)}; got {name!r}. Everything else changes kernels or "
                "the loop: call cross_fit once for each value, or use sklearn.model_selection.GridSearchCV."
            )


# ------------------------------------------------------------------------------------------------------- folds


def _members(
    estimator: BaseEstimator,
    X: Samples,
    y: Targets,
    split: tuple[np.ndarray, np.ndarray],
    settings: list[dict[str, Any]],
) -> Iterator[_Member]:
    """Prepare the estimators of one fold; its kernels and their gram matrix are computed once."""
    X_train, y_train = _safe_split(estimator, X, y, split[0])
    learned: dict[str, Any] = {}
    for setting in settings:
        model = clone(estimator).set_params(**clone(setting, safe=False))
        if not learned:
            stack, targets = model._prepare(X_train, y_train)
            gram = model._gram(stack)
            learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
        else:
            vars(model).update(learned)
        task = model._task(stack, gram, targets)
        runs = model._runs(task.algorithm, task.problems, task.inits, model._loop_options(), model._rng())
        yield _Member(CrossFit(model, setting, *split), task, runs)


def _whole_stack(estimator: BaseEstimator, X: Any, fold: Any) -> DenseStack | None:
    """Return the kernels between all samples, if those of a fold can be parts of them."""
    in_one_array = fold.storage == "dense" and fold.mesh is None
    if not in_one_array or fold.present is not None or fold.n_rows != fold.n_train:
        return None
    if estimator._is_precomputed():
        kernels = np.asarray(X, dtype=np.float64)
        kernels = kernels[..., None] if kernels.ndim == 2 else kernels
    else:
        room, n_samples = available_memory(), X.shape[0] if hasattr(X, "shape") else len(X)
        if room is not None and 8 * fold.n_kernels * n_samples**2 > WHOLE_SHARE * room:
            return None
        kernels = estimator._new_bank().fit_transform(X)
    return DenseStack(np.ascontiguousarray(np.moveaxis(kernels, -1, 0)))


def _in_place(member: _Member, stack: FoldStack) -> _Member:
    """Replace the kernels of a member by a part of those of all samples."""
    problems = {id(problem): problem._replace(stack=stack) for problem in member.task.problems}
    task = member.task._replace(problems=list(problems.values()), stack=stack)
    runs = [(problems[id(problem)], start) for problem, start in member.runs]
    return member._replace(task=task, runs=runs, in_place=True)


def _bytes(members: list[_Member]) -> int:
    """Return the memory in bytes of the kernels that belong to some of the members only."""
    stacks = {id(member.task.stack): member.task.stack for member in members if not member.in_place}
    return sum(stack.nbytes for stack in stacks.values())


def _room(options: LoopOptions) -> float:
    """Return the bytes of kernels that are worth keeping for fits that advance together."""
    if options.backend != "jax":
        return 0.0
    import jax

    device = jax.devices()[0]
    memory = None if device.platform == "cpu" else device.memory_stats()
    return DEVICE_SHARE * memory["bytes_limit"] if memory else 0.0


# --------------------------------------------------------------------------------------------------------- fits


def _fit(members: list[_Member], options: LoopOptions) -> list[CrossFit]:
    """Run the loops of all members together, and set their fitted attributes."""
    algorithms = dict.fromkeys(member.task.algorithm for member in members)  # two: a fold may lack classes
    for algorithm in algorithms:
        group = [member for member in members if member.task.algorithm is algorithm]
        runs = [run for member in group for run in member.runs]
        problems, starts = map(list, zip(*runs, strict=True))
        verbose, label = group[0].result.estimator.verbose, f"{len(runs)} models"
        with step_progress(verbose > 0, label, options.max_iter, "sweep") as report:
            on_sweep = None if report is None else lambda n, elbo: report(n, f"ELBO {elbo:.4f}")
            results = iter(maximize_elbo_batch(algorithm, problems, starts, options, on_sweep))
        for member in group:
            model, own = member.result.estimator, [next(results) for _ in member.runs]
            model._conclude(member.task, [variational_fit(result) for result in model._highest(own)])
    return [member.result for member in members]
