"""Docstring entries of the estimators of marginal inference."""

from __future__ import annotations

from bayesmkl._estimator.shared_docs import ESTIMATOR
from bayesmkl._utils.docstrings import entries

GPMKL = ESTIMATOR | entries(
    r"""
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank("auto")``, whose
        kernels have the scale of the samples. Of classifiers of two classes and of regression with normal noise the
        bank may have `landmarks`, for more samples than a few thousand.
    missing_views : {"error", "integrate", "impute"}, default="error"
        Meaning of NaN in `X`. "error": raise an error. "integrate": samples lack views, in training and predictions
        alike: all columns of a view are NaN, or the row and column of a precomputed kernel; what a kernel adds to the
        score of such a sample is a function of a point that is not known, but for what its other views tell of it.
        Kernels are centered on the samples that have their view then.
        "impute": the same, and NaN in some but not all columns of a view is replaced by means of the columns in
        training.
    intercept_std : float, default=3.0
        Prior standard deviation of the intercept.
    design : Design, default=None
        Which columns of `X` are covariates, say the group of a sample, or are offsets of the score.
    inference : "marginal" or Marginal, default="marginal"
        Options of the draws of hyperparameters, as in ``inference=Marginal(n_points=1024)``.
    random_state : int, default=None
        Seed of the draws. None is a fixed seed.

    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of each kernel's share of the variance of the scores over the training
        samples, :math:`\operatorname{Cov}(f_m, f) / \operatorname{Var}(f)`: the numbers to read first. Means sum to
        one; where parts of the score offset each other a share can be negative.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of :math:`w_m`.
    design_ : FittedDesign or None
        What was learned of the columns of `design`.
    effects_ : ndarray of shape (n_effects,) or (n_outputs, n_effects)
        Posterior mean coefficients of covariates, which are standardized, and of the levels of groups, in the units
        that the likelihood sees; see :func:`bayesmkl.posterior.effect_table`.
    sample_weight_ : ndarray of shape (n_samples,) or None
        Weights of the training samples, where they are not all one; those of weight zero are left out, and those of
        numbers have a mean of at most about one.
    sample_weight : array-like of shape (n_samples,), default=None
        How often samples count: weight 2 equals a duplicated sample, weight 0 removes it. The density of a target is
        raised to the power of its weight, and kernels of a bank, standardization and shares count it so often;
        weights of a sum of twice the number of samples say that twice as much is known. Numbers and observed times
        under noise of unknown size are an exception, since copies of them look like measurements without noise:
        weights of a mean above 1.05 are divided by it, with a warning. Of a sample that lacks views the copies lack
        the same: their lost points are one. None: once each.
    group_labels_ : tuple of GroupLabels
        Labels of groups that are text.
    log_evidence_ : float
        Log evidence of the model in nats, hyperparameters integrated out; NaN of chains and of more than two classes.
        By a lower bound with landmarks. Models of each of several classes against the rest count every label once per
        class: differences of what they add up to are no Bayes factors. Compare `elpd_i_`.
    pareto_k_ : float
        Pareto :math:`\hat k` of the importance weights: below 0.5 posterior moments are reliable, above 0.7 nothing
        is. NaN of chains.
    rhat_ : float
        The largest :math:`\hat R` of the hyperparameters of chains; NaN without several.
    ess_ : float
        Number of independent draws from the posterior that those of the hyperparameters are worth.
    unconverged_ : float
        Posterior probability of the points whose evidence is not known, because its approximation did not converge.
    n_evaluations_ : int
        Hyperparameters at which the evidence was evaluated.
    outcome_ : Outcome
        What the weights are like.
    converged_ : bool
        Whether they can be relied on, and all evidences.
    posterior_ : HyperDraws
        Equally likely draws of kernel weights and parameters of the likelihood, with shares and a draw of the scores.
    training_kernels_ : ndarray of shape (n_kernels, n_samples, n_samples) or None
        Precomputed training kernels, which predictions need; None where a bank evaluates them. With missing views
        they are centered.
    pseudo_samples_ : PseudoSamples or None
        The few samples by which predictions are made where a bank has `landmarks`; `posterior_` is of these.
    present_ : ndarray of bool of shape (n_kernels, n_samples) or None
        Mask of training samples that have the view of each kernel; None with ``missing_views="error"``.
    kernel_centers_ : KernelCenters or None
        Means of the kernels that are subtracted from them; None with ``missing_views="error"``.
    predictability_ : ndarray of shape (n_views,) or None
        Part of the variance of each view, in the feature spaces of its kernels, that the other views tell: 0 where
        they have nothing to do with it. None with ``missing_views="error"``. Precomputed kernels that the same
        training samples lack are of one view.

    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity (NaN where `missing_views` does not allow it).
    std : ndarray of the same shape
        Posterior standard deviation, if `return_std`.
    MemoryError
        If the draws of all parts of the scores do not fit into memory.
    ConvergenceWarning
        If the importance weights have a heavy tail, chains disagree, or the evidence of some points is not known.
    KernelQualityWarning
        If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
    """
)
