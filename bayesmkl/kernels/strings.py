"""Strings as counts of the words in them, and as edit distances to the training strings."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl.kernels.one_column import (
    ONE_COLUMN,
    DistanceToTraining,
    OneColumn,
    column_of,
    refused_row,
    refused_text,
)

__all__ = ["EditDistance", "MismatchSpectrum"]

STRINGS = "strings"
MOST_COLUMNS = 10_000_000
MOST_NEIGHBORS = 100_000  # of a word, that differ from it in few letters
METRICS = {"levenshtein": "Levenshtein", "damerau-levenshtein": "DamerauLevenshtein", "indel": "Indel"}


@fill_docs(ONE_COLUMN)
class MismatchSpectrum(OneColumn):
    r"""Count the words of a length in strings, and with each the words that differ from it in few letters.

    .. math:: \phi_b(x) = \#\{\text{words } a \text{ of } x : a \text{ differs from } b \text{ in at most } m
       \text{ letters}\}

    for every word :math:`b` of `length` letters [1]_. The linear kernel on these counts is the mismatch kernel, with
    ``mismatches=0`` the spectrum kernel. Counts are sparse: :class:`Linear`, :class:`Cosine`, :class:`Tanimoto` and
    :class:`Gaussian` compare them as they are.

    Parameters
    ----------
    length : int, default=3
        Letters of a word, :math:`k`.
    mismatches : int, default=0
        Letters in which words may differ, :math:`m`; less than `length`.
    alphabet : str, default=None
        Letters that there are, such as "ACGT". None is those of the training strings.

    Attributes
    ----------
    alphabet_ : str
        The letters.
    n_features_in_ : int
        One.

    Raises
    ------
    ValueError
        For a row that is no string, has fewer than `length` letters or more than 10000, or a letter that is not in
        the alphabet, with its number.

    See Also
    --------
    EditDistance : How many letters turn one string into another.

    References
    ----------
    .. [1] C. Leslie, E. Eskin, A. Cohen, J. Weston, W. S. Noble (2004), Mismatch string kernels for discriminative
       protein classification, Bioinformatics 20.

    Examples
    --------
    >>> from bayesmkl.kernels import MismatchSpectrum
    >>> MismatchSpectrum(2, alphabet="AB").fit_transform(["ABAB", "BB"]).toarray()  # of AA, AB, BA and BB
    array([[0., 2., 1., 0.],
           [0., 0., 0., 1.]])
    >>> MismatchSpectrum(2, mismatches=1, alphabet="AB").fit_transform(["BB"]).toarray()
    array([[0., 1., 1., 1.]])
    """

    def __init__(self, length: int = 3, mismatches: int = 0, alphabet: str | None = None) -> None:
        self.length = length
        self.mismatches = mismatches
        self.alphabet = alphabet

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any = None) -> MismatchSpectrum:
        """Learn the letters.

        Parameters
        ----------
        %(X:train)s
        %(y)s

        Returns
        -------
        self : MismatchSpectrum
            The transformer.

        Raises
        ------
        ValueError
            For parameters that are none, more words than 10 million, and rows that are no strings.
        """
        length = check_integer("length", self.length, low=1)
        mismatches = check_integer("mismatches", self.mismatches, low=0)
        if mismatches >= length:
            raise ValueError(
                f"`mismatches` must be less than `length`; got {mismatches} and {length}: all words would be alike."
            )
        given = self.alphabet
        if given is not None and (not isinstance(given, str) or not given or len(set(given)) < len(given)):
            raise ValueError(f'`alphabet` must be different letters, such as "ACGT"; got {shown(given)}.')
        rows = self._strings(X)
        letters = "".join(sorted(set().union(*rows))) if given is None else given
        n_words = len(letters) ** length
        n_neighbors = sum(comb(length, m) * (len(letters) - 1) ** m for m in range(mismatches + 1))
        if n_words > MOST_COLUMNS or n_neighbors > MOST_NEIGHBORS:
            raise ValueError(
                f"`length` and `mismatches` must leave at most {MOST_COLUMNS} words of which {MOST_NEIGHBORS} are "
                f"alike; {len(letters)} letters make {n_words} words of {length}. Use shorter ones."
            )
        self.alphabet_ = letters
        self.n_features_in_ = 1
        self._codes(rows)
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """Count words.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        counts : csr_array of shape (n_samples, n_letters ** length)
            In the order of the alphabet.

        Raises
        ------
        ValueError
            For rows that are no strings of these letters.
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        codes = self._codes(self._strings(X))
        n_letters = len(self.alphabet_)
        powers = n_letters ** np.arange(self.length - 1, -1, -1)
        words = [np.lib.stride_tricks.sliding_window_view(row, self.length) @ powers for row in codes]
        rows = np.repeat(np.arange(len(words)), [len(found) for found in words])
        seen, columns = np.unique(np.concatenate(words), return_inverse=True)
        counts = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(words), len(seen)))
        letters = seen[:, None] // powers % n_letters
        alike = np.stack(
            [(letters + move) % n_letters @ powers for move in self._all_moves(n_letters)], axis=1
        )
        ends = np.arange(len(seen) + 1) * alike.shape[1]
        near = (np.ones(alike.size), alike.ravel(), ends)
        found = counts @ sparse.csr_array(near, shape=(len(seen), n_letters**self.length))
        found.sort_indices()
        return found

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        %(input_features)s

        Returns
        -------
        names : ndarray of str of shape (n_letters ** length,)
            The words.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return np.array(
            ["".join(letters) for letters in product(self.alphabet_, repeat=self.length)], dtype=object
        )

    def _all_moves(self, n_letters: int) -> np.ndarray:
        return np.concatenate(
            [_moves(self.length, n_changed, n_letters) for n_changed in range(self.mismatches + 1)]
        )

    def _strings(self, X: Any) -> list[str]:
        rows = column_of(X, STRINGS)
        for row, text in enumerate(rows):
            why = refused_text(text)
            if not why and len(text) < self.length:
                why = f"it has {len(text)} letters, and words have {self.length}"
            if why:
                raise refused_row(row, text, why, STRINGS)
        return rows

    def _codes(self, rows: list[str]) -> list[np.ndarray]:
        """Return the positions of letters in the alphabet."""
        place = {letter: position for position, letter in enumerate(self.alphabet_)}
        found = []
        for row, text in enumerate(rows):
            try:
                found.append(np.array([place[letter] for letter in text]))
            except KeyError as error:
                why = (
                    f"{error} is none of the letters {shown(self.alphabet_)}; name all of them in `alphabet`"
                )
                raise refused_row(row, text, why, STRINGS) from None
        return found


