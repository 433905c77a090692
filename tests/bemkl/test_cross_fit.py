"""Fits of all folds and settings together: each is its own fit, and what they have in common is there once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import assert_same
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold

from bayesmkl import BEMKLClassifier, BEMKLMultitaskRegressor, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import VB, Gamma, Storage, cross_fit, folds
from bayesmkl.bemkl.inference.loop import LoopOptions
from bayesmkl.datasets import open_rows
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.fold import FoldStack

pytestmark = pytest.mark.heavy

X, LABELS = make_classification(44, 4, random_state=3)
TARGET = X[:, 0] - 0.5 * X[:, 1] ** 2
SHORT = {"max_iter": 12, "tol": 0.0, "inference": VB(accelerate=False)}
BANK = KernelBank([Gaussian(width=2.0), Gaussian(width=0.5)], views="all+each")
GRID = {"kernel_prior": ["nonsparse", Gamma(1.0, 0.1)], "margin": [0.5]}
ON_JAX = 1e-9


def fitted_arrays(estimator):
    """Yield names and values of the fitted attributes that hold floats."""
    for name, value in vars(estimator).items():
        if (
            name.endswith("_")
            and isinstance(value, (float, np.ndarray))
            and np.asarray(value).dtype.kind == "f"
        ):
            yield name, value


def assert_own_fits(found, y, tolerance):
    """Assert that every estimator is what fitting it alone on NumPy gives, in all attributes."""
    for fit in found:
        own = (
            clone(fit.estimator).set_params(storage=Storage(backend="numpy")).fit(X[fit.train], y[fit.train])
        )
        assert vars(own).keys() == vars(fit.estimator).keys()
        for name, value in fitted_arrays(own):
            assert_same(getattr(fit.estimator, name), value, tolerance, name)
        assert_same(fit.estimator.predict(X[fit.test]), own.predict(X[fit.test]), tolerance)
        assert own.outcome_ == fit.estimator.outcome_


@pytest.fixture
def batches(monkeypatch):
    """Run the loops that would run on JAX on NumPy; return the stacks that were fitted together."""
    seen = []

    def maximize(algorithm, problems, starts, options, on_sweep):
        seen.append([problem.stack for problem in problems])
        return original(algorithm, problems, starts, options._replace(backend="numpy"), on_sweep)

    original = folds.maximize_elbo_batch
    monkeypatch.setattr(folds, "maximize_elbo_batch", maximize)
    return seen


def test_folds_and_settings_come_in_order():
    model = BEMKLClassifier(BANK, **SHORT)
    found = cross_fit(model, X, LABELS, cv=3, param_grid=GRID)
    splits = list(StratifiedKFold(3).split(X, LABELS))
    assert len(found) == 6
    for k, fit in enumerate(found):
        train, test = splits[k // 2]
        np.testing.assert_array_equal(fit.train, train)
        np.testing.assert_array_equal(fit.test, test)
        assert fit.parameters == {"kernel_prior": GRID["kernel_prior"][k % 2], "margin": 0.5}
        assert {"kernel_prior": fit.estimator.kernel_prior, "margin": fit.estimator.margin} == fit.parameters
    assert not hasattr(model, "classes_")  # not fitted itself


@pytest.mark.parametrize(
    ("model", "y", "grid"),
    [
        (BEMKLClassifier(BANK), LABELS, GRID),
        (BEMKLClassifier(BANK, n_init=2, random_state=5), LABELS, None),
        (
            BEMKLClassifier(BANK, multiclass="one-versus-all"),
            np.arange(44) % 3,
            {"intermediate_scale": [0.5, 1.0]},
        ),
        (
            BEMKLClassifier(BANK, unlabeled_label=-1),
            np.where(np.arange(44) % 4, LABELS, -1),
            {"margin": [0.0, 1.0]},
        ),
        (BEMKLRegressor(BANK), TARGET, {"noise_prior": ["nonsparse", Gamma(2.0, 1.0)]}),
        (BEMKLRegressor(BANK), np.stack([TARGET, X[:, 2]], axis=1), {"bias_prior": [Gamma(3.0, 1.0)]}),
    ],
    ids=["binary", "starts", "classes", "semi-supervised", "regression", "outputs"],
)
def test_on_numpy_every_estimator_is_its_own_fit_to_the_last_bit(model, y, grid):
    model = clone(model).set_params(**SHORT)
    assert_own_fits(
        cross_fit(model, X, y, cv=KFold(2, shuffle=True, random_state=0), param_grid=grid), y, 0.0
    )


@pytest.mark.parametrize("normalize", ["spherical", "center"])
def test_folds_share_the_kernels_of_all_samples_where_these_are_theirs(batches, normalize):
    model = BEMKLClassifier(
        clone(BANK).set_params(normalize=normalize), storage=Storage(backend="jax"), **SHORT
    )
    found = cross_fit(model, X, LABELS, cv=3, param_grid=GRID)
    if normalize == "spherical":
        (stacks,) = batches
        assert len(stacks) == 6
        assert all(type(stack) is FoldStack and stack.whole is stacks[0].whole for stack in stacks)
    else:  # on a CPU, folds follow one another
        assert [len(stacks) for stacks in batches] == [2, 2, 2]
        assert all(stacks[0] is stacks[1] and stacks[0].n_train < 44 for stacks in batches)
    assert_own_fits(found, LABELS, ON_JAX)


def test_precomputed_kernels_are_not_copied_for_every_fold(batches):
    kernels = BANK.fit_transform(X)
    model = BEMKLRegressor("precomputed", storage=Storage(backend="jax"), **SHORT)
    found = cross_fit(model, kernels, TARGET, cv=4)
    (stacks,) = batches
    assert np.shares_memory(stacks[0].whole.kernels, kernels)
    for fit, stack in zip(found, stacks, strict=True):
        np.testing.assert_array_equal(stack.samples, fit.train)
        own = clone(model).set_params(storage=Storage(backend="numpy"))
        own.fit(kernels[np.ix_(fit.train, fit.train)], TARGET[fit.train])
        rows = kernels[np.ix_(fit.test, fit.train)]
        assert_same(fit.estimator.predict(rows), own.predict(rows), ON_JAX)


def test_a_fold_may_lack_a_class(batches):
    """Its model is another one than that of the others."""
    y = np.where(np.arange(44) < 4, 2, LABELS)
    splits = [(np.arange(4, 44), np.arange(4)), (np.arange(40), np.arange(40, 44))]
    model = BEMKLClassifier(BANK, storage=Storage(backend="jax"), **SHORT)
    found = cross_fit(model, X, y, cv=splits)
    assert [len(fit.estimator.classes_) for fit in found] == [2, 3]
    assert len(batches) == 2
    assert_own_fits(found, y, ON_JAX)


@pytest.mark.parametrize("kind", ["several times", "in any order"])
def test_training_samples_may_come_several_times_or_in_any_order(batches, kind):
    rng = np.random.default_rng(0)
    train = rng.integers(44, size=40) if kind == "several times" else rng.permutation(44)[:30]
    splits = [(train, np.setdiff1d(np.arange(44), train)), (np.arange(30), np.arange(30, 44))]
    model = BEMKLClassifier(BANK, storage=Storage(backend="jax"), **SHORT)
    assert_own_fits(cross_fit(model, X, LABELS, cv=splits), LABELS, ON_JAX)
    assert {type(stack) for stack in batches[0]} == {DenseStack if kind == "several times" else FoldStack}


def test_on_jax_folds_advance_together():
    model = BEMKLClassifier(BANK, storage=Storage(backend="jax"), **SHORT)
    assert_own_fits(cross_fit(model, X, LABELS, cv=4), LABELS, ON_JAX)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "y", "grid"),
    [
        (BEMKLClassifier(clone(BANK).set_params(normalize="center")), LABELS, GRID),
        (BEMKLClassifier(BANK), np.arange(44) % 3, GRID),
        (BEMKLRegressor(BANK), TARGET, {"noise_prior": ["nonsparse", Gamma(2.0, 1.0)]}),
    ],
    ids=["own kernels", "classes", "regression"],
)
def test_on_jax_every_estimator_is_its_own_fit(model, y, grid):
    found = cross_fit(
        clone(model).set_params(storage=Storage(backend="jax"), **SHORT), X, y, cv=3, param_grid=grid
    )
    assert_own_fits(found, y, ON_JAX)


def test_every_fit_warns_as_it_does_alone():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_fit(BEMKLClassifier(BANK, max_iter=3), X, LABELS, cv=2)
    assert [warning.category for warning in caught] == [ConvergenceWarning] * 2
    assert all(warning.filename == __file__ for warning in caught)


# ------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("model", "grid", "message"),
    [
        (
            LogisticRegression(),
            None,
            "`estimator` must be a BEMKLClassifier or BEMKLRegressor; got LogisticReg",
        ),
        (BEMKLMultitaskRegressor(), None, "`estimator` must be a BEMKLClassifier or BEMKLRegressor"),
        (BEMKLClassifier(inference="gibbs"), None, "`estimator` must have inference=\"vb\"; got 'gibbs'"),
        (BEMKLClassifier(missing_views="integrate"), None, '`estimator` must have missing_views="error"'),
        (BEMKLClassifier(), {"kernels": [None]}, "`param_grid` must vary only bias_prior, .* got 'kernels'"),
        (BEMKLClassifier(), {"noise_prior": ["sparse"]}, "`param_grid` must vary only .* got 'noise_prior'"),
        (BEMKLClassifier(), {"margin": [1.0, -1.0]}, "`margin` must be"),
        (BEMKLRegressor(max_iter=0), None, "`max_iter` must be"),
    ],
)
def test_mistakes_are_found_before_any_work(model, grid, message, monkeypatch):
    monkeypatch.setattr(folds, "check_cv", lambda *_, **__: pytest.fail("work has begun"))
    with pytest.raises(ValueError, match=message):
        cross_fit(model, X, LABELS, param_grid=grid)


def test_rows_of_a_file_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(ValueError, match="`X` must be an array or a DataFrame"):
        cross_fit(BEMKLClassifier(BANK), open_rows(tmp_path / "rows.npy"), LABELS)


def test_data_are_validated_as_by_a_fit():
    wrong = np.where(np.arange(44)[:, None] == 30, np.nan, X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        cross_fit(BEMKLClassifier(BANK, storage=Storage(backend="jax")), wrong, LABELS, cv=2)


def test_only_accelerators_have_room_for_kernels_of_several_fits(monkeypatch):
    """A share of the memory of an accelerator that tells it; on a CPU the kernels are in memory already."""

    class Device:
        def __init__(self, platform, memory):
            self.platform, self.memory_stats = platform, lambda: memory

    def room(platform, memory, backend="jax"):
        monkeypatch.setattr("jax.devices", lambda: [Device(platform, memory)])
        return folds._room(LoopOptions(backend=backend))

    assert room("gpu", {"bytes_limit": 8e9}) == folds.DEVICE_SHARE * 8e9 > 0.0
    assert room("gpu", None) == room("cpu", {"bytes_limit": 8e9}) == 0.0
    assert room("gpu", {"bytes_limit": 8e9}, backend="numpy") == 0.0
