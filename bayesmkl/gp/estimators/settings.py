"""What users set: parameters of all models, priors of kernel weights by their names, and weights of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.shared_docs import ESTIMATOR
from bayesmkl._utils.docstrings import entries
from bayesmkl._utils.given import check_weights
from bayesmkl._utils.options import Marginal
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_probability, check_scale, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.gp.hyperpriors import (
    DirichletShares,
    HalfT,
    Horseshoe,
    NestedShares,
    SharesOfKernels,
    WeightPrior,
)
from bayesmkl.gp.selection import SpikeSlabOfKernels, SpikeSlabWeights
from bayesmkl.kernels.quality import KernelQualityWarning, join
from bayesmkl.kernels.stacks.learned import points_of
from bayesmkl.kernels.views import TOGETHER, check_samples, column_names

if TYPE_CHECKING:
    from bayesmkl.gp.design import Design
    from bayesmkl.gp.estimators.base import BaseGPMKL
    from bayesmkl.kernels.bank import KernelBank

KernelPrior = str | HalfT | DirichletShares | NestedShares | Horseshoe | SpikeSlabWeights
NamedPriors = Mapping[str, WeightPrior | SpikeSlabWeights | NestedShares]


@dataclass(eq=False, repr=False)
class Parameters(BaseMKL):
    """The parameters of all models: fields of dataclasses, which those of each outcome add to."""

    kernels: KernelBank | str | None = None
    _: KW_ONLY
    views: str | Mapping[str, Any] | None = None
    kernel_prior: KernelPrior = "nested"
    design: Design | None = None
    missing_views: str = "error"
    intercept_std: float = 3.0
    inference: str | Marginal = "marginal"
    together: bool = True
    kernel_names: Sequence[str] | None = None
    kernel_views: Sequence[str] | None = None
    random_state: int | None = None
    verbose: int = 1


def checked_weight_prior(value: Any, named: NamedPriors) -> Any:
    """Return the prior that a `kernel_prior` is, or stands for.

    Parameters
    ----------
    value : str, WeightPrior or numpyro.distributions.Distribution
    named : dict of str to WeightPrior
        What names stand for.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, str) and value in named:
        return named[value]
    if _is_of_numpyro(value):
        from bayesmkl.gp.program import numpyro_prior

        return numpyro_prior(value)
    if isinstance(value, SpikeSlabWeights):
        return _checked_spike_slab(value)
    if isinstance(value, NestedShares):
        alpha, within, df, scale = (
            check_scale(f"kernel_prior.{k}", v) for k, v in zip(value._fields, value[:4], strict=False)
        )
        return NestedShares(alpha, within, df, scale, _checked_groups(value.groups))
    if not isinstance(value, HalfT | DirichletShares | Horseshoe):
        raise ValueError(
            f"`kernel_prior` must be one of {', '.join(map(repr, named))}, a prior of `bayesmkl.gp`, such as "
            "NestedShares(concentration=1.0), or a distribution of NumPyro on the positive numbers; got "
            f"{shown(value)}."
        )
    sizes: Any = (check_scale(f"kernel_prior.{k}", v) for k, v in value._asdict().items())
    return type(value)(*sizes)


def is_spike_slab(value: Any, named: NamedPriors) -> bool:
    """Return whether a `kernel_prior` is a spike-and-slab prior, or stands for one."""
    return isinstance(named.get(value) if isinstance(value, str) else value, SpikeSlabWeights)


def _checked_spike_slab(value: SpikeSlabWeights) -> SpikeSlabWeights:
    """Return a spike-and-slab prior, checked as far as it can be without kernels."""
    name = "kernel_prior."
    inclusion = value.inclusion
    if not isinstance(inclusion, tuple | list) or len(inclusion) != 2:
        raise ValueError(f"`{name}inclusion` must be two shapes of a Beta prior; got {shown(inclusion)}.")
    first = check_scale(f"{name}inclusion[0]", inclusion[0])
    second = None if inclusion[1] is None else check_scale(f"{name}inclusion[1]", inclusion[1])
    alpha, df, scale = (
        check_scale(f"{name}{field}", getattr(value, field)) for field in ("concentration", "df", "scale")
    )
    within = check_probability(f"{name}within", value.within)
    return SpikeSlabWeights(alpha, df, scale, (first, second), within, _checked_groups(value.groups))


