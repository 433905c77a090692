"""Free texts of a table as numbers: directions in which the frequencies of their words vary most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_integer
from bayesmkl.kernels.one_column import ONE_COLUMN, OneColumn, column_of

__all__ = ["TextFeatures"]


@fill_docs(ONE_COLUMN)
class TextFeatures(OneColumn):
    """Turn a column of texts into numbers by scikit-learn: frequencies of words, then their main directions.

    Missing texts have no words; words that no training text has are not seen.

    Parameters
    ----------
    column : str
        Name of the column, for the names of what comes out.
    n_components : int, default=8
        Directions; where there are fewer words, the rest is zero.

    Attributes
    ----------
    words_ : TfidfVectorizer
        Frequencies of words.
    directions_ : TruncatedSVD
        Their directions.

    Examples
    --------
    >>> features = TextFeatures("note", n_components=2)
    >>> features.fit_transform(["tired and pale", "pale", None]).shape
    (3, 2)
    >>> features.get_feature_names_out().tolist()
    ['note: words 0', 'note: words 1']
    """

    def __init__(self, column: str, n_components: int = 8) -> None:
        self.column = column
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> TextFeatures:
        """Learn words and directions.

        Parameters
        ----------
        %(X:train)s
        %(y)s

        Returns
        -------
        self : TextFeatures
            The transformer.

        Raises
        ------
        ValueError
            If there are no words.
        """
        n_components = check_integer("n_components", self.n_components, low=1)
        texts = _texts(X)
        self.words_ = TfidfVectorizer()
        try:
            found = self.words_.fit_transform(texts)
        except ValueError as error:  # an empty vocabulary
            raise ValueError(
                f"column {self.column!r} must hold texts with words of two letters or more; got none. Leave it out."
            ) from error
        self.directions_ = TruncatedSVD(min(n_components, found.shape[1]), random_state=0)
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of no variance
            self.directions_.fit(found)
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the numbers of texts.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            Directions by falling variance.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        found = self.directions_.transform(self.words_.transform(_texts(X)))
        return np.pad(found, ((0, 0), (0, self.n_components - found.shape[1])))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        %(input_features)s

        Returns
        -------
        names : ndarray of str of shape (n_components,)
            Such as "note: words 0".
        """
        return np.array([f"{self.column}: words {j}" for j in range(self.n_components)], dtype=object)


def _texts(X: Any) -> list[str]:
    return ["" if pd.isna(text) is True else str(text) for text in column_of(X, "texts")]
