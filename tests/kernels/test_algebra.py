"""Sums of banks and products with a kernel: the matrices of both, by other means."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl import KernelBank
from bayesmkl.kernels import Gate, Gaussian, Linear, Polynomial, Tanimoto

X = np.abs(np.random.default_rng(0).normal(size=(14, 5)))
LEFT = KernelBank([Gaussian(2), Linear()], {"left": [0, 1]}, "trace")
RIGHT = KernelBank(
    {"right": "auto", "more": Tanimoto()}, {"right": [2], "more": slice(3, None)}, ("center", "trace")
)


def _of(bank, rows=X):
    return bank.fit(X).transform(rows)


def test_a_sum_has_the_kernels_of_both_in_order():
    both = LEFT + RIGHT
    np.testing.assert_array_equal(
        _of(both, X[:4]), np.concatenate([_of(LEFT, X[:4]), _of(RIGHT, X[:4])], axis=-1)
    )
    assert both.kernel_names_ == [*LEFT.kernel_names_, *RIGHT.kernel_names_]
    assert both.normalize == {"left": "trace", "right": ("center", "trace"), "more": ("center", "trace")}
    assert not hasattr(LEFT + RIGHT, "kernels_")  # unfitted


def test_a_view_of_both_has_the_kernels_of_both_and_sums_associate():
    one, two = KernelBank(Linear()), KernelBank(["auto", Polynomial(3)])
    assert (one + two).views == {"all": slice(None)}
    np.testing.assert_array_equal(_of(one + two), np.concatenate([_of(one), _of(two)], axis=-1))
    third = KernelBank(Tanimoto(), {"last": -1})
    assert repr((one + two) + third) == repr(one + (two + third))


def test_products_are_those_of_the_matrices_before_normalization():
    plain = KernelBank({"a": ["auto"], "b": Linear()}, {"a": [0, 1], "b": [2, 3, 4]}, None)
    factors = np.stack([Polynomial(2)(X[:, v], X[:, v]) for v in ([0, 1],) * 4 + ([2, 3, 4],)], axis=-1)
    np.testing.assert_allclose(_of(plain * Polynomial(2)), _of(plain) * factors, rtol=1e-13)
    each = KernelBank("auto", "each") * Gate(4, width=1.5)
    assert len(each.fit(X).kernel_names_) == 20
    gate = np.exp(-((X[:, 4, None] - X[:, 4]) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(
        _of(each), _of(KernelBank("auto", "each")) * gate[..., None], rtol=1e-12, atol=1e-15
    )


def test_a_product_leaves_the_bank_as_it_was():
    before = repr(RIGHT)
    product = RIGHT * Gate(0)
    product.set_params(kernels__more=Linear())
    assert repr(RIGHT) == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (KernelBank("auto", "each"), "`views` of banks must be named or"),
        (
            KernelBank("auto", {"left": [0, 2]}, "trace"),
            r"the same columns .* got \[0, 1\] and \[0, 2\] for 'left'",
        ),
        (
            KernelBank("auto", {"left": [0, 1]}),
            "`normalize` .* must be the same .* 'trace' and 'spherical'",
        ),
        (KernelBank(missing_views="keep"), "`missing_views` of two banks must be the same for a sum"),
        (KernelBank(landmarks=3), "`landmarks` of two banks must be the same for a sum; got None and 3"),
        (KernelBank({"b": "rbf"}, {"a": 0}), "must have an entry for every view; got none for 'a'"),
    ],
)
def test_sums_that_mean_nothing_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        LEFT + other


@pytest.mark.parametrize("operation", [lambda: LEFT + Linear(), lambda: 3 + LEFT])
def test_only_banks_are_added(operation):
    with pytest.raises(TypeError, match="unsupported operand"):
        operation()


@pytest.mark.parametrize("factor", [2.0, "linear", LEFT])
def test_only_kernels_are_factors(factor):
    for operation in (lambda: LEFT * factor, lambda: factor * LEFT):
        with pytest.raises(TypeError, match=r"a bank is multiplied by a kernel object.*; got"):
            operation()


def test_the_order_of_factors_does_not_matter():
    assert repr(Gate(0) * RIGHT) == repr(RIGHT * Gate(0))
