"""Gates: kernels of views times Gaussian kernels of other columns, in banks, models and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.discriminative.svm.native import native_kernels
from bayesmkl.gp import Marginal
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.kernels import Gate, Gaussian, Linear, Polynomial, Product
from bayesmkl.kernels.stacks.streamed import streamed_stack
from bayesmkl.outcomes import Gaussian as Noise

RNG = np.random.default_rng(5)
N, NAMES = 30, ["left 1", "left 2", "right", "hour", "place"]
X = RNG.normal(size=(N, 5)) * [1.0, 1.0, 1.0, 6.0, 0.1]
ROWS = RNG.normal(size=(7, 5)) * [1.0, 1.0, 1.0, 6.0, 0.1]
Y = np.where(X[:, 3] > 0, X[:, 0], X[:, 2]) > 0
VIEWS = {"left": [0, 1], "right": [2]}
FRAME, NEW = pd.DataFrame(X, columns=NAMES), pd.DataFrame(ROWS, columns=NAMES)
SHORT = Marginal(n_points=100, n_draws=100)


def gaussian(A, B, columns, width):
    return np.exp(-cdist(A[:, columns], B[:, columns], "sqeuclidean") / (2 * width**2))


def median(A, columns):
    return np.median(pdist(A[:, columns]))


@pytest.mark.parametrize(
    ("gate", "width"),
    [
        (Gate("hour", width=2.0), 2.0),
        (Gate("hour", gamma=0.125), 2.0),
        (Gate("hour"), median(X, [3])),
        (Gate(["hour"], relative_width=0.5), 0.5 * median(X, [3])),
    ],
    ids=str,
)
def test_a_gated_kernel_is_the_product_of_two_matrices(gate, width):
    bank = KernelBank([Gaussian(width=2), Gaussian(width=2) * gate], VIEWS, normalize=None).fit(FRAME)
    for rows, frame in ((X, FRAME), (ROWS, NEW)):
        expected = []
        for columns in VIEWS.values():
            own = gaussian(rows, X, columns, 2.0)
            expected += [own, own * gaussian(rows, X, [3], width)]
        np.testing.assert_allclose(bank.row_stack(frame), expected, rtol=1e-13)
    np.testing.assert_array_equal(bank.train_diagonal(), np.ones((4, N)))
    np.testing.assert_array_equal(bank.fit_transform(FRAME), np.moveaxis(bank.train_stack(), 0, -1))
    assert bank.kernels_known_psd_.all()


@pytest.mark.parametrize("normalize", ["spherical", "trace", "center", ("center", "spherical")], ids=str)
@pytest.mark.parametrize("own", [Polynomial(2), Linear() * Gaussian(relative_width=1)], ids=str)
def test_normalized_gated_kernels(normalize, own):
    plain = KernelBank(own, VIEWS, normalize=None).fit(X)
    products = plain.train_stack() * gaussian(X, X, [3, 4], 3.0)
    steps = (normalize,) if isinstance(normalize, str) else normalize
    for k in products:
        for step in steps:
            diagonal = k.diagonal().copy()
            if step == "spherical":
                k /= np.sqrt(np.outer(diagonal, diagonal))
            elif step == "trace":
                k /= diagonal.mean()
            else:
                k += k.mean() - k.mean(axis=0) - k.mean(axis=1)[:, None]
    bank = KernelBank(own * Gate([3, 4], width=3), VIEWS, normalize=normalize)
    np.testing.assert_allclose(np.moveaxis(bank.fit_transform(X), -1, 0), products, atol=1e-12)
    stack, diagonal = bank.rows_and_diagonal(X)
    np.testing.assert_allclose(stack, products, atol=1e-12)
    np.testing.assert_allclose(diagonal, products.diagonal(axis1=1, axis2=2), atol=1e-12)
    np.testing.assert_allclose(bank.train_diagonal(), diagonal, atol=1e-12)


@pytest.mark.parametrize("landmarks", [None, X[:6]], ids=["samples", "landmarks"])
def test_a_width_far_above_all_distances_gives_the_kernel_itself(landmarks):
    plain = KernelBank(Linear() * Gaussian(2), VIEWS, landmarks=landmarks).fit(X)
    wide = KernelBank(Linear() * Gate("hour", width=1e6) * Gaussian(2), VIEWS, landmarks=landmarks).fit(FRAME)
    np.testing.assert_allclose(wide.row_stack(NEW), plain.row_stack(ROWS), rtol=1e-8)


def test_names_and_positions_and_the_order_of_columns():
    kernels = [Gaussian(2) * Gate(["hour", "place"]), Gaussian(2) * Gate("hour") * Gate("place", width=3)]
    by_name = KernelBank(kernels, {"left": ["left 1", "left 2"]}).fit(FRAME)
    assert by_name.kernel_names_ == [
        "gaussian(width=2) × gate(hour, place) · left",
        "gaussian(width=2) × gate(hour) × gate(place, width=3) · left",
    ]
    order = [4, 0, 3, 1, 2]
    moved = KernelBank(kernels, {"left": ["left 1", "left 2"]}).fit(FRAME.iloc[:, order])
    np.testing.assert_array_equal(moved.row_stack(NEW.iloc[:, order]), by_name.row_stack(NEW))
    positions = [Gaussian(2) * Gate([3, -1]), Gaussian(2) * Gate(slice(3, 4)) * Gate(4, width=3)]
    by_position = KernelBank(positions, {"left": [0, 1]}).fit(X)
    np.testing.assert_array_equal(by_position.row_stack(ROWS), by_name.row_stack(NEW))
    assert by_position.kernel_names_[0] == "gaussian(width=2) × gate(x3, x4) · left"
    mask = KernelBank(Gaussian(2) * Gate([False, False, False, True, True]), {"left": [0, 1]}).fit(X)
    np.testing.assert_array_equal(mask.row_stack(ROWS)[0], by_name.row_stack(NEW)[0])
    assert (
        Gaussian(2) * Gate(["hour", 4], relative_width=0.5)
    ).label == "gaussian(width=2) × gate(hour, 4, 0.5 median)"
    assert Gate(["a", "b", "c", "d"]).label == "gate(4 columns)"
    assert eval(repr(kernels[1])).label == kernels[1].label


def test_the_gate_may_come_first_and_twice_and_be_of_the_view():
    first, last = (KernelBank(one, VIEWS).fit(X) for one in (Gate(3) * Gaussian(2), Gaussian(2) * Gate(3)))
    np.testing.assert_array_equal(first.row_stack(ROWS), last.row_stack(ROWS))
    assert first.kernel_names_[0] == "gate(x3) × gaussian(width=2) · left"
    twice = KernelBank(Gaussian(2) * Gate(3, width=2) * Gate(3, width=2), VIEWS).fit(X)
    once = KernelBank(Gaussian(2) * Gate(3, width=np.sqrt(2.0)), VIEWS).fit(X)
    np.testing.assert_allclose(twice.row_stack(ROWS), once.row_stack(ROWS), rtol=1e-13)
    own = KernelBank(Gaussian(2) * Gate(0, width=2), {"left": [0]}).fit(X)
    np.testing.assert_allclose(own.row_stack(ROWS)[0], gaussian(ROWS, X, [0], np.sqrt(2.0)), rtol=1e-13)


def test_weights_are_copies():
    counts = RNG.integers(0, 3, N)
    counts[:2] = 1, 2
    kernel = Gaussian(relative_width=1) * Gate([3, 4], relative_width=0.7)
    copies = KernelBank(kernel, VIEWS, "center").fit(np.repeat(X, counts, axis=0))
    weighted = KernelBank(kernel, VIEWS, "center").fit(X, sample_weight=counts)
    np.testing.assert_allclose(
        weighted.row_stack(ROWS)[:, :, counts > 0],
        copies.row_stack(ROWS)[:, :, np.cumsum(counts)[counts > 0] - 1],
        atol=1e-12,
    )


def test_absent_views_and_absent_gates():
    samples, rows = X.copy(), ROWS.copy()
    samples[[2, 5], :2] = np.nan
    samples[2, 3] = np.nan  # its view is not there either
    bank = KernelBank([Gaussian(2) * Gate(3)], {"left": [0, 1]}, missing_views="keep").fit(samples)
    there = np.setdiff1d(np.arange(N), [2, 5])
    values = bank.row_stack(rows)[0]
    np.testing.assert_allclose(
        values[:, there],
        gaussian(rows, X[there], [0, 1], 2.0) * gaussian(rows, X[there], [3], median(X[there], [3])),
        rtol=1e-13,
    )
    assert np.isnan(values[:, [2, 5]]).all()
    rows[4, 3] = np.nan
    with pytest.raises(
        ValueError, match=r"`X` must have the gate columns .* view 'left'; got NaN in 'x3', first in row 4"
    ):
        bank.transform(rows)
    samples[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"got NaN in 'hour', first in row 7\. Impute it, or leave"):
        clone(bank).fit(pd.DataFrame(samples, columns=NAMES))
    with pytest.raises(ValueError, match="NaN"):
        KernelBank(Gaussian(2) * Gate(3), VIEWS).fit(samples)


def test_with_landmarks_samples_that_differ_by_the_gate_alone_are_distinct():
    samples = np.column_stack([np.zeros(6), np.arange(6.0)])
    bank = KernelBank(Gaussian() * Gate(1, width=1), {"own": [0]}, landmarks=6, landmark_selection="random")
    values = bank.fit_transform(samples)[:, :, 0]
    np.testing.assert_allclose(values, gaussian(samples, samples, [1], 1.0), rtol=1e-13)


@pytest.mark.parametrize("normalize", [None, "spherical", ("center", "spherical")], ids=str)
def test_streamed_kernels_are_the_same(normalize):
    bank = KernelBank([Gaussian(2), Polynomial(2) * Gate([3, 4]), Linear() * Gate(4)], VIEWS, normalize).fit(
        X
    )
    vector = RNG.normal(size=N)
    np.testing.assert_allclose(
        streamed_stack(bank, ROWS).apply(vector), bank.row_stack(ROWS) @ vector, rtol=1e-9, atol=1e-12
    )
    assert native_kernels(bank) is None


def test_models_in_files(tmp_path):
    bank = KernelBank(
        {
            "left": [Gaussian(2), Gaussian(2) * Gate(["hour", "place"])],
            "right": Product(Linear(), Gate("place")),
        },
        VIEWS,
    )
    for model in (UniformMKLClassifier(bank), GPMKLClassifier(bank, inference=SHORT)):
        model.fit(FRAME, Y)
        save_model(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
        assert list(loaded.kernel_names_) == list(model.kernel_names_)
        np.testing.assert_array_equal(loaded.kernel_bank_.row_stack(NEW), model.kernel_bank_.row_stack(NEW))
        assert list(clone(loaded).fit(FRAME, Y).kernel_names_) == list(model.kernel_names_)


def test_cross_validation_and_search():
    bank = KernelBank(Gaussian(2) * Gate("hour", width=3), VIEWS)
    scores = cross_val_score(SimpleMKLClassifier(bank), FRAME, Y, cv=3)
    by_hand = []
    stack = np.moveaxis(bank.fit(FRAME).row_stack(FRAME), 0, -1)
    for train, test in StratifiedKFold(3).split(X, Y):
        model = SimpleMKLClassifier("precomputed").fit(stack[train][:, train], Y[train])
        by_hand.append(model.score(stack[test][:, train], Y[test]))
    np.testing.assert_array_equal(scores, by_hand)
    grid = {
        "kernels__kernels__right__width": [1.0, 5.0],
        "kernels__kernels__right__columns": ["hour", "place"],
    }
    search = GridSearchCV(UniformMKLClassifier(bank), grid, cv=3).fit(FRAME, Y)
    assert len(search.cv_results_["params"]) == 4


def test_evidence_with_gates_is_that_of_the_matrices():
    target = np.where(X[:, 3] > 0, X[:, 0], X[:, 2]) + 0.1 * RNG.normal(size=N)
    bank = KernelBank([Gaussian(2), Gaussian(2) * Gate(3, width=4)], VIEWS, normalize=None)
    own = GPMKLRegressor(bank, inference=SHORT, kernel_prior="dirichlet", together=False, random_state=0)
    own.fit(X, target)
    stack = []
    for columns in VIEWS.values():
        k = gaussian(X, X, columns, 2.0)
        stack += [k, k * gaussian(X, X, [3], 4.0)]
    given = clone(own).set_params(kernels="precomputed").fit(np.stack(stack, axis=-1), target)
    np.testing.assert_allclose(own.log_evidence_, given.log_evidence_, rtol=1e-6)
    np.testing.assert_allclose(own.kernel_shares_, given.kernel_shares_, rtol=1e-4, atol=1e-6)
    # at given weights it is the density of a normal vector
    weights, noise = np.array([0.8, 0.5, 0.0, 1.2]), 0.3
    covariance = own._covariance(own._stored_training())
    found = exact_evidence(Noise(), target, covariance.matrix(weights), np.array([noise])).log_evidence
    centering = np.eye(N) - 1.0 / N
    units = [np.trace(centering @ k) / N for k in stack]
    matrix = sum(w**2 / c * k for w, c, k in zip(weights, units, stack, strict=True))
    matrix = matrix + covariance.intercept_std**2 + noise**2 * np.eye(N)
    np.testing.assert_allclose(found, multivariate_normal(np.zeros(N), matrix).logpdf(target), rtol=1e-10)


@pytest.mark.parametrize("normalize", [None, "spherical", ("center", "spherical")], ids=str)
def test_slopes_are_those_with_the_gate_held(normalize):
    bank = KernelBank([Polynomial(2) * Gate([3, 4]), Gaussian(2)], VIEWS, normalize).fit(X)
    factors, step = RNG.normal(size=N), 1e-5
    for m, (view, slopes) in enumerate(bank.slopes(ROWS)):
        for j, column in enumerate(view.columns):
            moved = [ROWS.copy(), ROWS.copy()]
            moved[0][:, column] += step
            moved[1][:, column] -= step
            up, down = (bank.row_stack(rows)[m] for rows in moved)
            np.testing.assert_allclose(
                slopes.over_train(factors)[:, j], ((up - down) / (2 * step)) @ factors, rtol=1e-5, atol=1e-7
            )
    own = KernelBank(Gaussian(2) * Gate(0), VIEWS).fit(X)
    with pytest.raises(
        ValueError, match=r"no slopes: a gate column is one of its view\. Leave it out of `views`"
    ):
        list(own.slopes(ROWS))


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "hours",
            r"`columns of Gate` names the column 'hours', which `X` does not have; did you mean 'hour'\?",
        ),
        (["hour", "size"], r"names the column 'size', which `X` does not have; the columns are"),
        (9, r"`columns of Gate` must hold column names or positions from 0 to 4; got 9"),
        (["hour", 3], r"`columns of Gate` must name each column once; got \['hour', 3\]"),
        *(([], "selects no column"), (None, "must hold column names"), (1.5, "must hold column names")),
        *(
            (np.nan, "must hold column names"),
            ({"a": 1}, "must hold column names"),
            (True, "mask of length 1"),
        ),
        (slice(7, 9), "selects no column"),
    ],
    ids=str,
)
def test_columns_that_are_not_there(columns, message):
    with pytest.raises(ValueError, match=message):
        KernelBank(Gaussian() * Gate(columns), VIEWS).fit(FRAME)


def test_columns_that_were_dropped():
    bank = KernelBank(Gaussian() * Gate("hour"), VIEWS)
    with pytest.raises(
        ValueError, match="`columns of Gate` names the column 'hour', which `X` does not have"
    ):
        UniformMKLClassifier(bank).fit(FRAME.drop(columns="hour"), Y)
    with pytest.raises(
        ValueError, match=r"names the column 'hour', but `X` has no column names. Pass a DataFrame"
    ):
        bank.fit(X)
    with pytest.raises(ValueError, match="hour"):
        bank.fit(FRAME).transform(NEW.drop(columns="hour"))
    with pytest.raises(ValueError, match=r"label of the column at position 3 .* counts positions"):
        KernelBank(Gaussian() * Gate(4)).fit(pd.DataFrame(X, columns=[0, 1, 2, 4, 3]))


def test_constant_gate_columns():
    same = FRAME.assign(hour=12.0)
    with pytest.raises(
        ValueError,
        match=r"kernel 'linear × gate\(hour\) · left': `columns` of Gate must differ .* 'hour' is the same",
    ):
        KernelBank(Linear() * Gate("hour"), VIEWS).fit(same)
    with pytest.raises(ValueError, match=r"'hour', 'place' are the same in all of them. Leave the gate out"):
        KernelBank(Linear() * Gate(["hour", "place"]), VIEWS).fit(same.assign(place=0.0))
    weights = np.zeros(N)
    weights[3] = weights[4] = 1.0
    pair = FRAME.copy()
    pair.loc[[3, 4], "hour"] = 1.0
    with pytest.raises(ValueError, match="'hour' is the same"):
        KernelBank(Linear() * Gate("hour"), VIEWS).fit(pair, sample_weight=weights)
    # one of two is enough, and does what it does alone
    both, one = (KernelBank(Linear() * Gate(c), VIEWS).fit(same) for c in (["hour", "place"], "place"))
    np.testing.assert_allclose(both.row_stack(NEW.assign(hour=12.0)), one.row_stack(NEW), rtol=1e-13)


def test_gates_multiply_kernels_in_banks():
    for kernels in (Gate(3), Gate(3) * Gate(4), {"left": "linear", "right": [Gate(3)]}):
        with pytest.raises(
            ValueError, match=r"must have kernels for gates to multiply; got .*\. Multiply a kernel by it"
        ):
            KernelBank(kernels, VIEWS).fit(X)
    with pytest.raises(ValueError, match=r"Gate\(columns=3\) works only in a bank, which finds its columns"):
        (Gaussian() * Gate(3)).fit(X)(X, X)
    with pytest.raises(ValueError, match="Gate takes `width` or `gamma`, not both"):
        Gaussian() * Gate(3, width=1, gamma=1)
    with pytest.raises(ValueError, match="`width` of Gate must be a positive number; got -1"):
        KernelBank(Product(Gaussian(), Gate(3, width=-1))).fit(X)
    with pytest.raises(ValueError, match=r"`X` must have its largest entry between"):
        KernelBank(Gaussian() * Gate(1), {"one": [0]}).fit(np.array([[0.0, 1e200], [1.0, 0.0]]))
