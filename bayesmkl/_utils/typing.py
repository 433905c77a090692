"""Types of what users pass: samples, targets, labels, indices, seeds and splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd


class RowBlocks(Protocol):
    """Rows of a table that are read in blocks, as `bayesmkl.datasets.open_rows` opens it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns, where the table has such."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Index) -> np.ndarray: ...

    def blocks(self, size: int = ...) -> Iterator[np.ndarray]:
        """Go through the rows, at most `size` at a time."""
        ...


class Splitter(Protocol):
    """A rule of cross-validation, as scikit-learn has them."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        ...

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Go through the positions of training and test samples."""
        ...


# Rows of features, a table, or kernels with the kernels last; whatever NumPy makes an array of is one.
Samples: TypeAlias = "ArrayLike | pd.DataFrame | RowBlocks"
# One value or label per sample, or a column for each of several outputs.
Targets: TypeAlias = "ArrayLike | pd.Series | pd.DataFrame"
# A class, or the mark of samples without one.
Label: TypeAlias = "str | float | np.generic"
# Positions in an array.
Index: TypeAlias = "int | np.integer | slice | np.ndarray | Sequence[int]"
Seed: TypeAlias = "int | np.random.Generator | np.random.RandomState"
# A number of folds, a rule, or the positions of training and test samples themselves.
Splits: TypeAlias = "int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]]"
# A name, a scorer, several names, or names of one's own for them.
Scoring: TypeAlias = "str | Callable[..., float] | Sequence[str] | Mapping[str, str | Callable[..., float]]"
