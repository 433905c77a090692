"""What measuring an absent view would change: moments at a point by brute force, and the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayesmkl import BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.gp.conditioning import Sites, cavity, condition
from bayesmkl.gp.parts import PartRows, revealed_moments
from bayesmkl.gp.unknown_points import CompletedKernels, find_centers
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import value_of_view

N = 40
FEW = Marginal(n_points=100, n_draws=100)
BANK = KernelBank([Gaussian(width=1)], views={"signal": 0, "noise": 1})
rng = np.random.default_rng(1)
X = rng.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=N)
TRAIN = X.copy()
TRAIN[[3, 7], [0, 1]] = np.nan
HIDDEN = np.array([[np.nan, 0.3], [0.3, np.nan], [0.2, 0.1], [np.nan, np.nan]])


@pytest.fixture(scope="module")
def regressor():
    return GPMKLRegressor(BANK, missing_views="integrate", inference=FEW).fit(TRAIN, 10 * Y)


def kernel(a, b, width=1.0):
    return np.exp(-0.5 * (a[:, None] - b) ** 2 / width**2)


def test_moments_at_a_point_are_those_of_a_fit_without_its_sample():
    first, second = (kernel(X[:, j], X[:, j]) for j in (0, 1))
    new, variance, samples = np.array([0.4, -1.0]), 0.3, np.array([2, 11, 30])
    covariance = first + 0.7 * second
    sites = Sites(np.full(N, 1 / variance), Y / variance)
    posterior = condition(covariance, sites)
    others = PartRows(kernel(new, X[:, 0]), np.ones(2))
    gain, lacks = 0.1 * first[samples], np.array([[True, False], [True, True]])
    points = PartRows(np.array([0.7 * second[samples], gain]), np.array([[0.7] * 3, [0.8, 0.9, 1.0]]))
    found = revealed_moments(posterior, covariance, cavity(posterior, sites), others, points, lacks, samples)
    for p, j in enumerate(samples):
        kept = np.delete(np.arange(N), j)
        inverse = np.linalg.inv(covariance[np.ix_(kept, kept)] + variance * np.eye(N - 1))
        cross = (others.cross + 0.7 * second[j] + np.outer([0, 1], gain[p]))[:, kept]
        np.testing.assert_allclose(found[0][:, p], cross @ inverse @ Y[kept], atol=1e-9)
        expected = 1.0 + points.prior[:, p] - np.einsum("ij,jk,ik->i", cross, inverse, cross)
        np.testing.assert_allclose(found[1][:, p], expected, atol=1e-9)


def stack_of(rows, train):
    """Return kernels on three views of one feature, zero where one of two samples lacks the view."""
    kernels = np.array([kernel(rows[:, v], train[:, v], 0.7) for v in (0, 0, 1, 2)])
    kernels[1] **= 2  # the first view has two kernels
    present = ~np.isnan(rows.T)[[0, 0, 1, 2]]
    return DenseStack(np.nan_to_num(kernels), present), present.astype(float)


def test_what_a_view_tells_of_another_is_what_it_tells_of_samples_that_have_it():
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(30, 1))
    train = shared + 0.5 * rng.normal(size=(30, 3))
    train[20:24, 2] = np.nan  # of views measured there, the third is told by all samples that have it
    stack = stack_of(train, train)[0]
    centers = find_centers(stack)
    stack, views, told = centers.rows(stack), np.array([0, 0, 1, 2]), np.array([0.5, 0.6, 0.7])
    completed = CompletedKernels(stack, centers.spread, views, told)
    new = np.array([[np.nan, 0.4, np.nan], [np.nan, np.nan, np.nan]])
    rows, diagonal = stack_of(new, train)
    centered = centers.rows(rows), centers.diagonal(rows, diagonal)
    points = np.array([20, 22, 3, 8])
    gains, gained = completed.reveal(centered[0], completed.images(*centered), 0, points)
    before = completed.rows(*centered)
    for p, j in enumerate(points):
        measured = new.copy()
        measured[:, 0] = train[j, 0]
        found, own = stack_of(measured, train)
        found = centers.rows(found), centers.diagonal(found, own)
        kept = (
            np.arange(30) if j in (20, 22) else np.delete(np.arange(30), j)
        )  # no sample is like another one
        without = DenseStack(stack.kernels[:, kept][:, :, kept], stack.present[:, kept])
        less = found[0]._replace(kernels=found[0].kernels[:, :, kept])
        other = CompletedKernels(without, centers.spread, views, told)
        after = other.rows(less, found[1])
        whole = kept[other.present[3]]  # the first sample has other views, by which j tells of the third
        for i in (0, 1) if j in (20, 22) else (1,):
            at = np.isin(kept, whole)
            total = before[0].kernels[3, i] + gains.kernels[3, p]
            np.testing.assert_allclose(total[whole], after[0].kernels[3, i, at], atol=1e-12)
            np.testing.assert_allclose(before[1][3, i] + gained[3, i, p], after[1][3, i], atol=1e-12)
        np.testing.assert_allclose(gains.kernels[:2, p], completed.training.kernels[:2, j], atol=0)
    assert not gained[2, 0].any()  # that view is there


def test_table_lists_samples_and_views_that_they_lack(regressor):
    frame = pd.DataFrame(HIDDEN, index=["a", "b", "c", "d"])
    table = value_of_view(regressor, frame)
    assert table["sample"].tolist() == ["a", "b", "d", "d"]
    assert table["view"].tolist() == ["signal", "noise", "signal", "noise"]
    of_signal, of_noise = (table[table["view"] == view].set_index("sample") for view in ("signal", "noise"))
    assert (of_signal["decision_change"] > 3.0).all()  # of a target whose size is ten
    assert (of_noise["decision_change"] < 1.0).all()
    assert (of_signal["log_loss_change"] < -0.5).all()
    assert of_noise["log_loss_change"].abs().max() < 0.3
    assert (of_signal["width_change"] < -5.0).all()


def test_changes_are_those_that_come_about(regressor):
    new = np.random.default_rng(2).normal(size=(195, 2))
    new[:, 0] = np.tile(np.delete(X[:, 0], 3), 5) + 0.05 * new[:, 0]  # what the view is found to be
    hidden = np.column_stack([np.full(195, np.nan), new[:, 1]])
    table = value_of_view(regressor, hidden, ci_prob=0.9)
    (mean, std), (then, std_then) = (regressor.predict(rows, return_std=True) for rows in (hidden, new))
    assert np.abs(then - mean).mean() == pytest.approx(table["decision_change"].mean(), rel=0.15)
    width = 2 * 1.6449 * (std_then - std).mean()
    assert width == pytest.approx(table["width_change"].mean(), rel=0.15)


def test_labels_that_may_change(regressor):
    model = GPMKLClassifier(BANK, missing_views="integrate", inference=FEW).fit(TRAIN, Y > 0)
    table = value_of_view(model, HIDDEN)
    assert table["decision_change"].between(0.0, 1.0).all()
    assert (table["log_loss_change"] <= 1e-12).all()
    by_view = table.groupby("view")["log_loss_change"].mean()
    assert by_view["signal"] < by_view["noise"]


def test_bad_input_is_named(regressor):
    with pytest.raises(ValueError, match="`X` must have samples that lack a view"):
        value_of_view(regressor, X)
    with pytest.raises(ValueError, match='must be fitted with missing_views="integrate"'):
        value_of_view(GPMKLRegressor(BANK, inference=FEW).fit(X, Y), HIDDEN)
    with pytest.raises(TypeError, match="`model` must be a GPMKLClassifier or a GPMKLRegressor; got BEMKLR"):
        value_of_view(BEMKLRegressor(BANK, missing_views="integrate").fit(TRAIN, Y), HIDDEN)
    several = GPMKLRegressor(BANK, missing_views="integrate", inference=FEW).fit(
        TRAIN, np.column_stack([Y, Y + X[:, 1]])
    )
    with pytest.raises(ValueError, match="got several outputs"):
        value_of_view(several, HIDDEN)
