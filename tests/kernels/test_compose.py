"""Products of kernels, and sums of banks: the matrices of both, by other means."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from bayesmkl import KernelBank
from bayesmkl.discriminative.svm.native import native_kernels
from bayesmkl.kernels import FromDistance, Gate, Gaussian, Linear, Polynomial, Product, Tanimoto
from bayesmkl.kernels.adapters import as_kernels
from bayesmkl.kernels.stacks.streamed import streamed_stack

RNG = np.random.default_rng(4)
X = np.abs(RNG.normal(size=(25, 4)))
ROWS = np.abs(RNG.normal(size=(6, 4)))
PRODUCT = Gaussian(relative_width=1) * Polynomial(degree=2)


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"views": "all+each"}, {"landmarks": 6}, {"sample_weight": RNG.integers(1, 4, 25)}),
        {"views": {"a": [0, 1], "b": [2, 3]}, "missing_views": "keep"},
    ],
    ids=str,
)
def test_in_a_bank_it_is_the_product_of_two_stacks(options):
    fit = {key: value for key, value in options.items() if key == "sample_weight"}
    options = {key: value for key, value in options.items() if key not in fit}
    samples = X.copy()
    if "missing_views" in options:
        samples[3, :2] = np.nan
    product, left, right = (
        KernelBank(kernel, normalize=None, **options).fit(samples, **fit)
        for kernel in (PRODUCT, PRODUCT.left, PRODUCT.right)
    )
    np.testing.assert_allclose(
        product.row_stack(ROWS), left.row_stack(ROWS) * right.row_stack(ROWS), rtol=1e-14
    )
    np.testing.assert_allclose(
        product.train_diagonal(), left.train_diagonal() * right.train_diagonal(), rtol=1e-14
    )
    widths = [
        [one.width_ for one in (kernel.left_, own)]
        for kernel, own in zip(product.kernels_, left.kernels_, strict=True)
    ]
    assert all(one == other for one, other in widths)
    assert len({one for one, _ in widths}) == len(product.views_)
    assert not hasattr(PRODUCT, "left_")
    assert not hasattr(PRODUCT.left, "width_")


def test_names_and_factors():
    assert PRODUCT.label == "gaussian(1 median) × polynomial(degree=2)"
    nested = PRODUCT * Linear()
    assert [kernel.label for kernel in nested.factors()] == [
        "gaussian(1 median)",
        "polynomial(degree=2)",
        "linear",
    ]
    assert [kernel.label for kernel in Linear().factors()] == ["linear"]
    assert eval(repr(nested)).label == nested.label
    assert KernelBank({"a": PRODUCT}, {"a": [0]}).fit(X).kernel_names_ == [f"{PRODUCT.label} · a"]


def test_it_is_positive_semidefinite_where_both_factors_are():
    assert PRODUCT.known_psd
    for doubtful in (Polynomial(offset=-1.0), FromDistance("cosine"), as_kernels(np.minimum)[0]):
        assert not (doubtful * Gaussian()).known_psd
        assert not (Gaussian() * doubtful).known_psd


def test_centered_and_streamed_and_for_libsvm():
    bank = KernelBank([PRODUCT, "linear"], normalize=("center", "spherical")).fit(X)
    vector = RNG.normal(size=25)
    np.testing.assert_allclose(
        streamed_stack(bank, ROWS).apply(vector), bank.row_stack(ROWS) @ vector, rtol=1e-10
    )
    np.testing.assert_array_equal(bank.fit_transform(X)[:, :, 0].T, bank.fit_transform(X)[:, :, 0])
    assert native_kernels(KernelBank(PRODUCT).fit(X)) is None


@pytest.mark.parametrize("other", [2, 2.0, "rbf", None, RBF(), np.minimum, Gaussian])
def test_other_things_are_no_factors(other):
    with pytest.raises(TypeError, match=r"`right` of Product must be a kernel object such as Gaussian\(\)"):
        Gaussian() * other
    with pytest.raises(TypeError, match="`left` of Product must be a kernel object"):
        KernelBank(Product(other, Gaussian())).fit(X)


# ------------------------------------------------------------------------------------------ sums of banks

SAMPLES = np.abs(np.random.default_rng(0).normal(size=(14, 5)))
LEFT = KernelBank([Gaussian(2), Linear()], {"left": [0, 1]}, "trace")
RIGHT = KernelBank(
    {"right": "auto", "more": Tanimoto()}, {"right": [2], "more": slice(3, None)}, ("center", "trace")
)


def _of(bank, rows=SAMPLES):
    return bank.fit(SAMPLES).transform(rows)


def test_a_sum_has_the_kernels_of_both_in_order():
    both = LEFT + RIGHT
    np.testing.assert_array_equal(
        _of(both, SAMPLES[:4]), np.concatenate([_of(LEFT, SAMPLES[:4]), _of(RIGHT, SAMPLES[:4])], axis=-1)
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
    factors = np.stack(
        [Polynomial(2)(SAMPLES[:, v], SAMPLES[:, v]) for v in ([0, 1],) * 4 + ([2, 3, 4],)], axis=-1
    )
    np.testing.assert_allclose(_of(plain * Polynomial(2)), _of(plain) * factors, rtol=1e-13)
    each = KernelBank("auto", "each") * Gate(4, width=1.5)
    assert len(each.fit(SAMPLES).kernel_names_) == 20
    gate = np.exp(-((SAMPLES[:, 4, None] - SAMPLES[:, 4]) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(
        _of(each), _of(KernelBank("auto", "each")) * gate[..., None], rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (KernelBank("auto", "each"), "`views` of banks must be named or"),
        (
            KernelBank("auto", {"left": [0, 2]}, "trace"),
            r"`views` .* the same .* got \[0, 1\] and \[0, 2\] for 'left'",
        ),
        (
            KernelBank("auto", {"left": [0, 1]}),
            "`normalize` .* must be the same .* 'trace' and 'spherical'",
        ),
        (KernelBank(missing_views="keep"), "`missing_views` of two banks must be the same for a sum"),
        (KernelBank(landmarks=3), "`landmarks` of two banks must be the same for a sum; got None and 3"),
        (
            KernelBank({"b": "rbf"}, {"a": 0}),
            "entries for views only; got one for 'b', which is not a view. The views are 'a'",
        ),
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
