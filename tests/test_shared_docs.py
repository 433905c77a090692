"""Docstring entries that several estimators or functions share are filled into their docstrings."""

from __future__ import annotations

import functools
import inspect

import pytest

from bayesmkl._utils.docstrings import entries, fill_docs

TABLE = entries(
    r"""
    C : float
        Penalty, 95 % of {\it it}: :math:`C > 0`.

        Second paragraph.
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights.
    ValueError:C
        If `C` is not positive.
    """
)


def test_entries_have_names_variants_and_no_marks_of_classes():
    assert list(TABLE) == ["C", "kernel_weights_", "ValueError:C"]
    assert TABLE["kernel_weights_"].splitlines()[0] == "kernel_weights_ : ndarray of shape (n_kernels,)"
    assert TABLE["ValueError:C"] == "ValueError\n    If `C` is not positive."


def wrapped(method):
    @functools.wraps(method)
    def wrapper(*args):
        return method(*args)

    return wrapper


def test_classes_methods_and_what_is_inside_wrappers_are_filled():
    @fill_docs(TABLE)
    class First:
        r"""One.

        %(C)s, default=1.0
            :math:`\frac{1}{2}`, 100 %(C)s of it.
        %(kernel_weights_)s *
        own : int
            Own text.
        """

        @wrapped
        def fit(self):
            """Fit.

            Raises
            ------
            %(ValueError:C)s
            """

    @fill_docs({"C": "C : str\n    The first table decides."}, TABLE, First)
    class Second(First):
        """Two.

        %(C)s
        %(First.kernel_weights_)s
        %(First.own)s, default=3
        """

    assert inspect.getdoc(First) == inspect.cleandoc(
        r"""One.

        C : float, default=1.0
            Penalty, 95 % of {\it it}: :math:`C > 0`.

            Second paragraph.
            :math:`\frac{1}{2}`, 100 %(C)s of it.
        kernel_weights_ : ndarray of shape (n_kernels,) *
            Weights.
        own : int
            Own text.
        """
    )
    raises = "Fit.\n\nRaises\n------\nValueError\n    If `C` is not positive."
    assert (
        inspect.getdoc(First.fit)
        == inspect.getdoc(First.fit.__wrapped__)
        == inspect.getdoc(Second.fit)
        == raises
    )
    assert inspect.getdoc(Second) == inspect.cleandoc(
        """Two.

        C : str
            The first table decides.
        kernel_weights_ : ndarray of shape (n_kernels,)
            Weights.
        own : int, default=3
            Own text.
        """
    )


def test_functions_are_filled():
    @fill_docs(TABLE)
    def fit(C):
        """Fit.

        %(C)s, default=2.0
        """

    assert inspect.getdoc(fit).startswith("Fit.\n\nC : float, default=2.0\n    Penalty, 95 % of")


def test_an_unknown_key_is_an_error():
    class Estimator:
        def predict(self):
            """Predict.

            %(Z)s
            """

    with pytest.raises(LookupError, match=r"Estimator\.predict: no shared docstring entry 'Z'\."):
        fill_docs(TABLE)(Estimator)


def test_classes_without_docstrings_stay_without():
    class Bare:  # as under `python -OO`
        def fit(self):
            pass

    filled = fill_docs(TABLE, Bare)(Bare)
    assert filled is Bare
    assert filled.__doc__ is filled.fit.__doc__ is None