def _checked_groups(groups: Any) -> Any:
    """Return the groups of kernels of a prior, checked as far as they can be without kernels."""
    is_list = isinstance(groups, Sequence | np.ndarray) and not isinstance(groups, str | bytes)
    if not is_list and not isinstance(groups, Mapping) and groups not in ("view", "kernel"):
        raise ValueError(
            '`kernel_prior.groups` must be "view", "kernel", a sequence with one name for each kernel, or a dict of '
            f"names of kernels or views; got {shown(groups)}."
        )
    return tuple(groups) if is_list else groups


def of_kernels(
    prior: SpikeSlabWeights | NestedShares,
    names: Sequence[Any],
    views: Sequence[Any],
    kept: np.ndarray | None,
) -> SpikeSlabOfKernels | SharesOfKernels:
    """Return the prior of some kernels, in the groups that it has.

    Parameters
    ----------
    prior : SpikeSlabWeights or NestedShares
    names, views : sequence of str
        Of all kernels.
    kept : ndarray of int, optional
        Positions of those that it is the prior of; None: all.

    Raises
    ------
    ValueError
        If groups are given, and are not one for each kernel, or name kernels that are not there or are in another.
    """
    if isinstance(prior.groups, Mapping):
        groups = _listed(prior.groups, names, views)
    elif isinstance(prior.groups, str):
        groups = list(views) if prior.groups == "view" else [str(m) for m in range(len(names))]
    else:
        groups = [str(group) for group in prior.groups]
        groups += [TOGETHER] * (len(groups) + 1 == len(names) and names[-1] == TOGETHER)
    if len(groups) != len(names):
        n_own = sum(name != TOGETHER for name in names)  # "views together" needs no name
        raise ValueError(
            f"`kernel_prior.groups` must have one name for each of the {n_own} kernels; got {len(groups)}."
        )
    chosen = np.asarray(groups) if kept is None else np.asarray(groups)[kept]
    group = np.unique(chosen, return_inverse=True)[1]
    return (
        SpikeSlabOfKernels(prior, group)
        if isinstance(prior, SpikeSlabWeights)
        else SharesOfKernels(prior, group)
    )


def check_learned(model: BaseGPMKL, bank: KernelBank) -> None:
    """Raise for parameters that need kernels which stay as they are, where widths are inferred."""
    for name, is_so, wanted in (
        ("kernel_prior", is_spike_slab(model.kernel_prior, model.KERNEL_PRIORS), 'must not be "spike-slab"'),
        ("missing_views", model.missing_views != "error", 'must be "error"'),
        ("normalize", "center" in str(bank.normalize), 'must be "spherical" or None'),
    ):
        if is_so:
            raise ValueError(
                f"`{name}` {wanted} with a Gaussian whose width is learned, since its kernel changes with the width. "
                "Fix the width: Gaussian(relative_width=1)."
            )


def warn_of_unlearned(bank: KernelBank) -> None:
    """Warn once about widths that no training sample can tell, which keep their prior.

    Warns
    -----
    KernelQualityWarning
        Naming kernels that see at most two different samples, and features that are the same in all of them.
    """
    names, lines = column_names(bank.n_features_in_, bank.column_labels_), []
    for m, kernel in enumerate(bank.kernels_):
        if getattr(kernel, "learns", None) is None:
            continue
        points, columns = points_of(bank, m), bank.columns_seen(m)
        constant = [names[j] for j in columns[np.isinf(points.medians)]]
        n_different = len(np.unique(points.train, axis=0)) if points.train.shape[1] else 1
        if n_different <= 2:
            what = "are all equal" if n_different == 1 else "have two different values"
            lines.append(f"- {bank.kernel_names_[m]}: training samples {what}")
        elif constant:
            lines.append(
                f"- {bank.kernel_names_[m]}: features that do not vary in training: {join(constant)}"
            )
    if lines:
        warn_user(
            "Some widths cannot be learned and keep their prior:\n" + "\n".join(lines), KernelQualityWarning
        )


def _listed(groups: Mapping[str, Any], names: Sequence[Any], views: Sequence[Any]) -> list[str]:
    """Return the group of every kernel; one that no group names is a group of its own."""
    found: dict[int, str] = {}
    for group, members in groups.items():
        for member in [members] if isinstance(members, str) else members:
            positions = [m for m in range(len(names)) if member in (names[m], views[m])]
            if not positions:
                raise ValueError(
                    f"`kernel_prior.groups` must name kernels or views; group {group!r} has {shown(member)}, but the "
                    f"kernels are {shown(list(names)[:5])}."
                )
            for m in positions:
                if found.setdefault(m, group) != group:
                    raise ValueError(
                        f"`kernel_prior.groups` must put every kernel into one group; {names[m]!r} is in both "
                        f"{found[m]!r} and {group!r}."
                    )
    return [f"group {found[m]}" if m in found else f"kernel {m}" for m in range(len(names))]


