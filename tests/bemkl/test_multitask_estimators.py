"""Multitask estimators: scikit-learn's contract, forms of their input, limits of the relation, scores, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers import SAME_ITERATION, assert_same
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import VB, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, Gamma
from bayesmkl.kernels import Linear

VIEWS = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
BANK = KernelBank(Linear(), views=VIEWS, normalize="trace")
BOTH = pytest.mark.parametrize("kind", ["labels", "targets"])
ESTIMATORS = {"labels": BEMKLMultitaskClassifier, "targets": BEMKLMultitaskRegressor}
ALONE = {
    "labels": BEMKLClassifier(intermediate_scale=1.0),
    "targets": BEMKLRegressor(intermediate_prior=Gamma(100.0, 100.0)),
}
# A fixed number of plain sweeps, so that rounding decides neither a path nor where it ends.
PAPER = {"inference": VB(accelerate=False), "tol": 0.0, "max_iter": 25}


def make(kind, rng, n_samples=30, n_tasks=3, missing=0.3):
    """Return samples in three views, of which the first matters in every task, and targets with gaps."""
    X = rng.normal(size=(n_samples, 6))
    y = X[:, :2] @ rng.normal(size=(2, n_tasks)) + 0.3 * rng.normal(size=(n_samples, n_tasks))
    y = (y > np.median(y, axis=0)).astype(float) if kind == "labels" else y
    y[rng.random(y.shape) < missing] = np.nan
    return X, y


def long_form(y, rng):
    """Keep one task of every sample: the wide form of it, and its vector with names of tasks."""
    codes = np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in np.nan_to_num(y)])
    wide = np.where(codes[:, None] == np.arange(y.shape[1]), np.nan_to_num(y), np.nan)
    return wide, wide[np.arange(len(y)), codes], np.array(["u", "v", "w"])[codes]


# ------------------------------------------------------------------------------------------------- equivalences


@BOTH
def test_degenerate_separate_tasks_are_the_models_of_one_task(rng, kind):
    X, y = make(kind, rng)
    bank = clone(BANK)
    stack = bank.fit_transform(X)
    model = ESTIMATORS[kind]("precomputed", relation="separate", **PAPER).fit(stack, y)
    elbo = 0.0
    for t in range(3):
        rows = np.flatnonzero(np.isfinite(y[:, t]))
        alone = (
            clone(ALONE[kind])
            .set_params(kernels="precomputed", **PAPER)
            .fit(stack[np.ix_(rows, rows)], y[rows, t])
        )
        elbo += alone.elbo_
        assert_same(model.kernel_weights_[t], alone.kernel_weights_, SAME_ITERATION)
        assert_same(model.dual_coef_[t, rows], alone.dual_coef_, SAME_ITERATION)
        assert (model.dual_coef_[t, np.isnan(y[:, t])] == 0.0).all()
        np.testing.assert_array_equal(model.predict(stack)[:, t], alone.predict(stack[:, rows]))
        if kind == "labels":
            np.testing.assert_allclose(model.predict_proba(stack)[t], alone.predict_proba(stack[:, rows]))
            latent = model.predict_latent(stack, return_std=True)
            expected = alone.predict_latent(stack[:, rows], return_std=True)
        else:
            latent = model.predict(stack, return_std=True)
            expected = alone.predict(stack[:, rows], return_std=True)
        np.testing.assert_allclose(latent[0][:, t], expected[0], rtol=1e-9)
        np.testing.assert_allclose(latent[1][:, t], expected[1], rtol=1e-9)
    assert model.elbo_ == pytest.approx(elbo)
    assert not hasattr(model, "common_kernel_weights_")


def test_degenerate_shared_tasks_of_the_same_samples_are_several_outputs(rng):
    X, y = make("targets", rng, missing=0.0)
    together = BEMKLMultitaskRegressor(BANK, relation="shared", **PAPER).fit(X, y)
    outputs = clone(ALONE["targets"]).set_params(kernels=BANK, kernel_prior="sparse", **PAPER).fit(X, y)
    for weights in (*together.kernel_weights_, together.common_kernel_weights_):
        assert_same(weights, outputs.kernel_weights_, 1e-6)
    assert_same(together.common_kernel_weights_std_, outputs.kernel_weights_std_, 1e-6)
    assert_same(together.intercept_, outputs.intercept_, 1e-6)
    assert_same(together.dual_coef_, outputs.dual_coef_, 1e-6)
    assert together.elbo_ == pytest.approx(outputs.elbo_, abs=1e-5)
    mean, std = together.predict(X, return_std=True)
    expected_mean, expected_std = outputs.predict(X, return_std=True)
    assert_same(mean, expected_mean, 1e-6)
    assert_same(std, expected_std, 1e-6)
    assert together.task_spread_ == 0.0


@BOTH
def test_degenerate_columns_with_gaps_and_a_vector_with_tasks_agree(rng, kind):
    X, y = make(kind, rng, n_samples=45, missing=0.0)
    wide, vector, tasks = long_form(y, rng)
    with_gaps = ESTIMATORS[kind](BANK, **PAPER).fit(X, pd.DataFrame(wide, columns=["u", "v", "w"]))
    named = ESTIMATORS[kind](BANK, **PAPER).fit(X, vector, tasks=tasks)
    assert named.tasks_.tolist() == with_gaps.tasks_.tolist() == ["u", "v", "w"]
    np.testing.assert_array_equal(named.kernel_weights_, with_gaps.kernel_weights_)
    every = with_gaps.predict(X)
    np.testing.assert_array_equal(named.predict(X), every)
    asked = rng.permutation(tasks)
    picked = every[np.arange(len(X)), np.searchsorted(["u", "v", "w"], asked)]
    np.testing.assert_allclose(named.predict(X, tasks=asked), picked, rtol=1e-12)
    np.testing.assert_allclose(named.predict(X, tasks=pd.Series(asked)), picked, rtol=1e-12)
    assert named.score(X, vector, tasks=tasks) == pytest.approx(with_gaps.score(X, wide))
    if kind == "labels":
        assert named.predict_proba(X, tasks=asked).shape == (45, 2)
        log_odds = named.decision_function(X, tasks=asked)
        np.testing.assert_array_equal(log_odds > 0.0, picked == 1.0)


@BOTH
def test_equivariance_order_and_units_of_tasks(rng, kind):
    X, y = make(kind, rng)
    model = ESTIMATORS[kind](BANK, **PAPER).fit(X, y)
    order = np.array([2, 0, 1])
    factor = np.array([[1.0, 1e3, 1e-2]]) if kind == "targets" else 1.0
    other = ESTIMATORS[kind](BANK, **PAPER).fit(X, (factor * y)[:, order])
    assert_same(other.kernel_weights_, model.kernel_weights_[order], SAME_ITERATION)
    assert_same(other.common_kernel_weights_, model.common_kernel_weights_, SAME_ITERATION)
    np.testing.assert_allclose(other.task_influence_, model.task_influence_[order], rtol=1e-6)
    np.testing.assert_allclose(other.predict(X), (factor * model.predict(X))[:, order], rtol=1e-6)


@BOTH
def test_degenerate_missing_tasks_are_absent_samples(rng, kind):
    """A task's results depend on other samples through its neighbors' weights only; samples without tasks on none."""
    X, y = make(kind, rng)
    y[:3] = np.nan
    stack = clone(BANK).fit_transform(X)
    model = ESTIMATORS[kind]("precomputed", **PAPER).fit(stack, y)
    fewer = ESTIMATORS[kind]("precomputed", **PAPER).fit(stack[3:, 3:], y[3:])
    np.testing.assert_array_equal(model.kernel_weights_, fewer.kernel_weights_)
    np.testing.assert_array_equal(model.predict(stack), fewer.predict(stack[:, 3:]))
    np.testing.assert_array_equal(np.isnan(model.target_), np.isnan(y.T))


def test_degenerate_one_vector_is_one_task(rng):
    X, y = make("labels", rng, n_tasks=1, missing=0.0)
    vector = BEMKLMultitaskClassifier(BANK, **PAPER).fit(X, y[:, 0])
    column = BEMKLMultitaskClassifier(BANK, **PAPER).fit(X, y)
    np.testing.assert_array_equal(vector.predict(X)[:, None], column.predict(X))
    np.testing.assert_array_equal(vector.predict_proba(X), column.predict_proba(X)[0])
    assert vector.classes_.tolist() == column.classes_[0].tolist() == [0.0, 1.0]


def test_start_from_a_posterior_and_random_starts(rng):
    X, y = make("targets", rng)
    model = BEMKLMultitaskRegressor(BANK).fit(X, y)
    again = BEMKLMultitaskRegressor(BANK, init=model.posterior_).fit(X, y)
    assert model.converged_
    assert model.outcome_ is Outcome.CONVERGED
    assert again.n_iter_ < model.n_iter_ / 2
    assert again.elbo_ >= model.elbo_
    assert (np.diff(model.elbo_history_) >= 0.0).all()
    several = BEMKLMultitaskRegressor(BANK, n_init=2, random_state=1).fit(X, y)
    assert several.elbo_ >= model.elbo_ - 1e-9
    assert several.elbo_ == pytest.approx(model.elbo_, abs=0.5)


# ---------------------------------------------------------------------------------------------------- attributes


def test_classes_of_each_task_and_marks_of_missing_labels(rng):
    X, y = make("labels", rng)
    numbers = BEMKLMultitaskClassifier(BANK, **PAPER).fit(X, y)
    names = np.where(np.isnan(y), None, np.where(y > 0, "yes", "no")).astype(object)
    names[:, 2] = np.where(np.isnan(y[:, 2]), None, np.where(y[:, 2] > 0, 7, 3))
    mixed = BEMKLMultitaskClassifier(BANK, **PAPER).fit(X, names)
    assert [part.tolist() for part in mixed.classes_] == [["no", "yes"], ["no", "yes"], [3, 7]]
    assert [part.tolist() for part in numbers.classes_] == [[0, 1]] * 3
    found = mixed.predict(X)
    assert found.dtype == object
    np.testing.assert_array_equal(found[:, :2] == "yes", numbers.predict(X)[:, :2] == 1)
    np.testing.assert_array_equal(found[:, 2] == 7, numbers.predict(X)[:, 2] == 1)
    assert mixed.score(X, names) == pytest.approx(numbers.score(X, y))


# ----------------------------------------------------------------------------------------------- model selection


@BOTH
def test_other_library_scores_are_averages_over_tasks(rng, kind):
    X, y = make(kind, rng)
    model = ESTIMATORS[kind](BANK, **PAPER).fit(X, y)
    metric, found = (accuracy_score if kind == "labels" else r2_score), model.predict(X)
    weight = rng.uniform(size=len(y))
    kept = [np.isfinite(column) for column in y.T]
    expected = [metric(y[k, t], found[k, t], sample_weight=weight[k]) for t, k in enumerate(kept)]
    assert model.score(X, y, sample_weight=weight) == pytest.approx(np.mean(expected))


@pytest.mark.heavy
def test_other_library_cross_validation_of_pooled_samples(rng):
    """Samples, targets and tasks are cut together, in a pipeline and from a precomputed stack."""
    X, y = make("targets", rng, n_samples=60, missing=0.0)
    _, vector, tasks = long_form(y, rng)
    folds, expected = KFold(3), []
    bank = KernelBank(Linear(), views=VIEWS, normalize=None)
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            BEMKLMultitaskRegressor(bank, **PAPER).set_fit_request(tasks=True).set_score_request(tasks=True)
        )
        piped = make_pipeline(StandardScaler(with_mean=False), model)
        scores = cross_val_score(piped, X, vector, cv=folds, params={"tasks": tasks})
        sliced = clone(model).set_params(kernels="precomputed")
        stack = clone(bank).fit_transform(X / X.std(axis=0))
        grid = GridSearchCV(sliced, {"relation": ["learned", "separate"]}, cv=folds).fit(
            stack, vector, tasks=tasks
        )
    for train, test in folds.split(X):
        one = BEMKLMultitaskRegressor(bank, **PAPER)
        scale = X[train].std(axis=0)
        one.fit(X[train] / scale, vector[train], tasks=tasks[train])
        expected.append(one.score(X[test] / scale, vector[test], tasks=tasks[test]))
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert len(set(grid.cv_results_["mean_test_score"])) == 2
    assert grid.predict(stack).shape == (60, 3)
    gaps = np.where(rng.random(y.shape) < 0.2, np.nan, y)
    assert (cross_val_score(BEMKLMultitaskRegressor(bank, **PAPER), X, gaps, cv=folds) > 0.2).all()
    assert cross_val_predict(BEMKLMultitaskRegressor(bank, **PAPER), X, gaps, cv=folds).shape == (60, 3)


# ----------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"margin": -1.0}, "`margin` must be"), ({"intermediate_scale": 0.0}, "`intermediate_scale` must be")],
)
def test_bad_parameters_of_classification(rng, parameters, message):
    with pytest.raises(ValueError, match=message):
        BEMKLMultitaskClassifier(BANK, **parameters).fit(*make("labels", rng))


def spoil(y, column, values):
    y = y.copy()
    y[:, column] = values
    return y


def test_bad_targets_name_the_task(rng):
    X, y = make("targets", rng, missing=0.0)
    model = BEMKLMultitaskRegressor(BANK)
    with pytest.raises(ValueError, match="at least two values for every task; task 1 has no samples"):
        model.fit(X, spoil(y, 1, np.nan))
    with pytest.raises(ValueError, match="task 2 has one sample"):
        model.fit(X, spoil(y, 2, [1.0] + [np.nan] * 29))
    with pytest.raises(ValueError, match="task 'b' has one sample"):
        model.fit(X, y[:, 0], tasks=["b"] + ["a"] * 29)
    with pytest.raises(ValueError, match="y contains infinity"):
        model.fit(X, spoil(y, 1, np.inf))
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, spoil(y, 0, np.nan)[:, 0], tasks=["a"] * 30)
    with pytest.raises(ValueError, match=r"got `y` of shape \(30, 3\), whose columns are tasks already"):
        model.fit(X, y, tasks=["a"] * 30)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:, 0], tasks=["a"] * 29)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X[:-1], y)
    with pytest.raises(ValueError, match="task of every sample; 1 of 30 are missing"):
        model.fit(X, y[:, 0], tasks=[None] + ["a"] * 29)
    with pytest.raises(ValueError, match="names of one kind"):
        model.fit(X, y[:, 0], tasks=[1] + ["a"] * 29)


def test_bad_labels_name_the_task(rng):
    X, y = make("labels", rng, missing=0.0)
    model = BEMKLMultitaskClassifier(BANK)
    with pytest.raises(ValueError, match="task 1 has no samples"):
        model.fit(X, spoil(y, 1, np.nan))
    with pytest.raises(ValueError, match=r"task 0 has one class only, 1.0, in 30 samples. Leave it out"):
        model.fit(X, spoil(y, 0, 1.0))
    with pytest.raises(ValueError, match=r"task 0 has one sample of class 0\.0"):
        model.fit(X, spoil(y, 0, [0.0] + [1.0] * 29))
    with pytest.raises(ValueError, match=r"task 2 has 3 classes, 0, 1, 2. Only binary .* by NaN or None"):
        model.fit(X, spoil(y, 2, np.arange(30) % 3).astype(int))
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="a label for every sample where it is one vector; 1 of 30"):
        model.fit(X, np.where(np.arange(30) < 1, None, "a"), tasks=["a"] * 30)


# ------------------------------------------------------------------------------------------------------ learning


def related_tasks(kind, rng, n_samples=40, n_new=300):
    """Return five tasks over eight linear views, of which three matter in all of them: X, y, task, score."""
    matter, parts = np.array([1.5, 1.0, 0.7, 0, 0, 0, 0, 0]), []
    n_features, noise = (3, 0.3) if kind == "labels" else (2, 0.7)
    for task in range(5):
        weights = matter + 0.05 * rng.normal(size=8)
        X = rng.normal(size=(n_samples + n_new, 8, n_features))
        directions = rng.normal(size=(8, n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        score = np.einsum("ivf,vf,v->i", X, directions, weights) / np.linalg.norm(weights)
        y = score + noise * rng.normal(size=len(score))
        y = np.where(y > 0.0, 1.0, -1.0) if kind == "labels" else y
        parts.append((X.reshape(len(y), -1), y, np.full(len(y), task), score))
    bank = KernelBank(
        Linear(),
        views={f"view {m}": list(range(n_features * m, n_features * (m + 1))) for m in range(8)},
        normalize="trace",
    )
    return (
        bank,
        matter,
        *(
            tuple(np.concatenate([part[field][cut] for part in parts]) for field in range(4))
            for cut in (slice(None, n_samples), slice(n_samples, None))
        ),
    )


@pytest.mark.slow
@BOTH
def test_recovery_of_common_weights_lowers_the_error(rng, kind):
    """Both models have the same priors on all that a task has of its own."""
    errors, correlations = [], []
    for _ in range(8):
        bank, matter, (X, y, tasks, _), (X_new, y_new, tasks_new, score) = related_tasks(kind, rng)
        errors.append([])
        for relation in ("separate", "learned"):
            model = ESTIMATORS[kind](bank, relation=relation).fit(X, y, tasks=tasks)
            found = model.predict(X_new, tasks=tasks_new)
            wrong = found != np.sign(score) if kind == "labels" else (found - score) ** 2
            errors[-1].append(wrong.mean())
        correlations.append(np.corrcoef(model.common_kernel_weights_, matter)[0, 1])
        if kind == "targets":
            mean, std = model.predict(X_new, tasks=tasks_new, return_std=True)
            assert 0.9 < np.mean(np.abs(y_new - mean) < 1.96 * std) < 1.0
    separate, learned = np.mean(errors, axis=0)
    assert learned < 0.99 * separate
    assert np.mean(correlations) > 0.94
