"""Migration of models from earlier file layouts.

A layout is what a file says about a model: which attributes the objects in it have. Raise `VERSION` when an attribute
is added that the code reads, and say in `STEPS` what it is for models that do not have it. Older code cannot read
newer files, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._estimator import BaseMKL
from bayesmkl._utils.options import INFERENCES
from bayesmkl.bemkl import (
    BEMKLClassifier,
    BEMKLMultitaskClassifier,
    BEMKLMultitaskRegressor,
    BEMKLRegressor,
    Storage,
)
from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    GMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    LMKLRegressor,
    LpMKLClassifier,
    OBMKLClassifier,
    SAMKLClassifier,
    SILPMKLClassifier,
    SimpleMKLClassifier,
    SMOMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.kernels import Gaussian, KernelBank, Laplacian
from bayesmkl.marginal import GPMKLClassifier
from bayesmkl.persistence.parts import every_part

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


__all__ = ["VERSION", "migrate"]

VERSION = 10
BEMKL = (BEMKLClassifier, BEMKLRegressor, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor)
WITH_CLASS_WEIGHT = (
    *(AlignmentMKLClassifier, GMKLClassifier, LpMKLClassifier, OBMKLClassifier, SILPMKLClassifier),
    *(SimpleMKLClassifier, SMOMKLClassifier, UniformMKLClassifier),
)
OPTIONS_BEFORE_4 = {
    *("accelerate", "backend", "devices"),
    *("n_chains", "n_warmup", "n_draws", "target_accept", "chain_method", "n_steps"),
}


def migrate(model: BaseEstimator, version: int) -> None:
    """Bring everything in a model from the layout `version` to the present one, in place."""
    for step in range(version, VERSION):
        for part in every_part(model):
            STEPS[step](part)


def _from_1(part: object) -> None:
    """Migrate from layout 1, without landmarks or storage of training kernels: all samples, in one dense array."""
    if isinstance(part, KernelBank):
        _add(part, landmarks=None, landmark_selection="kmeans", random_state=None)
        if hasattr(part, "normalizers_"):
            _add(part, landmarks_=None)
    elif isinstance(part, (BEMKLClassifier, BEMKLRegressor)):
        _add(part, storage="auto", devices=None)
        if hasattr(part, "target_"):
            n_bytes = 8 * part.n_kernels_in_ * part.dual_coef_.shape[-1] ** 2
            _add(part, storage_="dense", kernel_bytes_=n_bytes, training_factors_=None)


def _from_2(part: object) -> None:
    """Migrate from layout 2, without labels of columns other than names and a named threshold of LD-MKL's paper.

    Nothing is known of such labels. `Center` says by default that it moved no origin.
    """
    if isinstance(part, KernelBank) and hasattr(part, "normalizers_"):
        names = getattr(part, "feature_names_in_", None)
        _add(part, column_labels_=None if names is None else list(names))
    elif isinstance(part, BaseMKL) and hasattr(part, "kernel_names_"):
        if part.kernel_bank_ is None:
            _add(part, _column_labels=None)
        if hasattr(part, "n_gate_features_"):
            _add(part, _gate_labels=None)
    if isinstance(part, LDMKLClassifier) and part.threshold is None:
        part.threshold = "paper"


def _from_3(part: object) -> None:
    """Migrate from layout 3, without columns of gates and without options objects of inferences and storage.

    Gates see all columns, or features beside precomputed kernels; the options were parameters of the estimator.
    """
    if isinstance(part, (LMKLClassifier, LMKLRegressor, LDMKLClassifier, SwMKLClassifier)):
        _add(part, gate_columns=None)
        if hasattr(part, "n_gate_features_"):
            _add(part, gate_columns_=None)
    if isinstance(part, BEMKL):
        before = vars(part)
        inference = INFERENCES[before.get("inference", "vb")]
        kind, backend = before.get("storage", "auto"), before.get("backend", "auto")
        names = [field.name for field in fields(inference)]
        options = {name: before[name] for name in names if name in before}
        for name in OPTIONS_BEFORE_4 & before.keys():
            delattr(part, name)
        part.inference = inference.name if inference(**options) == inference() else inference(**options)
        part.storage = kind if backend == "auto" else Storage(kind, backend)


def _from_4(part: object) -> None:
    """Migrate from layout 4, without widths relative to the median distance and a scale that fits choose."""
    if isinstance(part, (Gaussian, Laplacian)):
        _add(part, relative_width=None)
    elif isinstance(part, BEMKLClassifier) and hasattr(part, "target_"):
        _add(part, intermediate_scale_=float(part.intermediate_scale))


def _from_5(part: object) -> None:
    """Migrate from layout 5, without weights of classes and imputed columns.

    `Center` says by default that samples count the same.
    """
    if isinstance(part, WITH_CLASS_WEIGHT):
        _add(part, class_weight=None)
    elif isinstance(part, KernelBank) and hasattr(part, "normalizers_"):
        _add(part, column_means_=None)


def _from_6(part: object) -> None:
    """Migrate from layout 6, without temperatures: probabilities were those of the posterior."""
    if isinstance(part, (BEMKLClassifier, GPMKLClassifier)):
        _add(part, temperature=1.0)
        if hasattr(part, "target_"):
            _add(part, temperature_=1.0)


def _from_7(part: object) -> None:
    """Migrate from layout 7, where every view had the same kernels."""
    if isinstance(part, KernelBank) and hasattr(part, "normalizers_"):
        n_views = len(part.views_)
        _add(part, view_positions_=np.repeat(np.arange(n_views), part.n_kernels_ // n_views))


def _from_8(part: object) -> None:
    """Migrate from layout 8, without a choice of gates, temperatures of SwMKL, rules of ties and regularizers."""
    if isinstance(part, (LMKLClassifier, LMKLRegressor)):
        _add(part, fallback=False)
        if hasattr(part, "results_"):
            n_results = len(part.results_)
            _add(part, is_local_=True if n_results == 1 else np.ones(n_results, dtype=bool))
    if isinstance(part, SAMKLClassifier):
        _add(part, ties="largest", random_state=None)
    elif isinstance(part, SwMKLClassifier):
        _add(part, temperature=None)
    elif isinstance(part, LDMKLClassifier):
        _add(part, strict=False)
    elif isinstance(part, SMOMKLClassifier):
        _add(part, regularizer="norm")
    if isinstance(part, (SwMKLClassifier, LDMKLClassifier)) and hasattr(part, "results_"):
        name = "own" if part.gate_bank_ is None else part.gate_bank_.kernel_names_[0]
        n_results = len(part.results_)
        _add(part, gate_kernel_=name if n_results == 1 else [name] * n_results)
        if isinstance(part, SwMKLClassifier):
            _add(part, temperature_=None if n_results == 1 else [None] * n_results)


def _from_9(part: object) -> None:
    """Migrate from layout 9, where switches were not compared with none and gates of LMKL had one read-out."""
    if isinstance(part, LMKLClassifier):
        _add(part, readout="svm")
    if isinstance(part, SAMKLClassifier):
        _add(part, fallback=False)
        if hasattr(part, "results_"):
            local = [len(result.patterns) > 1 for result in part.results_]
            _add(part, fell_back_=False, is_local_=local[0] if len(local) == 1 else np.array(local))


def _add(part: object, **attributes: Any) -> None:
    for name, value in attributes.items():
        if name not in vars(part):  # classes may have a default
            setattr(part, name, value)


STEPS: dict[int, Callable[[Any], None]] = {
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
    6: _from_6,
    7: _from_7,
    8: _from_8,
    9: _from_9,
}
