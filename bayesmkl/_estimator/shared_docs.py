"""Docstring entries of all estimators, and of those with gates."""

from __future__ import annotations

from bayesmkl._utils.docstrings import entries

ESTIMATOR = entries(
    """
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted to `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is
        ``KernelBank(scale=True)``, which standardizes numbers and compares categories of a DataFrame by agreement.
    views : "all", "each", "all+each", "types" or dict, default=None
        The columns of each view, such as ``{"genes": "gene_*", "clinic": ["age", "sex"]}``; see `KernelBank`.
        None: the views of the bank in `kernels`, or one view of all columns.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    levels : sequence, default=None
        The grades in ascending order. None uses the order of numbers or of a pandas categorical; you must give the
        order of text.
    verbose : int, default=1
        1 shows the progress of fits that take over five seconds, on a terminal and in notebooks; 2 also shows the
        memory that a Gaussian process needs; 0 shows nothing.

    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, if `X` had them.

    times : array-like of shape (n_times,), default=None
        Times, in the units of the training times; None takes `event_times_`.
    ci_prob : float, default=None
        Probability content of pointwise equal-tailed intervals. None: do not return intervals.
    survival : ndarray of shape (n_rows, n_times)
        Posterior mean of the survival function of every row.
    lower, upper : ndarray of the same shape
        Bounds of its intervals, with `ci_prob`.
    q : float, default=0.5
        Probability; 0.5 gives median times.
    event_times_ : ndarray of shape (n_events,)
        Distinct observed event times, in ascending order.
    y:times : structured array of shape (n_rows,)
        As for `fit`, without intervals.
    X : array-like or DataFrame of shape (n_rows, n_features), or kernels
        With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
    X:training : array-like or DataFrame of shape (n_samples, n_features), or kernels
        With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity that the model does not allow; or for invalid parameters.
    ValueError:parameters
        For invalid parameters or data; the message names the argument and the remedy.
    TypeError:X
        If `X` is a sparse matrix, or does not hold numbers.
    TypeError:y
        If `X` or `y` is a sparse matrix, or holds objects other than numbers or labels.
    UserWarning:copies
        If rows are duplicated, features and target alike, so that noise is underestimated.
    """
)

GATES = entries(
    """
    gate_columns : list of str or int, default=None
        Columns of `X` that the gates depend on: names, positions, a slice, a boolean mask, or one name or position.
        Kernels do not use them, unless a view of the bank names them. None: gates and kernels use all columns.

    n_gate_features_ : int
        Number of features that the gates depend on.
    gate_columns_ : ndarray of shape (n_gate_features_,) or None
        Positions of `gate_columns`.

    gate_features : array-like of shape (n_rows, n_gate_features), default=None
        Features that the gates depend on, with ``kernels="precomputed"``.
    gate_features:training : array-like of shape (n_samples, n_gate_features), default=None
        Features that the gates depend on, with ``kernels="precomputed"``; otherwise use columns of `X`.
    ValueError:gates
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds no finite
        numbers; or if `gate_features` are missing, not needed, or of another shape.
    TypeError:gates
        If `X`, `y` or `gate_features` is a sparse matrix, or holds other objects than numbers or labels.
    """
)
