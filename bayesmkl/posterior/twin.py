"""Agreement of a BEMKL model with its NumPyro twin: the bound, and the shares under the exact posterior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from bayesmkl._utils.options import NUTS, VB
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_integer
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.refine import why_not_refined
from bayesmkl.posterior.tables import kernel_table

SHOWN = ("class", "kernel", "view", "share", "share_std")  # columns of kernel_table


class TwinCheck(NamedTuple):
    """Result of :func:`check_twin`.

    Parameters
    ----------
    bound : float
        Evidence lower bound of the model in closed form, in nats: its `elbo_`.
    estimate, standard_error : float
        Monte Carlo estimate of the same under the NumPyro program, and its standard error.
    shares : pandas.DataFrame of shape (n_kernels, n_columns)
        :func:`kernel_table` of the model, ``share`` and ``share_std``, and those of NUTS, ``nuts_share`` and
        ``nuts_share_std``.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesmkl.posterior.twin import TwinCheck
    >>> TwinCheck(-77.0, -76.5, 0.25, pd.DataFrame()).deviation
    2.0
    """

    bound: float
    estimate: float
    standard_error: float
    shares: pd.DataFrame

    @property
    def deviation(self) -> float:
        """Standard errors between the bound and its estimate; more than three are a sign of an error."""
        return abs(self.estimate - self.bound) / self.standard_error


@public
def check_twin(
    model: BaseEstimator,
    X: Samples,
    y: Targets,
    *,
    n_particles: int = 1024,
    nuts: NUTS | None = NUTS(),  # noqa: B008
    random_state: int = 0,
) -> TwinCheck:
    """Check a variational posterior against the same model as a NumPyro program.

    The program is the paper's generative story, one sample site per variable, and the posterior is a guide in
    NumPyro's own densities. Neither shares a formula with the closed-form bound.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted with ``inference="vb"``, or a Pipeline or search that ends in one;
        of one output, or of several classes with ``multiclass="one-versus-all"``.
    X, y : samples and targets
        Those that the model was fitted to.
    n_particles : int, default=1024
        Draws from the posterior for the estimate, at least 2.
    nuts : NUTS or None, default=NUTS()
        Chains for the shares, by a fit of the model to `X` and `y`; None leaves them out.
    random_state : int, default=0
        Seed of the draws and the chains.

    Returns
    -------
    TwinCheck
        ``bound``, ``estimate``, ``standard_error`` and ``shares``. The bound should be within three standard errors
        of the estimate. Shares of NUTS are those of the exact posterior, whose standard deviations are larger as a
        rule.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `model` was not fitted with ``inference="vb"`` or has no such program, or if `X` and `y` are not those of
        its fit.

    See Also
    --------
    diagnose : Whether a posterior can be trusted.
    refine_posterior : Chains that start around a variational posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import check_twin
    >>> X = np.random.default_rng(0).normal(size=(12, 2))
    >>> model = BEMKLRegressor(KernelBank(["linear"], views="each")).fit(X, X[:, 0])
    >>> found = check_twin(model, X, X[:, 0], nuts=None)
    >>> bool(found.deviation < 3), found.shares.columns.tolist()
    (True, ['kernel', 'view', 'share', 'share_std'])
    """
    n_particles = check_integer("n_particles", n_particles, low=2)
    random_state = check_integer("random_state", random_state, low=0)
    fitted = fitted_bemkl(model, no_process="which has no such bound.", of_outcome=False)
    if not isinstance(fitted.estimator._inference(), VB):
        raise ValueError(
            f'`model` must be fitted with inference="vb", which has a bound; got inference={fitted.inference!r}.'
        )
    reason = why_not_refined(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be compared with its NumPyro program: {reason}")
    rows: Any = fitted.transform(X)
    _check_same(fitted, rows, y)
    estimate, variance = _estimate(fitted, rows, n_particles, random_state)
    table = kernel_table(fitted.estimator)
    shares = table.drop(columns=[name for name in table if name not in SHOWN])
    if nuts is not None:
        chains = clone(fitted.estimator).set_params(inference=nuts, random_state=random_state).fit(rows, y)
        found = kernel_table(chains, kernels=rows if fitted.estimator.kernel_bank_ is None else None)
        keys = [name for name in ("class", "kernel") if name in shares]
        own = found[[*keys, "share", "share_std"]].rename(
            columns=lambda name: name.replace("share", "nuts_share")
        )
        shares = shares.merge(own, on=keys)
    return TwinCheck(float(fitted.estimator.elbo_), estimate, float(np.sqrt(variance)), shares)


def _estimate(fitted: FittedBEMKL, X: Any, n_particles: int, seed: int) -> tuple[float, float]:
    """Return the estimated bounds of all models together, and the variance of this estimate."""
    from bayesmkl.posterior.guide import elbo_particles

    kernels = X if fitted.estimator.kernel_bank_ is None else None
    stack = DenseStack(stored_array(fitted.training_stack(kernels)))
    estimate = variance = 0.0
    for problem, state in zip(fitted._problems_over(stack), fitted.states, strict=True):
        particles = elbo_particles(problem, state, n_particles, seed)
        estimate += float(particles.mean())
        variance += float(particles.var(ddof=1)) / n_particles
    return estimate, variance


def _check_same(fitted: FittedBEMKL, X: Samples, y: Targets) -> None:
    """Raise unless samples and targets are those of the fit."""
    targets, bank, estimator = np.asarray(y), fitted.estimator.kernel_bank_, fitted.estimator
    same = targets.shape == fitted.target.shape and (
        bool((targets == fitted.target).all())
        if fitted.is_classifier
        else np.allclose(targets.astype(float), fitted.target, rtol=1e-9)
    )
    if same and bank is not None:
        same = np.array_equal(estimator._validate_rows(X), bank.X_train_, equal_nan=True)
    if not same:
        raise ValueError(
            "`X` and `y` must be the samples and targets that `model` was fitted to, in their order; got others. "
            "Pass what `fit` got."
        )
