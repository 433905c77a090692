"""Draws from the posterior."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_integer, generator_of
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl
from bayesmkl.posterior.gaussian_process import parameters_of_process
from bayesmkl.posterior.shared_docs import MODEL


@fill_docs(MODEL)
@own_settings
def sample_posterior(
    model: BaseEstimator, n_draws: int | None = None, random_state: int | np.random.Generator | None = None
) -> dict[str, np.ndarray]:
    """Draw parameters from the posterior of a fitted model.

    Parameters
    ----------
    %(model)s
    n_draws : int, default=None
        Number of draws. A model fitted by any inference but "vb" has its draws already: its chains are put in a row
        and `n_draws` of them are taken at even distances. None is all of these, or 1000 draws from a variational
        posterior.
    %(random_state)s

    Returns
    -------
    dict of str to ndarray of shape (n_draws, ...)
        The draw is the first axis. With more than two classes, or several labels or targets, the output is the
        second: of all arrays where each has kernel weights of its own (one-versus-all), else of all but those of the
        kernels.

        * ``kernel_weights`` (n_draws, n_kernels) and ``intercept`` (n_draws,): e and b;
        * ``dual_coef`` (n_draws, n_train): a, the weights of the training samples, or of the landmarks;
        * ``kernel_precision`` (n_draws, n_kernels), ``intercept_precision`` (n_draws,) and ``sample_precision``
          (n_draws, n_train): the precisions ω, γ and λ of their priors; no ω under a "dirichlet" or "spike-slab"
          prior;
        * ``intermediate_precision`` and ``noise_precision`` (n_draws,): υ and ε, in regression only;
        * ``kernel_inclusion`` (n_draws, n_kernels): whether the kernel is used, 0 or 1, under a "spike-slab" prior
          only.

        Of an additive Gaussian process they are ``kernel_weights``, ``kernel_shares`` (n_draws, n_kernels), ``score``
        (n_draws, n_samples) of the training samples and, in regression, ``noise_std`` (n_draws,), in units of the
        standardized target; several outputs are the second axis of ``score`` and ``noise_std``.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `n_draws` is not positive, or larger than the number of draws that a sampled model has.

    Notes
    -----
    The variational posterior is a product of factors: (b, e) are drawn jointly, but independently of a and of all
    precisions. Correlations between a and e that the exact posterior has are missing by construction. Weights are
    identified up to a common change of sign of e and a; the draws are from one of the two mirror images. Weights that
    are not negative have no mirror image.

    Examples
    --------
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import sample_posterior
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["rbf", "linear"])).fit(X, 2 * X[:, 0])
    >>> draws = sample_posterior(model, n_draws=500, random_state=0)
    >>> draws["kernel_weights"].shape, draws["dual_coef"].shape
    ((500, 2), (500, 12))
    """
    n_draws = None if n_draws is None else check_integer("n_draws", n_draws, low=1)
    fitted = fitted_bemkl(model)
    if fitted.is_marginal:
        return parameters_of_process(fitted, evenly(*_counts(fitted.states[0].n_draws, n_draws)))
    flat = [
        draws.flat()
        for draws in fitted.draws(
            None if fitted.is_drawn else n_draws, generator_of("random_state", random_state)
        )
    ]
    kept = evenly(*_counts(len(flat[0].intercept), n_draws))
    per_model = [named_draws(fitted, draws.map(lambda values: values[kept])) for draws in flat]
    if fitted.class_names is None:
        return per_model[0]
    return {name: np.stack([draws[name] for draws in per_model], axis=1) for name in per_model[0]}


def _counts(n_total: int, n_draws: int | None) -> tuple[int, int | None]:
    """Return how many draws there are and are asked for; raise if that is more."""
    if n_draws is not None and n_draws > n_total:
        raise ValueError(
            f"`n_draws` must be at most {n_total}, the draws that the model has in all its chains; got {n_draws}. "
            "None takes all of them; fit with a larger `n_draws` for more."
        )
    return n_total, n_draws


def named_draws(fitted: FittedBEMKL, draws: PosteriorDraws) -> dict[str, np.ndarray]:
    """Return the arrays of one model's `draws` that are there, by the names that users see."""
    if fitted.output_names is None:
        (draws,) = draws.outputs()
    names = {"dual": "dual_coef"}
    return {names.get(name, name): values for name, values in draws._asdict().items() if values is not None}