def _is_of_numpyro(value: object) -> bool:
    """Return whether this is a distribution of NumPyro, without importing that."""
    return any(
        kind.__name__ == "Distribution" and kind.__module__.startswith("numpyro.")
        for kind in type(value).__mro__
    )


GPMKL = ESTIMATOR | entries(
    r"""
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted to `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is
        ``KernelBank(scale=True)``, which standardizes numbers and compares categories of a DataFrame by agreement.
        The bank may have `landmarks` in binary classification and in regression with normal noise. With more than
        3000 samples it gets 256 landmarks automatically; see `inference`.
    missing_views : {"error", "integrate", "impute"}, default="error"
        What NaN in `X` means. "error": raise an error. "integrate": a sample lacks a view if all columns of the view
        are NaN, or if its row and column of a precomputed kernel are NaN. This holds in training and in predictions.
        The model treats the missing view as an unknown point, which it infers from the other views of the sample, and
        centers each kernel on the samples that have its view. "impute": as "integrate"; if only some columns of a
        view are NaN, they are replaced by the training means of the columns.
    together : bool, default=True
        Whether the score includes interactions of two views, a part named "views together". It needs at least two
        views. Its kernel sums the products of the centered kernels over all pairs of views, so that the interaction
        averages to zero over each view of the training samples. The part has one weight, and its own line in all
        tables; see :func:`bayesmkl.posterior.interaction_table`. A sample that lacks views contributes the pairs it
        has. A bank of 256 or more kernels that are all linear does not get this part.
    kernel_views : sequence of str, default=None
        View of each precomputed kernel. None: each kernel is its own view.
    intercept_std : float, default=3.0
        Prior standard deviation of the intercept.
    design : Design, default=None
        Which columns of `X` are covariates, groups or offsets of the score.
    inference : "marginal" or Marginal, default="marginal"
        How hyperparameters are drawn, as in ``inference=Marginal(n_points=1024)``.
    random_state : int, default=None
        Seed of the draws. None uses a fixed seed.

    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of each kernel's share of the variance of the scores over the training
        samples, :math:`\operatorname{Cov}(f_m, f) / \operatorname{Var}(f)`. Read these numbers first. The means sum
        to one. A share can be negative if parts of the score cancel each other.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of :math:`w_m`.
    design_ : FittedDesign or None
        What the model learned about the columns of `design`.
    effects_ : ndarray of shape (n_effects,) or (n_outputs, n_effects)
        Posterior mean coefficients of the standardized covariates and of the levels of groups, in the units that the
        likelihood uses; see :func:`bayesmkl.posterior.effect_table`.
    sample_weight_ : ndarray of shape (n_samples,) or None
        Weights of the training samples; None if all are one. Samples of weight zero are left out. Weights of targets
        that are numbers have a mean of at most about one.
    sample_weight : array-like of shape (n_samples,), default=None
        How often each sample counts: weight 2 equals a duplicated sample, weight 0 removes it. The density of a
        target is raised to the power of its weight. The kernels of a bank, standardization and shares use the weights
        too. Weights that sum to twice the number of samples mean twice as much data. There is one exception, for
        numbers and observed times under noise of unknown size, because copies look like measurements without noise.
        If the mean of their weights is above 1.05, the weights are divided by it, with a warning. Copies of a sample
        that lacks views share the same unknown points. None: every sample counts once.
    group_labels_ : tuple of GroupLabels
        Labels of groups that are text.
    log_evidence_ : float
        Log evidence of the model in nats, with hyperparameters integrated out. NaN for chains and for more than two
        classes. With landmarks it is computed from a lower bound. Do not add up the evidence of one-versus-rest
        models: every label would count once per class, so differences would not be Bayes factors. Compare `elpd_i_`.
    pareto_k_ : float
        Pareto :math:`\hat k` of the importance weights. Below 0.5 posterior moments are reliable; above 0.7 no result
        is reliable. NaN for chains.
    rhat_ : float
        The largest :math:`\hat R` of the hyperparameters; NaN unless there are several chains.
    ess_ : float
        Effective number of independent draws of the hyperparameters.
    share_mcse_ : float
        The largest Monte Carlo standard error of the views' shares, or of kernels' shares under priors without views,
        and of the ends of their 94 % intervals. NaN for chains.
    unconverged_ : float
        Posterior probability of the points at which the approximation of the evidence did not converge.
    n_evaluations_ : int
        Number of hyperparameter settings at which the evidence was evaluated.
    outcome_ : Outcome
        How reliable the draws are.
    converged_ : bool
        Whether the draws and all evidence values are reliable.
    posterior_ : HyperDraws
        Equally likely draws of kernel weights and likelihood parameters, each with its shares and a draw of the
        scores.
    training_kernels_ : ndarray of shape (n_kernels, n_samples, n_samples) or None
        Precomputed training kernels, which predictions need; None if a bank evaluates them. With missing views they
        are centered.
    pseudo_samples_ : PseudoSamples or None
        The few samples from which a bank with `landmarks` predicts; `posterior_` refers to these.
    landmark_loss_ : float
        Part of the prior variance of the scores, over the training samples, that landmarks cannot represent; 0
        without landmarks. If it is large, more landmarks give better predictions.
    present_ : ndarray of bool of shape (n_kernels, n_samples) or None
        Whether each training sample has the view of each kernel; None with ``missing_views="error"``.
    kernel_centers_ : KernelCenters or None
        Means that are subtracted from the kernels; None with ``missing_views="error"``.
    predictability_ : ndarray of shape (n_views,) or None
        Part of the variance of each view, in the feature spaces of its kernels, that the other views predict; 0 if
        they are unrelated. None with ``missing_views="error"``. Precomputed kernels that the same training samples
        lack count as one view.

    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity (NaN where `missing_views` does not allow it).
    std : ndarray of the same shape
        Posterior standard deviation, if `return_std`.
    MemoryError
        If the draws of all parts of the scores do not fit into memory.
    ConvergenceWarning
        If the importance weights have a heavy tail, chains disagree, or the evidence did not converge at some points.
    KernelQualityWarning
        If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
    """
)


