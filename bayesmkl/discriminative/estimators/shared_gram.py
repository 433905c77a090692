"""Frobenius products of kernels, computed once for all classes of a fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl.kernels.alignment import frobenius_gram
from bayesmkl.kernels.stacks.base import StoredStack

__all__ = ["WithGram", "with_gram"]


class WithGram(NamedTuple):
    """Training kernels and their Frobenius products.

    Parameters
    ----------
    stack : StoredStack
    gram : ndarray of shape (n_kernels, n_kernels) or None
        None where the method needs none.
    """

    stack: StoredStack
    gram: np.ndarray | None


def with_gram(stack: StoredStack, needed: bool, center: bool = False) -> WithGram:
    """Compute the Frobenius products of (centered) kernels if they are needed."""
    return WithGram(stack, frobenius_gram(stack, center) if needed else None)
