"""Docstring entries of discriminative estimators."""

from __future__ import annotations

from bayesmkl._estimator.shared_docs import ESTIMATOR, GATES
from bayesmkl._utils.docstrings import entries

DISCRIMINATIVE = ESTIMATOR | entries(
    r"""
    tol : float, default=1e-3
        Largest duality gap, relative to the objective.
    max_iter : int
        Maximum number of updates of the kernel weights.
    indefinite : {"raise", "clip"}, default="raise"
        Treatment of kernels that are not positive semidefinite: raise an error, or clip negative eigenvalues.

    intercept_ : float
        The intercept `b`.
    support_fraction_ : float
        Fraction of the training samples that are support vectors.
    objective_history_ : ndarray of shape (n_iter_,)
        Objective after every step; it never rises.
    duality_gap_ : float
        Primal minus dual value, which bounds the distance from the optimum.
    duality_gap_:none : float
        NaN: the weights solve no optimization problem.
    n_iter_, n_solves_ : int
        Length of the history, and number of SVMs trained.
    outcome_ : Outcome
        Stopping reason of the optimization of the weights.
    clipping_ : Clipping or None
        Clipping of indefinite kernels.

    X, Z : array-like or DataFrame of shape (n_rows, n_features), or kernels
        Samples, as in `gates`; None uses the training samples.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples: 2 equals a duplicated sample, 0 removes it. They multiply `C`, and also apply to
        the statistics of kernels and to alignments. None: one each.
    y:labels : array-like of shape (n_samples,)
        Labels of at least two classes.
    y:target : array-like of shape (n_samples,)
        Target, in any units; it is not standardized.
    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
        numbers.
    ConvergenceWarning
        If the tolerance was not reached; the message gives the duality gap.
    KernelQualityWarning
        If kernels are near-identity, constant, duplicate, asymmetric or badly scaled.
    """
)

CLASSIFIER = DISCRIMINATIVE | entries(
    r"""
    C : float, default=1.0
        Regularization parameter, :math:`C > 0`: penalty of margin violations.
    tol:libsvm : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions.
    class_weight : dict, "balanced" or None, default=None
        Factor of `C` for each label; labels that are not in the dict have factor one. "balanced": factors inversely
        proportional to the total `sample_weight` of each class, with mean one over the samples. None: one.
    multiclass : {"one-versus-rest", "shared"}, default="one-versus-rest"
        With more than two classes: separate kernel weights for every class against the rest, or one set for all.

    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, attributes marked * have a leading axis of length n_classes (or are tuples), those
        marked + only with ``multiclass="one-versus-rest"``.
    classes_:separate : ndarray of shape (n_classes,)
        Labels. With more than two, one model is fitted per class (one-versus-rest), and attributes marked * have a
        leading axis of length n_classes (or are tuples).
    kernel_weights_:sparse : ndarray of shape (n_kernels,)
        Weights on the simplex, most of them exactly zero.
    dual_coef_ : ndarray of shape (n_samples,)
        Signed dual :math:`\alpha_i y_i`, zero off the support.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors, in any class.
    support_:coefficients : ndarray of shape (n_support,)
        Positions of the samples with a coefficient, in any class.
    support_:kernels : ndarray of shape (n_support,)
        Positions of the samples with a coefficient, for any kernel and class.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest, in any class.
    converged_ : bool
        Whether every optimization reached its tolerance.
    """
)

REGRESSOR = DISCRIMINATIVE | entries(
    r"""
    C : float, default=None
        Penalty of deviations beyond `epsilon`, :math:`C > 0`, in units of the target for kernels of about unit
        self-similarity. None: the standard deviation of the target.
    epsilon : float, default=None
        Deviations up to this size, in units of the target, are not penalized. None: a tenth of the standard deviation
        of the target.
    tol:libsvm : float, default=1e-3
        Tolerance of LibSVM, the largest violation of its optimality conditions in standard deviations of the target.

    dual_coef_ : ndarray of shape (n_samples,)
        Coefficients of the training samples, zero off the support.
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors.
    n_active_kernels_ : int
        Kernels with a weight above 1e-6 of the largest.
    converged_ : bool
        Whether the optimization reached its tolerance.
    """
)

GATED = (
    CLASSIFIER
    | GATES
    | entries(
        r"""
    n_active_kernels_ : int
        Kernels with a gate above 1e-6 of the largest, at any sample and in any class.
    """
    )
)
