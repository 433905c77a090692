"""Circular fingerprints of molecules that are written as SMILES, through RDKit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_integer
from bayesmkl.kernels.one_column import ONE_COLUMN, OneColumn, column_of, refused_row, refused_text

__all__ = ["MorganFingerprint"]

SMILES = "molecules as SMILES, such as 'CCO'"
RDKIT = "rdkit", "circular fingerprints", "molecules"
LONGEST = 10_000  # characters of a molecule
DEEPEST = 200  # branches inside of branches


@fill_docs(ONE_COLUMN)
class MorganFingerprint(OneColumn):
    """Count the atom environments of molecules: Morgan, or extended-connectivity, fingerprints by RDKit.

    What comes out is for :class:`Tanimoto`, which compares what two molecules share with what either has. Nothing is
    learned from training samples. RDKit is not among the requirements: ``pip install "bayesmkl[molecules]"``.

    Parameters
    ----------
    radius : int, default=2
        Largest number of bonds between an environment's center and its other atoms; 2 is "ECFP4".
    n_bits : int, default=2048
        Columns, into which environments are hashed.
    counts : bool, default=True
        How often an environment is there; False: 1 where it is, else 0.

    Attributes
    ----------
    n_features_in_ : int
        One.

    Raises
    ------
    ImportError
        If RDKit is not installed.
    ValueError
        For a row that is no molecule, whose number it says: text that RDKit does not parse or that is empty, missing
        values and other objects, more than 10000 characters, more than 200 branches inside of each other. Of files
        from strangers, too, every molecule is either counted or named.

    See Also
    --------
    Tanimoto : The kernel on them.

    References
    ----------
    .. [1] D. Rogers, M. Hahn (2010), Extended-connectivity fingerprints, Journal of Chemical Information and Modeling
       50.

    Examples
    --------
    >>> from bayesmkl.kernels import MorganFingerprint, Tanimoto
    >>> alcohols = MorganFingerprint(n_bits=256).fit_transform(["CCO", "CCCO", "c1ccccc1O"])
    >>> alcohols.shape
    (3, 256)
    >>> Tanimoto()(alcohols, alcohols).round(2)
    array([[1.  , 0.55, 0.02],
           [0.55, 1.  , 0.02],
           [0.02, 0.02, 1.  ]])
    """

    def __init__(self, radius: int = 2, n_bits: int = 2048, counts: bool = True) -> None:
        self.radius = radius
        self.n_bits = n_bits
        self.counts = counts

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any = None) -> MorganFingerprint:
        """Check parameters and molecules.

        Parameters
        ----------
        %(X)s
        %(y)s

        Returns
        -------
        self : MorganFingerprint
            It has learned nothing.

        Raises
        ------
        ImportError
            If RDKit is not installed.
        ValueError
            For parameters that are none, and rows that are no molecules.
        """
        self._count(X)
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Count environments.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        fingerprints : ndarray of shape (n_samples, n_bits)
            Counts, or 0 and 1.

        Raises
        ------
        ImportError
            If RDKit is not installed.
        ValueError
            For rows that are no molecules.
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return self._count(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        %(input_features)s

        Returns
        -------
        names : ndarray of str of shape (n_bits,)
            "morgan0" and so on.
        """
        return np.array([f"morgan{j}" for j in range(self.n_bits)], dtype=object)

    def _count(self, X: Any) -> np.ndarray:
        radius = check_integer("radius", self.radius, low=0)
        n_bits = check_integer("n_bits", self.n_bits, low=1)
        if not isinstance(self.counts, bool):
            raise ValueError(f"`counts` must be True or False; got {self.counts!r}.")
        texts = column_of(X, "molecules as SMILES")
        for row, text in enumerate(texts):
            why = _refused(text)
            if why:
                raise refused_row(row, text, why, SMILES)
        chem = require("rdkit.Chem", *RDKIT)
        base = require("rdkit.rdBase", *RDKIT)
        made = require("rdkit.Chem.rdFingerprintGenerator", *RDKIT)
        generator = made.GetMorganGenerator(radius=radius, fpSize=n_bits)
        count = generator.GetCountFingerprintAsNumPy if self.counts else generator.GetFingerprintAsNumPy
        found = np.empty((len(texts), n_bits))
        with base.BlockLogs():  # which say on the terminal what the error says
            for row, text in enumerate(texts):
                molecule = chem.MolFromSmiles(text)
                if molecule is None:
                    raise refused_row(row, text, "RDKit does not parse it", SMILES)
                found[row] = count(molecule)
        return found


def _refused(text: Any) -> str:
    """Return why something is not even tried, or nothing."""
    if why := refused_text(text, LONGEST):
        return why
    depth = deepest = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        deepest = max(deepest, depth)
    return (
        f"it has {deepest} branches inside of each other, and more than {DEEPEST} are not read"
        if deepest > DEEPEST
        else ""
    )
