r"""Kernel weights of several tasks around common ones: their joint posterior (the outlook of Gönen 2012, §7).

Every task t has an intercept b_t and kernel weights e_t of its own; the common weights e tie the tasks together::

    ω_m ~ Gamma,  e_m | ω_m ~ N(0, 1/ω_m),   τ ~ Gamma,  e_t | e, τ ~ N(e, I/τ),
    γ_t ~ Gamma,  b_t | γ_t ~ N(0, 1/γ_t)

q(e, b_1, e_1, .., b_T, e_T) is one normal distribution. Nothing is lost by writing it as q(e) Π_t q(b_t, e_t | e),
since tasks know of each other only through e. With the precision A and the linear term r that equation (4) has for
task t in blocks over b_t and e_t, without a prior on e_t, integrating b_t out leaves

    B_t = A_ee - A_eb A_be / A_bb,    s_t = r_e - A_eb r_b / A_bb,
    q(e_t | e) = N(W_t (s_t + τ e), W_t),                          W_t = (B_t + τ I)^-1,
    q(e)       = N(C Σ_t τ W_t s_t, C),     C^-1 = diag(ω) + Σ_t Λ_t,    Λ_t = τ W_t B_t = (B_t^-1 + I/τ)^-1.

Λ_t is what task t knows of e: a mean of the tasks' own weights B_t^-1 s_t in which precisions Λ_t are the weights.
All are functions of B_t, taken through its eigenvalues β, so that τ β / (τ + β) is as exact for τ -> ∞, where the
tasks share their weights, as for τ -> 0, where they are on their own. One task costs O(n_kernels³), whatever T is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl.bemkl.models.moments import Gaussian


class TaskReadouts(NamedTuple):
    """q(e) Π_t q(b_t, e_t | e): every task's intercept and kernel weights, and the common weights."""

    common: Gaussian  # q(e)
    given: Gaussian  # q(b_t, e_t | e = E[e]), one per task, intercept first
    slope: Any  # (n_tasks, 1 + n_kernels, n_kernels), of E[b_t, e_t | e] in e

    @property
    def mean(self) -> Any:
        """E[(b_t, e_t)], shape (n_tasks, 1 + n_kernels)."""
        return self.given.mean

    @property
    def cov(self) -> Any:
        """Covariance of every task's (b_t, e_t), shape (n_tasks, 1 + n_kernels, 1 + n_kernels)."""
        return self.given.cov + self.slope @ self.common.cov @ self.slope.mT

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        return namespace(self.mean).diagonal(self.cov, axis1=1, axis2=2)

    @property
    def distance(self) -> Any:
        """``sum_t E ||e_t - e||²``."""
        xp, n_kernels = namespace(self.mean), self.common.mean.shape[0]
        shift = self.mean[:, 1:] - self.common.mean
        apart = self.slope[:, 1:] - xp.eye(n_kernels, dtype=shift.dtype)
        from_given = xp.trace(self.given.cov[:, 1:, 1:], axis1=1, axis2=2).sum()
        return (shift * shift).sum() + from_given + ((apart @ self.common.cov) * apart).sum()

    @property
    def entropy(self) -> Any:
        """Entropy of the joint distribution in nats."""
        return self.common.entropy + self.given.entropy

    @property
    def marginals(self) -> list[Gaussian]:
        """q(b_t, e_t) of every task, intercept first."""
        fields = zip(*Gaussian.from_moments(self.mean, self.cov), strict=True)
        return [Gaussian(*factor) for factor in fields]


class TaskEvidence(NamedTuple):
    """Likelihood terms of every task for its intercept and kernel weights."""

    intercept_precision: Any  # A_bb, (n_tasks,)
    intercept_pull: Any  # r_b / A_bb, (n_tasks,)
    intercept_slope: Any  # -A_be / A_bb, (n_tasks, n_kernels)
    pull: Any  # s, (n_tasks, n_kernels)
    values: Any  # eigenvalues of B, (n_tasks, n_kernels)
    vectors: Any  # and its eigenvectors, in columns

    def weights_matrix(self, values: Array) -> Any:
        """Return the matrices with eigenvalues `values` and the eigenvectors of B."""
        return (self.vectors * values[:, None, :]) @ self.vectors.mT

    def information(self, task_precision: Array | float) -> Any:
        """Return Λ_t, the precision that every task adds to q(e), shape (n_tasks, n_kernels, n_kernels)."""
        return self.weights_matrix(task_precision * self.values / (task_precision + self.values))


def task_evidence(design: Array, target: Array, intercept_precision: Array) -> TaskEvidence:
    """Integrate the intercepts out of the quadratic form of equation (4).

    Parameters
    ----------
    design : array of shape (n_tasks, 1 + n_kernels, 1 + n_kernels)
        `moments.readout_design` of every task, times E[ε_t].
    target : array of shape (n_tasks, 1 + n_kernels)
        `moments.readout_target`, times E[ε_t].
    intercept_precision : array of shape (n_tasks,)
        E[γ_t].
    """
    xp = namespace(design)
    of_intercept = design[:, 0, 0] + intercept_precision
    slope: Any = -design[:, 0, 1:] / of_intercept[:, None]
    schur = design[:, 1:, 1:] + design[:, 1:, :1] * slope[:, None, :]
    values, vectors = xp.linalg.eigh(0.5 * (schur + schur.mT))
    values = xp.where(values < 0.0, 0.0, values)  # rounding; keeps NaN
    pull = target[:, 1:] + slope * target[:, :1]
    return TaskEvidence(of_intercept, target[:, 0] / of_intercept, slope, pull, values, vectors)


def update_task_readouts(
    evidence: TaskEvidence, kernel_precision: Array, task_precision: Array
) -> TaskReadouts:
    """Update q(e) and q(b_t, e_t | e): equation (4) for all tasks at once.

    Parameters
    ----------
    evidence : TaskEvidence
    kernel_precision : array of shape (n_kernels,)
        E[ω].
    task_precision : scalar
        E[τ].
    """
    xp, sums = namespace(evidence.pull), task_precision + evidence.values
    within = evidence.weights_matrix(1.0 / sums)  # W
    shrink = evidence.weights_matrix(task_precision / sums)  # τ W
    information = evidence.information(task_precision).sum(axis=0)
    cov, log_det = spd_inverse(xp.diag(kernel_precision) + information)
    common = Gaussian(cov @ (shrink @ evidence.pull[..., None]).sum(axis=0)[:, 0], cov, log_det)
    weights = (within @ evidence.pull[..., None])[..., 0] + shrink @ common.mean
    intercepts = evidence.intercept_pull + (evidence.intercept_slope * weights).sum(axis=1)
    row = evidence.intercept_slope[:, None, :]
    cross = row @ within
    corner = 1.0 / evidence.intercept_precision[:, None, None] + cross @ row.mT
    given_cov = xp.concatenate(
        [xp.concatenate([corner, cross], axis=2), xp.concatenate([cross.mT, within], axis=2)], axis=1
    )
    given_log_det = -xp.log(evidence.intercept_precision) - xp.log(sums).sum(axis=1)
    given = Gaussian(xp.concatenate([intercepts[:, None], weights], axis=1), given_cov, given_log_det)
    return TaskReadouts(common, given, xp.concatenate([row @ shrink, shrink], axis=1))
