"""Consistency of the parts of a model that was read from a file.

Types are known by then. What is left are absent attributes and arrays of the wrong lengths, which are compared.
Nothing is predicted: that can take as long as a fit.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import is_classifier

from bayesmkl._estimator import BaseMKL
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.compose import Gated
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.persistence.parts import every_part

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


OF_FITTED_BANK = (
    "X_train_", "column_labels_", "kernel_names_", "kernel_views_", "kernels_", "kernels_known_psd_", "landmarks_",
    "n_features_in_", "n_kernels_", "normalizers_", "present_", "view_positions_", "views_",
)  # fmt: skip
OF_KERNELS = (
    *("kernel_names_", "kernel_views_", "kernels_", "kernels_known_psd_", "normalizers_", "view_positions_"),
)
OF_POINTS = ("parameters", "site_precision", "site_linear", "group_std")  # arrays of draws, one entry a point
OF_FITTED_MODEL = ("dual_coef_", "kernel_bank_", "n_features_in_", "n_kernels_in_")


def check_consistent(model: BaseEstimator) -> None:
    """Raise ValueError with what does not fit together."""
    for part in every_part(model):
        if isinstance(part, (BaseMKL, KernelBank)):
            fault = next(_faults(part), None)
            if fault is not None:
                raise ValueError(f"its {type(part).__name__} {fault}")


def _faults(part: object) -> Iterator[str]:
    """Yield what is wrong with an estimator or a bank."""
    parameters = inspect.signature(type(part)).parameters
    yield from _absent(part, list(parameters))
    if isinstance(part, KernelBank):
        if "normalizers_" in vars(part):
            yield from _faults_of_bank(part)
    elif "kernel_names_" in vars(part):
        of_outcome = ["classes_"] if is_classifier(part) else []
        of_posterior = ["posterior_"] if "kernel_prior" in parameters else []
        yield from _absent(part, [*OF_FITTED_MODEL, *of_outcome, *of_posterior])
        yield from _faults_of_model(part)


def _absent(part: object, names: Iterable[str]) -> Iterator[str]:
    yield from (f"has no `{name}`" for name in names if name not in vars(part))


def _faults_of_bank(bank: KernelBank) -> Iterator[str]:
    yield from _absent(bank, OF_FITTED_BANK)
    n_kernels, n_features = bank.n_kernels_, bank.n_features_in_
    for name in OF_KERNELS:
        yield from _wrong(name, len(getattr(bank, name)), n_kernels)
    if bank.column_labels_ is not None:
        yield from _wrong("column_labels_", len(bank.column_labels_), n_features)
    for name in ("X_train_", "landmarks_"):
        points = getattr(bank, name)
        if points is not None:
            yield from _wrong(name, np.shape(points)[1:], (n_features,))
            dtype = points.dtype if is_sparse(points) else np.asarray(points).dtype
            if dtype != np.float64:
                yield f"has `{name}` of the type {dtype}"
            if is_sparse(points) and not isinstance(points.values, csr_array):
                yield f"has `{name}` of the type {type(points.values).__name__}"
            elif is_sparse(points):
                points.values.check_format(full_check=True)  # positions that compiled code follows
    yield from _faults_of_positions(bank)
    for view in bank.views_:
        columns = np.asarray(view.columns)
        if columns.size and not 0 <= columns.min() <= columns.max() < n_features:
            yield f"has the view {view.name!r} of columns that are not there"
    for m, kernel in enumerate(bank.kernels_):
        if isinstance(kernel, Gated):
            columns, n_own = (
                np.asarray(kernel.gate_columns),
                len(bank.views_[bank.view_positions_[m]].columns),
            )
            is_there = columns.dtype.kind == "i" and np.isin(columns, np.arange(n_features)).all()
            if not is_there or kernel.n_own != n_own or sum(map(len, kernel.gate_names)) != columns.size:
                yield f"has the kernel {kernel.name!r} with gate columns that are not there"


def _faults_of_positions(bank: KernelBank) -> Iterator[str]:
    """Yield what is wrong with the views of kernels: all views have some, in their order."""
    positions, n_views = np.asarray(bank.view_positions_), len(bank.views_)
    if not n_views or positions.dtype.kind != "i" or positions.ndim != 1:
        yield f"has {n_views} views, and kernels on {positions!r}"
    elif not np.array_equal(np.unique(positions), np.arange(n_views)) or (np.diff(positions) < 0).any():
        yield f"has {n_views} views, and kernels that are not on all of them, in their order"
    elif [bank.views_[v].name for v in positions] != list(bank.kernel_views_):
        yield "has `kernel_views_` that are not the names of these views"


def _faults_of_model(model: BaseEstimator) -> Iterator[str]:
    n_kernels, bank = model.n_kernels_in_, model.kernel_bank_
    yield from _wrong("kernel_names_", len(model.kernel_names_), n_kernels)
    if bank is not None:
        yield from _wrong("kernel_bank_", bank.n_kernels_, n_kernels)
        yield from _wrong("dual_coef_", np.shape(model.dual_coef_)[-1:], (len(bank.basis_),))
    for name in ("kernel_weights_", "kernel_shares_"):
        if name in vars(model):
            yield from _wrong(name, np.shape(getattr(model, name))[-1:], (n_kernels,))
    for name in ("dual_coef_", "intercept_", "kernel_weights_", "posterior_"):
        for values in every_part(vars(model).get(name)):
            if not _is_usable(values):
                yield f"has `{name}` that are not all finite numbers"
    posterior = vars(model).get("posterior_", ())
    if not isinstance(posterior, tuple):
        yield f"has a `posterior_` of the type {type(posterior).__name__}"
    if isinstance(posterior, HyperDraws):
        yield from _faults_of_draws(posterior)


def _faults_of_draws(draws: HyperDraws) -> Iterator[str]:
    """Yield what is wrong with draws of hyperparameters: they have points, and their arrays equal lengths."""
    n_points = len(draws.kernel_weights)
    for name in OF_POINTS:
        yield from _wrong(f"posterior_.{name}", len(getattr(draws, name)), n_points)
    yield from _wrong(
        "posterior_.predictive", len(draws.predictive), n_points if len(draws.predictive) else 0
    )
    yield from _wrong("posterior_.site_linear", draws.site_linear.shape, draws.site_precision.shape)
    if draws.point.dtype.kind != "i" or not np.isin(draws.point, np.arange(n_points)).all():
        yield "has `posterior_.point` with positions of points that are not there"


def _is_usable(part: object) -> bool:
    """Return whether an array of a posterior holds finite numbers; what is no array may be anything."""
    if not isinstance(part, np.ndarray) or part.dtype.kind == "O":
        return True
    return part.dtype.kind in "fiub" and bool(np.isfinite(part).all())


def _wrong(name: str, found: object, expected: object) -> Iterator[str]:
    if found != expected:
        yield f"has `{name}` of length {found}, where {expected} is needed"
