"""Comparison of models in one call: common splits, tuning inside the training part, kernels computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names
from sklearn.utils.validation import check_consistent_length

from bayesmkl._utils.files import as_path
from bayesmkl._utils.given import as_array, check_weights
from bayesmkl._utils.progress import cell_progress
from bayesmkl._utils.typing import Samples, Scoring, Splits, Targets
from bayesmkl._utils.validation import (
    check_flag,
    check_folds,
    check_grid,
    check_integer,
    check_jobs,
    check_number,
    check_verbose,
    shown,
)
from bayesmkl._utils.warnings import warn_user
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.predictions import final_estimator, weight_argument
from bayesmkl.evaluation.runner import run_study
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec, Study, bundled, in_memory

__all__ = ["check_weighted", "compare_models"]

ONLY = "data"  # name of the data set that comes as X and y


def compare_models(
    models: Mapping[str, Any] | Sequence[tuple[str, Any]],
    X: Samples | None = None,
    y: Targets | None = None,
    *,
    datasets: Mapping[str, object] | Sequence[str] | str | None = None,
    cv: Splits | None = 5,
    scoring: Scoring | None = None,
    inner_cv: Splits | None = 5,
    inner_scoring: str | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    unavailable: str = "raise",
    verbose: int = 0,
    folder: str | PathLike[str] | None = None,
    keep_predictions: bool | float = True,
    keys: Mapping[str, str] | None = None,
    retry_failed: bool = False,
) -> Comparison:
    """Fit and score models on the same splits of one or several data sets.

    Models with equal kernel banks share their kernels, which are computed once per split. Every fit runs on one BLAS
    thread, so that times compare and results do not depend on `n_jobs`.

    Parameters
    ----------
    models : dict or list of (name, model)
        A model is an estimator of this package, of scikit-learn or of scikit-survival, or a pair
        ``(estimator, param_grid)``, tuned by a cross-validation inside every training part. Models that fail are
        recorded with their error.
    X : array-like or DataFrame of shape (n_samples, n_features), default=None
        Samples; or (n_samples, n_samples, n_kernels) for models of precomputed kernels.
    y : array-like of shape (n_samples,), default=None
        Labels or targets; or (n_samples, n_columns), several targets of each sample, or labels that are 0 or 1, for
        models that take them. For models of survival a structured array of events and times, as `GPMKLSurvival` and
        scikit-survival take it.
    datasets : dict or list, default=None
        Several data sets in place of `X` and `y`: names of data sets in the package ("wdbc", "iris", "wine",
        "digits", "diabetes", "gbsg2", "lung"), or a dict of name to one of these, ``(X, y)``, ``(X, y, groups)`` or
        ``(X, y, groups, sample_weight)``.
    cv : int, splitter or list of (train, test), default=5
        Number of shuffled folds, stratified for classes, and by the event of survival times; a splitter of
        scikit-learn; or rows.
    scoring : str, list of str or dict, default=None
        Metrics: "accuracy", "balanced_accuracy", "f1", "mcc", "auc", "eer", "log_loss", "brier", "ece"; "r2",
        "rmse", "mae", "nll", "coverage_95", "coverage_gap" (its distance from .95, which ranks models);
        "concordance", "concordance_uno", "integrated_brier_score", "calibration_at_median" of survival times; "elbo"
        and "elpd_loo" of a posterior; any name that scikit-learn knows; or name to ``scorer(estimator, X, y)``. None
        takes what the models can give, the first being "accuracy", "r2" or "concordance".
    inner_cv : int or splitter, default=5
        For models with a grid.
    inner_scoring : str, default=None
        Metric by which grids choose; None is the estimator's own score.
    groups : array-like of shape (n_samples,), default=None
        Samples of a group are never on both sides of a split; with `X` and `y`. None takes the group columns that
        models name in their :class:`~bayesmkl.marginal.Design`, if they do: a number of folds keeps these together
        too, which ``about`` says. A splitter as `cv` decides otherwise.
    sample_weight : array-like of shape (n_samples,), default=None
        How often each sample counts in fits, for models that take it, also as the last step of a Pipeline; with `X`
        and `y`. In scores all test rows count alike.
    n_jobs : int, default=None
        Processes, as everywhere in joblib; with ``joblib.parallel_config("dask")`` those of a cluster.
    random_state : int, default=0
        Decides the splits and all random states of models that are open.
    unavailable : {"raise", "nan"}, default="raise"
        Treatment of a named metric that some model cannot give, such as a log loss without probabilities.
    verbose : int, default=0
        1 shows progress and the time that is left, on a terminal.
    folder : path-like, default=None
        Folder of finished cells, which are told by their content. What is there is not computed again: an interrupted
        comparison continues when it is called again, and one with more models, metrics, data sets or splits computes
        what is new.
    keep_predictions : bool or float, default=True
        Whether cells keep what was predicted of their test rows, with labels: data of persons, where a folder is
        shared. True keeps up to 64 MiB of a cell, a number as many MiB; without a folder a GiB in all. What a folder
        keeps of earlier calls stays.
    keys : dict of str to str, default=None
        With `folder`: by the name of a model or metric that has no content to be told by, such as an open file, a
        text of yours that stands for it. Change it whenever the model changes.
    retry_failed : bool, default=False
        With `folder`: compute its cells again that failed, for want of memory or of a file for example. They stay as
        they are otherwise.

    Returns
    -------
    Comparison
        All cells, with ``summary()``, ``ranks()``, ``significance()``, ``plot()`` and ``to_html(path)``.

    Raises
    ------
    ValueError
        For arguments of another kind than those above, two models of one name, an unknown metric or data set, a
        metric that a model cannot give or of another task, survival times of which a part has no event, more folds
        than groups, weights or several columns of `y` where a model takes none, models whose designs name different
        groups, a model without content where there is a folder, or a folder of an earlier version or of something
        else.
    TypeError
        If `folder` is no path.

    Examples
    --------
    Two ways to combine the kernels of single features, and a grid of SVMs on one kernel of all of them:

    >>> from sklearn.svm import SVC
    >>> from bayesmkl.datasets import load_wdbc
    >>> from bayesmkl.discriminative import EasyMKLClassifier, UniformMKLClassifier
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.kernels import Gaussian, KernelBank
    >>> X, y = load_wdbc(return_X_y=True)
    >>> X = (X[::5, :4] - X[:, :4].mean(axis=0)) / X[:, :4].std(axis=0)
    >>> bank = KernelBank(Gaussian(width=1.0), views="each")
    >>> found = compare_models(
    ...     {
    ...         "uniform": UniformMKLClassifier(bank),
    ...         "EasyMKL": EasyMKLClassifier(bank),
    ...         "svm": (SVC(), {"C": [0.1, 1.0, 10.0]}),
    ...     },
    ...     X,
    ...     y[::5],
    ...     scoring=["accuracy", "auc"],
    ... )
    >>> found.scores("accuracy").shape, found.failures.empty
    ((5, 3), True)
    """
    check_jobs("n_jobs", n_jobs)
    check_verbose("verbose", verbose)
    if check_integer("random_state", random_state, low=0) >= 2**32:
        raise ValueError(f"`random_state` must be below 2**32; got {random_state}.")
    check_folds("cv", cv)
    check_folds("inner_cv", inner_cv)
    _check_inner_scoring(inner_scoring)
    if not isinstance(keep_predictions, bool):
        check_number("keep_predictions", keep_predictions, low=0.0)
    _check_keys(keys)
    check_flag("retry_failed", retry_failed)
    where = None if folder is None else as_path("folder", folder)
    specs, data = _models(models), _datasets(X, y, groups, sample_weight, datasets, cv)
    if any(ref.load is in_memory and ref.options["data"].weights is not None for ref in data.values()):
        check_weighted(specs)
    study = Study(
        data,
        specs,
        None if _is_pairs(cv) else cv,
        scoring,
        inner_cv,
        inner_scoring,
        random_state,
        unavailable,
        keep_predictions,
        dict(keys or {}),
        retry_failed,
    )
    with cell_progress(verbose > 0) as progress:
        found = run_study(study, where, n_jobs, progress)
    if len(found.failures):
        first = found.failures.iloc[0]
        warn_user(
            f"{len(found.failures)} of {len(found.cells)} cells failed, the first with model {first['model']!r} on "
            f"{first['dataset']!r}: {first['error']} `failures` lists them all.",
            UserWarning,
        )
    return found


def _check_keys(keys: Mapping[str, str] | None) -> None:
    """Raise unless keys are texts by name."""
    good = keys is None or (
        isinstance(keys, Mapping)
        and all(isinstance(text, str) and text for pair in keys.items() for text in pair)
    )
    if not good:
        raise ValueError(f"`keys` must map names of models or metrics to texts; got {shown(keys)}.")


def check_weighted(models: Mapping[str, ModelSpec]) -> None:
    """Raise for models that would leave weights of samples out."""
    for name, spec in models.items():
        if weight_argument(spec.estimator) is None:
            kind = type(final_estimator(spec.estimator)).__name__
            raise ValueError(
                f"`sample_weight`: model {name!r} ({kind}) takes no weights in `fit`. Leave it out, or compare it "
                "without weights."
            )


def _check_inner_scoring(scoring: str | Callable[..., float] | None) -> None:
    if scoring is None or callable(scoring):
        return
    known = get_scorer_names()
    if not isinstance(scoring, str) or scoring not in known:
        close = get_close_matches(str(scoring), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"`inner_scoring` must be None, a function or a metric of scikit-learn; got {shown(scoring)}.{hint}"
        )


def _models(
    models: Mapping[str, BaseEstimator] | Sequence[tuple[str, BaseEstimator]],
) -> dict[str, ModelSpec]:
    pairs: Any = list(models.items()) if isinstance(models, Mapping) else models
    is_list = isinstance(pairs, Sequence) and not isinstance(pairs, str)
    if not is_list or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"`models` must map names to models, or list pairs (name, model); got {shown(models)}."
        )
    specs: dict[str, ModelSpec] = {}
    for name, model in pairs:
        if name in specs:
            raise ValueError(f"`models` has two models named {name!r}. Give every model a name of its own.")
        specs[name] = _spec(name, model)
    return specs


def _spec(name: str, model: Any) -> ModelSpec:
    if isinstance(model, ModelSpec):
        return model
    estimator, grid = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    if (
        isinstance(estimator, type)
        or not hasattr(estimator, "fit")
        or not isinstance(estimator, BaseEstimator)
    ):
        raise ValueError(
            f"`models`: {name!r} must be an estimator or a pair (estimator, param_grid); got {estimator!r}."
        )
    if grid is not None:
        check_grid(f"models[{name!r}]", grid)
        grids = [grid] if isinstance(grid, Mapping) else grid
        unknown = [key for one in grids for key in one if key not in estimator.get_params()]
        if unknown:
            raise ValueError(
                f"`models`: the grid of {name!r} names {unknown[0]!r}, which is none of its parameters."
            )
    return ModelSpec(estimator, grid)


def _datasets(
    X: Any,
    y: Any,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None,
    datasets: Mapping[str, object] | Sequence[str] | str | None,
    cv: Splits | None,
) -> dict[str, DataRef]:
    if (X is None) == (datasets is None):
        raise ValueError("give either `X` and `y`, or `datasets`.")
    if datasets is None:
        return {ONLY: _held(X, y, groups, sample_weight, cv)}
    if groups is not None or sample_weight is not None or _is_pairs(cv):
        raise ValueError(
            "`groups`, `sample_weight` and rows in `cv` belong to `X` and `y`. With `datasets`, give (X, y, groups, "
            "sample_weight) and a splitter."
        )
    if isinstance(datasets, str):
        datasets = [datasets]
    if not isinstance(datasets, Mapping | Sequence):
        raise ValueError(f"`datasets` must be names, or map names to data; got {shown(datasets)}.")
    named = datasets if isinstance(datasets, Mapping) else dict(_once(datasets))
    return {name: _ref(name, value) for name, value in named.items()}


def _once(names: Sequence[Any]) -> list[tuple[str, Any]]:
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"`datasets` names {twice[0]!r} twice.")
    return [(name, name) for name in names]


def _ref(name: str, value: object) -> DataRef:
    if isinstance(value, DataRef):
        return value
    if isinstance(value, str):
        return DataRef(bundled, name=value)
    if isinstance(value, tuple) and len(value) in (2, 3, 4):
        return _held(*value)
    raise ValueError(
        f"`datasets`: {name!r} must be a name, (X, y), (X, y, groups) or (X, y, groups, sample_weight); got "
        f"{type(value).__name__}."
    )


def _held(
    X: Any,
    y: Targets,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cv: Splits | None = None,
) -> DataRef:
    if y is None:
        several = " A dict of data sets goes to `datasets=`." if isinstance(X, Mapping) else ""
        raise ValueError(f"`y` must be given with `X`.{several}")
    if not isinstance(X, pd.DataFrame):
        X = X.to_pandas() if hasattr(type(X), "to_pandas") else as_array("X", X)
    y = as_array("y", y)
    if y.dtype.names is not None:
        y = _plain_fields(y)
    elif any(value is None or value != value for value in y.ravel().tolist()):
        raise ValueError(
            "`y` must hold a label or target of every sample; got None or NaN. Leave these samples out."
        )
    groups = None if groups is None else as_array("groups", groups)
    if groups is not None and groups.shape != (len(y),):
        raise ValueError(
            f"`groups` must have one entry for each of the {len(y)} samples; got shape {groups.shape}."
        )
    check_consistent_length(X, y)
    splits = _splits(cv, len(y)) if _is_pairs(cv) else None
    return DataRef(in_memory, data=Data(X, y, groups, splits, check_weights(sample_weight, len(y))))


def _plain_fields(y: np.ndarray) -> np.ndarray:
    """Return a structured array that files give back as it is: no record array, nothing between fields."""
    names = y.dtype.names or ()
    plain = np.empty(y.shape, dtype=[(name, y.dtype[name]) for name in names])
    for name in names:
        plain[name] = y[name]
    return plain


def _splits(cv: Iterable[tuple[ArrayLike, ArrayLike]], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows of training and validation parts; raise where they are none."""
    pairs = list(cv)
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"`cv` must be a number of folds, a splitter or pairs (train, test) of rows; got {shown(cv)}."
        )
    splits = [(as_array("cv", train), as_array("cv", test)) for train, test in pairs]
    for rows in (rows for pair in splits for rows in pair):
        flags = rows.dtype.kind == "b" and rows.shape == (n_samples,)
        positions = rows.dtype.kind in "iu" and rows.ndim == 1 and rows.size and -n_samples <= rows.min()
        if not flags and not (positions and rows.max() < n_samples):
            raise ValueError(f"`cv` must hold rows from 0 to {n_samples - 1}; got {shown(rows)}.")
    return splits


def _is_pairs(cv: object) -> TypeGuard[Iterable[tuple[ArrayLike, ArrayLike]]]:
    return cv is not None and not hasattr(cv, "split") and hasattr(cv, "__iter__")
