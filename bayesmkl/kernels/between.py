"""Kernels of a fitted bank between new rows, where a bank itself compares rows with its training points."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.kernels.bank import KernelBank, check_finite, naming_kernel
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Center, normalized_kernel
from bayesmkl.kernels.together import Together


def kernels_between(bank: KernelBank, X: Any) -> np.ndarray:
    """Return the kernels between rows, normalized as those of the rows with the training points.

    Parameters
    ----------
    bank : KernelBank
        Fitted.
    X : ndarray of shape (n_rows, n_features)
        Validated rows.

    Returns
    -------
    ndarray of shape (n_kernels, n_rows, n_rows)
        NaN where a view is absent.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank, Linear
    >>> bank = KernelBank(Linear(), normalize="center").fit(np.array([[0.0], [2.0]]))
    >>> kernels_between(bank, np.array([[1.0], [3.0]]))[0]
    array([[0., 0.],
           [0., 4.]])
    """
    found = np.full((bank.n_kernels_, len(X), len(X)), np.nan)
    means = np.zeros((bank.n_kernels_, len(X)))  # similarities with the training mean, of views together
    for m, kernel, geometry, place in bank._evaluations(X):
        if isinstance(kernel, Together):
            kernels = ((k, found[k], found[k].diagonal()) for k in range(m))
            found[m] = kernel.own.product(kernels, kernel.own.around(means[:m]))[0]
            break
        moved, steps = normalized_kernel(kernel, bank.normalizers_[m]), bank.normalizers_[m]
        values, train = np.empty((len(geometry.X),) * 2), np.empty(geometry.shape)
        with naming_kernel(bank.kernel_names_[m]):
            moved.evaluate(PairwiseGeometry(geometry.X, geometry.X), values)
            diagonal = check_finite(moved.diagonal(geometry.X))
            if bank.has_together or any(isinstance(step, Center) for step in steps):
                moved.evaluate(geometry, train)
            for step in steps:
                step.between(values, train, diagonal)
                diagonal = step.apply(train, diagonal)
                values[diagonal == 0.0] = values[:, diagonal == 0.0] = 0.0
            check_finite(values)
        rows: Any
        columns: Any
        rows, columns = (slice(None), slice(None)) if place is None else (place[0][:, 0], place[1][0])
        found[m][(rows, columns) if place is None else np.ix_(rows, rows)] = values
        if bank.has_together:
            shares = bank.kernels_[-1].own.shares[bank.view_positions_[m]]
            means[m, rows] = train @ shares[columns]
    return found
