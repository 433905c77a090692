"""Comparison of models by their leave-one-out predictive accuracy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._numerics.psis import quietly
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_choice, check_integer, generator_of, shown
from bayesmkl.posterior.cavities import leave_one_out_by_cavities
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.leave_one_out import LeaveOneOut, leave_one_out

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("stacking", "BB-pseudo-BMA", "pseudo-BMA")
FEWEST_DRAWS = 100


@own_settings
def compare_loo(
    models: Mapping[str, Any],
    method: str = "stacking",
    *,
    kernels: Mapping[str, ArrayLike] | None = None,
    n_draws: int = 1000,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Compare models of the same samples by their leave-one-out predictive accuracy.

    Parameters
    ----------
    models : mapping of str to estimator
        At least two fitted models by name, of BEMKL or additive Gaussian processes. They may differ in kernels,
        priors, margin, inference and in how several classes or targets are modeled.
    method : {"stacking", "BB-pseudo-BMA", "pseudo-BMA"}, default="stacking"
        How the column ``weight`` is found, see ``arviz_stats.compare``.
    kernels : mapping of str to array-like of shape (n_samples, n_samples, n_kernels), default=None
        Training kernels, by the name of the model, of those that were fitted to precomputed kernels.
    n_draws : int, default=1000
        Draws in each chain, see :func:`diagnose`.
    random_state : int, default=None
        Seed of the draws from variational posteriors.

    Returns
    -------
    pandas.DataFrame
        A row per model, the best first, as ``arviz_stats.compare`` returns it: ``rank``, ``elpd`` (nats, higher is
        better), ``se``, ``elpd_diff``, ``dse``, ``weight`` and more, depending on the version of ArviZ; and
        ``bad_k``, the number of samples whose k-hat is too large for the elpd to be trusted, and ``inference``.

    Raises
    ------
    TypeError
        For any other models; for multitask models too.
    NotFittedError
        Before `fit`.
    ValueError
        If there are fewer than two models, or their targets differ.

    Notes
    -----
    In classification it is the probability of the label given that there is one that is compared, so that models with
    different margins compare; with several labels or targets, that of all of a sample together. Unlabeled samples are
    not scored. Draws of "vb" are corrected by ``arviz_stats.loo_approximate_posterior``'s
    rule; that takes a variational posterior close to the exact one, and mostly all of their samples count as
    ``bad_k``. Fit with "nuts", or compare by cross-validation, before a close decision. Additive Gaussian processes
    ("marginal") leave function values out exactly, given hyperparameters; k-hats are those of the hyperparameters.

    References
    ----------
    Vehtari, A., Gelman, A. and Gabry, J. (2017). Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC. Statistics and Computing 27.

    Magnusson, M. et al. (2019). Bayesian leave-one-out cross-validation for large data. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import compare_loo
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> models = {name: BEMKLRegressor(KernelBank([name])).fit(X, y) for name in ("linear", "rbf")}
    >>> compare_loo(models, random_state=0).index.tolist()
    ['rbf', 'linear']
    """
    from arviz_stats import compare

    check_choice("method", method, METHODS)
    n_draws = check_integer("n_draws", n_draws, low=FEWEST_DRAWS)
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            f"`models` must be a mapping of names to at least two fitted models; got {shown(models)}."
        )
    kernels = {} if kernels is None else kernels
    if not isinstance(kernels, Mapping) or not set(kernels) <= set(models):
        raise ValueError(
            f"`kernels` must be a mapping of names in `models` to their training kernels; got {shown(kernels)}."
        )
    results, targets, bad, inferences = {}, {}, {}, {}
    for name, model in models.items():
        fitted, rng = fitted_bemkl(model, of_outcome=False), generator_of("random_state", random_state)
        found = leave_each_out(fitted, n_draws, rng, kernels.get(name))
        results[name], targets[name] = _elpd_data(found), fitted.target
        bad[name], inferences[name] = found.n_bad, fitted.inference
    _check_same(targets)
    exact = {"round_to": "none"} if "round_to" in signature(compare).parameters else {}  # since ArviZ 1
    with quietly():
        frame = compare(results, method=method, **exact)
    frame["bad_k"] = [bad[name] for name in frame.index]
    frame["inference"] = [inferences[name] for name in frame.index]
    return frame


def leave_each_out(
    fitted: FittedBEMKL, n_draws: int, rng: np.random.Generator, kernels: ArrayLike | None = None
) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others, in the way that the model has.

    Parameters
    ----------
    fitted : FittedBEMKL
    n_draws : int
        Draws in each chain, see `FittedBEMKL.draws`; not used of additive Gaussian processes.
    rng : numpy.random.Generator
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.
    """
    if fitted.is_marginal:
        if kernels is not None:
            fitted.training_stack(kernels)  # refused where they are wrong; the model needs none
        return leave_one_out_by_cavities(fitted)
    return leave_one_out(fitted, *evaluate_model(fitted, n_draws, rng, kernels))


def _elpd_data(found: LeaveOneOut) -> Any:
    """Wrap a result as ArviZ's own, which `compare` takes."""
    from arviz_base import from_dict
    from arviz_stats import loo
    from xarray import DataArray

    shape = (1, FEWEST_DRAWS, len(found.elpd_i))  # of likelihoods, of which nothing is kept
    tree = from_dict(
        {"posterior": {"b": np.zeros(shape[:2])}, "log_likelihood": {"y": np.zeros(shape)}},
        dims={"y": ["obs_id"]},
    )
    even = tree["log_likelihood/y"] - np.log(FEWEST_DRAWS)
    pareto_k = DataArray(found.pareto_k, dims=["obs_id"], coords={"obs_id": tree["log_likelihood"].obs_id})
    with quietly():
        template = loo(tree, pointwise=True, log_weights=even, pareto_k=pareto_k, reff=1.0)
    return dataclasses.replace(
        template,
        elpd=found.elpd,
        se=found.standard_error,
        p=float((found.lpd_i - found.elpd_i).sum()),
        elpd_i=template.elpd_i.copy(data=found.elpd_i),
        good_k=found.good_k,
        warning=found.n_bad > 0,
    )


def _check_same(targets: dict[str, np.ndarray]) -> None:
    (first, expected), *others = targets.items()
    for name, target in others:
        numeric = np.issubdtype(target.dtype, np.floating) and np.issubdtype(expected.dtype, np.floating)
        same = target.shape == expected.shape and (
            np.allclose(target, expected, rtol=1e-9) if numeric else bool((target == expected).all())
        )
        if not same:
            raise ValueError(
                f"`models` must be fitted to the same samples in the same order; the targets of {name!r} differ from "
                f"those of {first!r}. Fit both to the same training set."
            )
