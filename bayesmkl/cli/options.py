"""Options that decide a fit, their valid combinations, and the model that they stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl.bemkl import NUTS, SVI, BEMKLClassifier, BEMKLRegressor, Gibbs
from bayesmkl.cli.tables import label_in
from bayesmkl.kernels import KernelBank

__all__ = ["FitOptions", "check_options", "may_be_empty", "new_model"]


class FitOptions(NamedTuple):
    """Everything that decides a fit, as it is kept in the run's configuration."""

    target: str
    task: str = "auto"
    kernels_on: str = "all+each"
    kernel_prior: str = "nonsparse"
    multiclass: str | None = None
    nonnegative: bool = False
    unlabeled_label: str | None = None
    missing_views: str = "error"
    inference: str = "vb"
    draws: int = 1000
    refine: bool = False
    drop: tuple[str, ...] = ()
    test_size: float = 0.3
    seed: int = 0
    max_iter: int = 1000
    tol: float = 1e-6
    refit: bool = False

    @property
    def sampling(self) -> str | None:
        """The option that asks for draws instead of VB, or after it."""
        if self.inference != "vb":
            return f"--inference {self.inference}"
        return "--refine" if self.refine else None

    @property
    def by_gibbs(self) -> bool:
        """Whether posteriors are sampled by Gibbs, which knows one score only."""
        return self.inference == "gibbs" or self.refine


def check_options(options: FitOptions) -> None:
    """Raise for options that are out of range or do not go together."""
    if not 0.0 < options.test_size < 1.0:
        raise ValueError(
            f"--test-size must be between 0 and 1; got {options.test_size:g}. 0.3 holds out 30 %."
        )
    if options.refine and options.inference != "vb":
        raise ValueError(
            f"--refine follows --inference vb; got {options.inference}, whose draws need no refinement. Leave it out."
        )
    closed_form_only = {
        "--multiclass multinomial": options.multiclass == "multinomial",
        "--nonnegative": options.nonnegative,
        "--unlabeled-label": options.unlabeled_label is not None,
        "--missing-views integrate": options.missing_views == "integrate",
    }
    for name, given in closed_form_only.items():
        if given and options.sampling is not None:
            raise ValueError(f"{name} is for the closed form only. Leave it out, or {options.sampling}.")
    if options.multiclass == "shared" and options.by_gibbs:
        raise ValueError(
            f"--multiclass shared has no Gibbs sampler, which {options.sampling} needs. Use --multiclass "
            "one-versus-all, or --inference nuts."
        )
    if options.missing_views == "integrate" and options.kernels_on != "each":
        raise ValueError(
            "--missing-views integrate needs --kernels-on each, where every column is a view of its own; got "
            f"--kernels-on {options.kernels_on}, and kernels on all columns need all of them. Views of several "
            "columns are for Python: KernelBank(views={name: columns})."
        )


def may_be_empty(config: dict[str, Any]) -> bool:
    """Return whether the model of a run takes empty cells."""
    return config.get("missing_views") == "integrate"


def _inference(options: FitOptions) -> Any:
    """Return the inference with as many draws as asked for."""
    if options.inference == "svi":
        return SVI(n_draws=options.draws)
    samplers: dict[str, Any] = {"nuts": NUTS, "gibbs": Gibbs}
    if options.inference in samplers:
        return samplers[options.inference](n_warmup=options.draws, n_draws=options.draws)
    return options.inference


def new_model(options: FitOptions, y: np.ndarray) -> Pipeline:
    """Build what is fitted; `y` says of which type labels are."""
    common: dict[str, Any] = {
        "kernel_prior": options.kernel_prior,
        "nonnegative": options.nonnegative,
        "missing_views": options.missing_views,
        "inference": _inference(options),
        "max_iter": options.max_iter,
        "tol": options.tol,
        "random_state": options.seed,
        "verbose": 1,
    }
    bank = KernelBank(views=options.kernels_on)
    bemkl: BEMKLClassifier | BEMKLRegressor
    if options.task == "classification":
        multiclass = options.multiclass or ("one-versus-all" if options.by_gibbs else "shared")
        label = None if options.unlabeled_label is None else label_in(y, options.unlabeled_label)
        bemkl = BEMKLClassifier(bank, multiclass=multiclass, unlabeled_label=label, **common)
    else:
        bemkl = BEMKLRegressor(bank, **common)
    return Pipeline([("standardize", StandardScaler().set_output(transform="pandas")), ("bemkl", bemkl)])
