"""Marginal inference by fewer hyperparameters, where nobody reads the numbers: short pages, benchmarks, commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bayesmkl.marginal import Marginal

__all__ = ["few_points", "use_few_points"]


def use_few_points() -> None:
    """Make 100 points, 500 draws and two short chains the defaults of this process."""
    Marginal.__init__.__defaults__ = ("importance", 100, 500, 2, 30, *Marginal.__init__.__defaults__[5:])


@contextmanager
def few_points() -> Iterator[None]:
    """Use few points until the end of the block."""
    usual = Marginal.__init__.__defaults__
    use_few_points()
    try:
        yield
    finally:
        Marginal.__init__.__defaults__ = usual
