"""q(G) of a problem that was padded to a larger one: zeros where there is no sample, and sums that leave them out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesmkl._numerics.arrays import namespace

__all__ = ["PaddedOutputs", "counted_only"]

LOG_2PI = math.log(2.0 * math.pi)


class PaddedOutputs(NamedTuple):
    """Independent columns g_i with one shared covariance, for the samples that count; see `IntermediateOutputs`."""

    mean: Any  # (n_kernels, n_samples), zero at padding; with several outputs, a leading axis of them
    cov: Any
    log_det: Any
    counted: Any  # (n_samples,): 1.0 for samples, 0.0 for padding

    @classmethod
    def of(cls, mean: Any, cov: Any, log_det: Any, counted: Any) -> PaddedOutputs:
        """Build it from a mean that has any values at padding."""
        return cls(mean * counted, cov, log_det, counted)

    @property
    def n_samples(self) -> Any:
        """Number of samples that count."""
        return self.counted.sum()

    @property
    def entropy(self) -> Any:
        """Entropy of all columns together, in nats."""
        log_dets = namespace(self.mean).broadcast_to(self.log_det, self.mean.shape[:-2])
        n_rows = math.prod(self.mean.shape[:-1])
        return 0.5 * self.n_samples * (n_rows * (1.0 + LOG_2PI) + log_dets.sum())

    @property
    def n_projected(self) -> Any:
        """Number of intermediate outputs, of one output, that follow a kernel."""
        return self.mean.shape[-2] * self.n_samples

    @property
    def score_weight(self) -> Any:
        """Precision of a sample's score, relative to that of a sample that counts."""
        return self.counted[None]

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        xp = namespace(self.mean)
        return xp.broadcast_to(xp.diagonal(self.cov, axis1=-2, axis2=-1)[..., None], self.mean.shape)

    @property
    def total_cov(self) -> Any:
        """Sum over samples of the covariances."""
        return self.n_samples * self.cov

    def squared_distance(self, projection: Any) -> Any:
        """``E (g_mi - projection_mi)²``, summed over kernels and the samples that count."""
        residual = self.mean - projection
        spread = self.n_samples * namespace(self.cov).trace(self.cov, axis1=-2, axis2=-1)
        return (self.counted * residual * residual).sum(axis=(-2, -1)) + spread


def counted_only(factor: Any, counted: Any) -> Any:
    """Return `factor`, a NamedTuple of arrays over samples in the last axis, with zeros at padding."""
    if counted is None:
        return factor
    where = namespace(counted).where
    return type(factor)(*(where(counted > 0.0, field, 0.0) for field in factor))