def _moves(length: int, n_changed: int, n_letters: int) -> np.ndarray:
    """Return what is added to letters, modulo their number, to change `n_changed` of them: (n_moves, length)."""
    moves = []
    for places in combinations(range(length), n_changed):
        for steps in product(range(1, n_letters), repeat=n_changed):
            move = np.zeros(length, dtype=np.int64)
            move[list(places)] = steps
            moves.append(move)
    return np.array(moves, dtype=np.int64).reshape(len(moves), length)


class EditDistance(DistanceToTraining):
    """Edit distances to the training strings, by RapidFuzz: how many letters turn one string into another.

    The columns are for ``FromDistance("precomputed")``, whose kernel is :math:`e^{-d / s}`. RapidFuzz is not among
    the requirements: ``pip install "bayesmkl[strings]"``.

    Parameters
    ----------
    metric : {"levenshtein", "damerau-levenshtein", "indel"}, default="levenshtein"
        What is one step: a letter that is inserted, left out or replaced; also two neighbors that change places; or
        only what is inserted and left out.
    normalized : bool, default=True
        Divide by the largest distance of strings of these lengths, so that distances are between 0 and 1.

    Attributes
    ----------
    train_ : ndarray of str of shape (n_train,)
        The training strings.
    n_features_in_ : int
        One.

    Raises
    ------
    ImportError
        If RapidFuzz is not installed.
    ValueError
        For a row that is no string, or empty, or has more than 10000 characters, with its number.

    See Also
    --------
    MismatchSpectrum : Words that strings have in common.
    FromDistance : The kernel on these distances.

    Examples
    --------
    >>> from bayesmkl.kernels import EditDistance
    >>> distances = EditDistance(normalized=False).fit(["sitting", "kitchen"])
    >>> distances.transform(["kitten"])
    array([[3., 2.]])
    """

    def __init__(self, metric: str = "levenshtein", normalized: bool = True) -> None:
        self.metric = metric
        self.normalized = normalized

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _check_parameters(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise ValueError(f"`metric` must be one of {', '.join(METRICS)}; got {shown(self.metric)}.")
        if not isinstance(self.normalized, bool):
            raise ValueError(f"`normalized` must be True or False; got {shown(self.normalized)}.")

    def _read(self, X: Any, train: np.ndarray | None) -> np.ndarray:
        rows = column_of(X, STRINGS)
        for row, text in enumerate(rows):
            if why := refused_text(text):
                raise refused_row(row, text, why, STRINGS)
        return np.array(rows, dtype=str)

    def _compare(self, rows: np.ndarray, train: np.ndarray) -> np.ndarray:
        asked = "edit distances", "strings"
        distance = getattr(require("rapidfuzz.distance", "rapidfuzz", *asked), METRICS[self.metric])
        scorer = distance.normalized_distance if self.normalized else distance.distance
        process = require("rapidfuzz.process", "rapidfuzz", *asked)
        found: np.ndarray = process.cdist(rows.tolist(), train.tolist(), scorer=scorer, dtype=np.float64)
        return found