MOST = 1.05  # mean weight of numbers that has no effect, and that folds of weights of mean one may have


def counted(
    model: BaseGPMKL, X: Samples, y: Targets, sample_weight: ArrayLike | None
) -> tuple[Samples, Targets, np.ndarray | None]:
    """Return samples that count, their targets, and how often they count; None of the last is once each.

    Parameters
    ----------
    model : BaseGPMKL
        That is fitted to them.
    X : array-like of shape (n_samples, n_features), or precomputed kernels
    y : array-like of shape (n_samples, ...)
    sample_weight : array-like of shape (n_samples,) or None

    Raises
    ------
    ValueError
        If weights are no weights of the samples, or zero where kernels are precomputed.
    """
    if sample_weight is None:
        return X, y, None
    n_samples = _length(X) or check_samples(
        X, may_be_sparse=model._may_be_sparse(), may_be_text=True
    )  # groups may be text
    counts = check_weights(sample_weight, n_samples)
    if counts is None:
        return X, y, None
    if counts.min() > 0.0:
        return X, y, counts
    if model._is_precomputed():
        raise ValueError(
            "`sample_weight` must be above zero with precomputed kernels, whose columns are the training samples; "
            f"got {int((counts == 0.0).sum())} zeros. Remove the rows and columns of these samples."
        )
    kept = np.flatnonzero(counts)
    if len(kept) < 2:
        raise ValueError(
            f"`sample_weight` must be above zero for at least two samples; got {n_samples - 1} zeros of {n_samples}. "
            "A weight of zero removes a sample."
        )
    if _length(y) == n_samples:  # an error is due otherwise, and not of this
        y = _safe_indexing(y, kept)
    return _safe_indexing(X, kept), y, counts[kept]


def of_numbers(counts: np.ndarray | None, groups: list[np.ndarray], what: str = "") -> np.ndarray | None:
    r"""Return weights of samples whose targets are numbers, with a mean of at most one.

    The density of a number under noise of scale :math:`\phi` is at most of order :math:`1 / \phi`. To the power of
    weights that add up to more than the number of samples it rises without limit where the score follows them all.

    Parameters
    ----------
    counts : ndarray of shape (n_samples,), or None
    groups : list of ndarray of bool, of shape (n_samples,)
        Samples with noise of a scale of their own.
    what : str, default=""
        Which samples these are, for the warning.
    """
    if counts is None:
        return None
    mean = max((float(counts[own].mean()) for own in groups if own.any()), default=0.0)
    if mean <= MOST:
        return counts
    warn_user(
        f"`sample_weight` should have a mean of 1{what}; got {mean:.4g}. Copies of a number look like measurements "
        f"without noise, so all weights were divided by {mean:.4g}. Pass `sample_weight / {mean:.4g}`.",
        UserWarning,
    )
    return None if np.allclose(counts, mean) else counts / mean


def _length(values: Any) -> int:
    return len(values) if hasattr(values, "__len__") and not issparse(values) else 0
