"""Priors on the kernel weights that other Bayesian formulations of multiple kernel learning use.

BEMKL gives every weight e_m a normal distribution whose precision has a Gamma prior, which keeps every update in
closed form. The two priors here do not: a model that has one of them is sampled.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Dirichlet(NamedTuple):
    """Kernel weights on the simplex: non-negative, with sum one.

    Parameters
    ----------
    concentration : float or array of shape (n_kernels,), default=1.0
        Positive. One is uniform on the simplex, smaller values favor few kernels, larger ones favor equal weights.

    References
    ----------
    Girolami, M. and Rogers, S. (2005). Hierarchic Bayesian models for kernel learning. ICML.

    Damoulas, T. and Girolami, M. A. (2008). Probabilistic multi-class multi-kernel learning: on protein fold
    recognition and remote homology detection. Bioinformatics 24(10).

    Examples
    --------
    >>> Dirichlet(concentration=0.5)
    Dirichlet(concentration=0.5)
    """

    concentration: Any = 1.0


class SpikeSlab(NamedTuple):
    """Kernel weights e_m = s_m w_m that are zero unless a Bernoulli switch is on.

    The switch is s_m ~ Bernoulli(inclusion), the weight w_m ~ N(0, scale²), all of them independent.

    Parameters
    ----------
    inclusion : float or array of shape (n_kernels,), default=0.5
        Prior probability, strictly between 0 and 1, that a kernel is used.
    scale : float or array of shape (n_kernels,), default=1.0
        Standard deviation of the weight of a kernel that is used; positive.

    References
    ----------
    Titsias, M. K. and Lázaro-Gredilla, M. (2011). Spike and slab variational inference for multi-task and multiple
    kernel learning. NeurIPS.

    Examples
    --------
    >>> SpikeSlab(inclusion=0.2)
    SpikeSlab(inclusion=0.2, scale=1.0)
    """

    inclusion: Any = 0.5
    scale: Any = 1.0
