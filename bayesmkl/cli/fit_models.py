"""The models of `bayesmkl fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bayesmkl.bemkl import (
    NUTS,
    BEMKLClassifier,
    BEMKLOrdinalClassifier,
    BEMKLRegressor,
    BEMKLSurvival,
    Gibbs,
)
from bayesmkl.cli.designs import standardizer
from bayesmkl.cli.fit_options import KERNEL_PRIORS, FitOptions
from bayesmkl.cli.fit_views import (
    bank_of_options,
    bank_of_types,
    columns_as_they_are,
)
from bayesmkl.cli.tables import label_in, levels_of
from bayesmkl.gp import (
    GPMKLClassifier,
    GPMKLOrdinalClassifier,
    GPMKLRegressor,
    GPMKLSurvival,
    Marginal,
)
from bayesmkl.kernels import KernelBank

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def _inference(options: FitOptions) -> Any:
    """Return the inference with as many draws as asked for."""
    samplers: dict[str, Any] = {"nuts": NUTS, "gibbs": Gibbs}
    if options.inference in samplers:
        return samplers[options.inference](n_warmup=options.draws, n_draws=options.draws)
    if options.inference == Marginal.name:
        return Marginal(n_draws=max(4 * options.draws, 100))
    return options.inference


def _kernel_prior(options: FitOptions) -> str:
    """Return the prior that was asked for, or the method's default."""
    return options.kernel_prior or KERNEL_PRIORS[options.method][0]


def new_model(options: FitOptions, y: np.ndarray, seen: pd.DataFrame | None = None) -> Pipeline:
    """Build what is fitted; `y` says of which type labels are, `seen` has the columns that kernels may see."""
    build = _gpmkl if options.method == "gpmkl" else _bemkl
    if options.kernels_on == "types":
        made = bank_of_types(seen, options.category)
        return Pipeline([("encode", made.encoder), (options.method, build(options, y, made.bank))])
    columns = [] if seen is None else [str(name) for name in seen]
    bank = bank_of_options(options.view, options.view_kernels, options.kernels_on, columns)
    last = build(options, y, bank)
    first = standardizer(options.design, columns_as_they_are(bank, columns))
    return Pipeline([("standardize", first), (options.method, last)])


def _gpmkl(options: FitOptions, y: np.ndarray, bank: KernelBank) -> BaseEstimator:
    kinds: dict[str, type[BaseEstimator]] = {
        "classification": GPMKLClassifier,
        "ordinal": GPMKLOrdinalClassifier,
        "survival": GPMKLSurvival,
        "regression": GPMKLRegressor,
    }
    own: dict[str, Any] = {"levels": levels_of(options.level, y)} if options.task == "ordinal" else {}
    if options.likelihood is not None:
        own["likelihood"] = options.likelihood
    return kinds[options.task](
        bank,
        kernel_prior=_kernel_prior(options),
        design=options.design,
        missing_views=options.missing_views,
        inference=_inference(options),
        random_state=options.seed,
        verbose=1,
        **own,
    )


def _bemkl(options: FitOptions, y: np.ndarray, bank: KernelBank) -> BaseEstimator:
    common: dict[str, Any] = {
        "kernel_prior": _kernel_prior(options),
        "inference": _inference(options),
        "max_iter": options.max_iter,
        "tol": options.tol,
        "random_state": options.seed,
        "verbose": 1,
    }
    common["nonnegative"] = options.nonnegative
    if options.task == "ordinal":
        return BEMKLOrdinalClassifier(bank, levels=levels_of(options.level, y), **common)
    if options.task == "survival":
        return BEMKLSurvival(bank, **common)
    common["missing_views"] = options.missing_views
    if options.task == "classification":
        multiclass = options.multiclass or ("one-versus-all" if options.by_gibbs else "shared")
        label = None if options.unlabeled_label is None else label_in(y, options.unlabeled_label)
        return BEMKLClassifier(bank, multiclass=multiclass, unlabeled_label=label, **common)
    return BEMKLRegressor(bank, **common)
