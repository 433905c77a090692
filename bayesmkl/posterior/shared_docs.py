"""Docstring entries of functions that look at a fitted model."""

from __future__ import annotations

from bayesmkl._utils.docstrings import entries

MODEL = entries(
    """
    model : estimator
        A fitted BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, or a Pipeline or search that
        ends in one; any inference.
    model:times : estimator
        A fitted GPMKLSurvival or BEMKLSurvival, or a Pipeline or search that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_features), or kernels
        New samples, as `model` takes them.
    kernels:kept : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, for a model that was fitted to precomputed ones and does not keep them.
    ci_prob : float, default=0.94
        Probability content of the intervals, the same in both tails.
    ci_prob:plot : float, default=0.94
        Probability content of the intervals, see :func:`kernel_table`.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws from a variational posterior.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; None makes a figure.

    TypeError
        For any other model; for a multitask model too.
    TypeError:tasks
        For any other model.
    """
)
