"""The posterior of localized BEMKL as ArviZ data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from bayesmkl.bemkl.reading.local_weights import LocalDraws, local_draws

if TYPE_CHECKING:
    from xarray import DataTree

    from bayesmkl.bemkl.estimators.localized_base import BaseLocalizedBEMKL

__all__ = ["tree_of_gates"]

N_DRAWS = 1000
PARAMETERS = ("weights", "intercept", "dual")  # of draws
# Own dimensions of variables, after those of chains and draws and, of several of them, "class" or "output".
DIMS = {
    "gates": ["obs_id", "kernel"],
    "locality": ["kernel"],
    "kernel_weights": ["kernel"],
    "intercept": [],
    "dual_coef": ["obs_id"],
}


def tree_of_gates(
    model: BaseLocalizedBEMKL,
    n_draws: int | None,
    rng: np.random.Generator,
    sample_names: Sequence[Any] | None,
) -> DataTree:
    """Return draws of the gates of the training samples and of what they are made of.

    Parameters
    ----------
    model : BEMKLLocalizedClassifier or BEMKLLocalizedRegressor
        Fitted.
    n_draws : int or None
        In each chain; None is 1000 of a variational posterior, and all that there are of marginal inference.
    rng : numpy.random.Generator
    sample_names : array-like of shape (n_samples,) or None

    Returns
    -------
    xarray.DataTree
        With the groups ``posterior``, ``observed_data``, ``constant_data`` and ``sample_stats``.

    Raises
    ------
    ValueError
        If there is not one name for each training sample.
    """
    from arviz_base import from_dict
    from xarray import DataTree

    from bayesmkl import __version__

    n_samples = len(model.gate_features_)
    names = np.arange(n_samples) if sample_names is None else np.asarray(sample_names)
    if names.shape != (n_samples,) or len(np.unique(names)) < n_samples:
        raise ValueError(
            f"`sample_names` must hold a different name for each of the {n_samples} training samples; got shape "
            f"{names.shape}, {len(np.unique(names))} different ones."
        )
    posteriors, features = model._posteriors(), model.gate_basis_.features(model.gate_features_)
    n_iter = np.broadcast_to(model.n_iter_, len(posteriors))
    drawn = [
        _variables(_chains(posterior, int(per_chain), n_draws, rng), features)
        for posterior, per_chain in zip(posteriors, n_iter, strict=True)
    ]
    several = [] if len(posteriors) == 1 else ["class"] if is_classifier(model) else ["output"]
    posterior = {
        name: np.stack([own[name] for own in drawn], axis=2) if several else drawn[0][name] for name in DIMS
    }
    coords: dict[str, Any] = {"kernel": list(model.kernel_names_), "obs_id": names}
    if several:
        labels = getattr(model, "classes_", range(len(posteriors)))
        coords[several[0]] = [str(label) for label in labels]
    observed = model.target_
    if is_classifier(model):
        observed = (observed > 0.0).astype(np.int8)
    else:
        regressor: Any = model
        observed = (regressor.y_mean_ + regressor.y_scale_ * observed.T).T
    groups = {
        "posterior": (posterior, {name: several + own for name, own in DIMS.items()}),
        "observed_data": ({"y": observed}, {"y": [*several, "obs_id"]}),
        "constant_data": (
            {"gate_features": model.gate_features_},
            {"gate_features": ["obs_id", "gate_feature"]},
        ),
    }
    datasets = {
        group: from_dict({group: variables}, coords=coords, dims=dims)[group].to_dataset()
        for group, (variables, dims) in groups.items()
    }
    tree = DataTree.from_dict(datasets)
    tree.attrs = {
        "model": type(model).__name__,
        "inference": "marginal" if isinstance(posteriors[0], LocalDraws) else "vb",
        "inference_library": "bayesmkl",
        "inference_library_version": __version__,
        "elbo_gain": model.elbo_gain_,
        "gate_width": model.gate_width_,
    }
    names_of_fit = {"elbo": "elbo_", "rhat": "rhat_", "ess": "ess_"}
    found = {name: getattr(model, own, None) for name, own in names_of_fit.items()}
    tree.attrs |= {name: np.asarray(value).tolist() for name, value in found.items() if value is not None}
    return tree


def _chains(posterior: Any, per_chain: int, n_draws: int | None, rng: np.random.Generator) -> LocalDraws:
    """Return draws with the axes of chains and draws; those of marginal inference are thinned to `n_draws`."""
    if not isinstance(posterior, LocalDraws):
        drawn = local_draws(posterior, rng, N_DRAWS if n_draws is None else n_draws)
        return drawn._replace(**{name: getattr(drawn, name)[None] for name in PARAMETERS})
    wanted = per_chain if n_draws is None else min(n_draws, per_chain)
    kept = np.arange(wanted) * per_chain // wanted
    fields = {name: getattr(posterior, name) for name in PARAMETERS}
    shaped = {name: own.reshape(-1, per_chain, *own.shape[1:])[:, kept] for name, own in fields.items()}
    return posterior._replace(**shaped)


def _variables(draws: LocalDraws, features: np.ndarray) -> dict[str, np.ndarray]:
    """Return variables of one model by their names, chains and draws first."""
    gates = features @ draws.weights.swapaxes(-1, -2)
    square = (gates**2).mean(axis=2)
    locality = np.divide(gates.var(axis=2), square, out=np.zeros_like(square), where=square > 0.0)
    return {
        "gates": gates,
        "locality": locality,
        "kernel_weights": draws.weights[..., 0],
        "intercept": draws.intercept,
        "dual_coef": draws.dual,
    }
