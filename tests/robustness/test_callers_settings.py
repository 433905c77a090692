"""Numbers do not depend on what the caller has set in NumPy and scikit-learn."""

from __future__ import annotations

import contextlib

import families
import jax
import numpy as np
import pytest
import sklearn
from helpers import refined_a_little
from sklearn.base import is_outlier_detector, is_regressor

import bayesmkl
from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, posterior
from bayesmkl.bemkl import Storage
from bayesmkl.kernels import Gaussian, Laplacian

pytestmark = pytest.mark.family("the caller's settings")

X = families.data()


@contextlib.contextmanager
def strict():
    """Frames of pandas, checks left out, every floating point error raised, numbers shown with one digit."""
    scikit_learn = {
        "assume_finite": True,
        "enable_metadata_routing": True,
        "print_changed_only": False,
        "skip_parameter_validation": True,
        "transform_output": "pandas",
        "working_memory": 1,
    }
    printing = np.printoptions(legacy="1.13", precision=1, threshold=3)
    with sklearn.config_context(**scikit_learn), np.errstate(all="raise"), printing:
        yield


@contextlib.contextmanager
def careless():
    """Frames of polars, no floating point error reported."""
    with sklearn.config_context(transform_output="polars"), np.errstate(all="ignore"):
        yield


SETTINGS = (strict, careless)


def estimators():
    own = {name: getattr(bayesmkl, name) for name in bayesmkl.__all__ if name.startswith("BEMKL")}
    return own | families.discriminative_classes()


def fitted(model):
    y = families.target(X) if is_regressor(model) else families.labels(X, 2)
    options = {"tasks": np.arange(len(X)) % 2} if "Multitask" in type(model).__name__ else {}
    return model.fit(X) if is_outlier_detector(model) else model.fit(X, y, **options)


def numbers(model):
    """Fit, and return all predictions and how the fit went."""
    fitted(model)
    path = getattr(model, "elbo_history_", None)
    path = getattr(model, "objective_history_", ()) if path is None else path
    return families.predictions(model) | {"path": np.concatenate([np.ravel(part) for part in path] or [[]])}


@pytest.mark.parametrize("name", estimators())
def test_estimators_at_their_defaults(name):
    estimator = estimators()[name]
    expected = families.fitted(lambda: numbers(estimator()))
    for setting in SETTINGS:
        with setting():
            found = families.fitted(lambda: numbers(estimator()))
        assert found.keys() == expected.keys()
        for method in expected:
            np.testing.assert_array_equal(
                found[method], expected[method], err_msg=f"{setting.__name__}: {method}"
            )


def test_competing_classes_whose_probabilities_underflow():
    """Where a class is impossible, a weight of its exp(-800) is zero and no error."""

    def find():
        model = BEMKLClassifier(multiclass="multinomial", intermediate_scale=1.0).fit(
            X, families.labels(X, 3)
        )
        return np.concatenate([model.elbo_history_, model.predict_proba(X).ravel()])

    expected = families.fitted(find)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="underflow"):
        np.exp(-800.0)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(families.fitted(find), expected)


@pytest.mark.heavy
def test_jax_that_broadcasts_nothing():
    def find():
        model = BEMKLClassifier(
            families.bank(), storage=Storage(backend="jax"), max_iter=3, tol=0.0, intermediate_scale=1.0
        )
        return model.fit(X, families.labels(X, 3)).predict_proba(X)

    expected = find()
    with jax.numpy_rank_promotion("raise"), jax.default_matmul_precision("bfloat16"):
        np.testing.assert_array_equal(find(), expected)


@pytest.mark.parametrize("name", estimators())
def test_nan_is_refused_where_scikit_learn_shall_not_look(name):
    bad = X.copy()
    bad[3, 1] = np.nan
    model = families.fitted(lambda: fitted(estimators()[name]()))
    y = families.target(X) if is_regressor(model) else families.labels(X, 2)
    options = {"tasks": np.arange(len(X)) % 2} if "Multitask" in name else {}
    with sklearn.config_context(assume_finite=True):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.predict(bad, **options)
        bad[3, 1] = np.inf
        with pytest.raises(ValueError, match="Input X contains infinity"):
            model.fit(bad, *(() if is_outlier_detector(model) else (y,)), **options)


def test_banks_and_kernels():
    """A stack has three axes, which no frame has: it stays an array."""

    def find():
        bank = KernelBank([Gaussian(width=0.01), "laplacian"], views="each")
        alone = [kernel(X, X) for kernel in (Gaussian(width=0.01), Laplacian(width=0.001))]
        return [bank.fit_transform(X), bank.transform(X), bank.row_stack(X), bank.train_stack(), *alone]

    expected = find()
    assert any((stack == 0.0).any() for stack in expected)
    for setting in SETTINGS:
        with setting():
            found = find()
        for one, other in zip(found, expected, strict=True):
            assert type(one) is np.ndarray
            np.testing.assert_array_equal(one, other)
    with pytest.raises(AttributeError, match="set_output"):
        KernelBank().set_output(transform="pandas")


# ------------------------------------------------------------------------------------------------- posteriors


@pytest.fixture(scope="module")
def models():
    return {
        "binary": families.fitted(families.families()["binary"]),
        "classes": families.fitted(families.families()["multinomial"]),
        "regression": families.fitted(families.families()["regression"]),
        "Gibbs": families.fitted(families.families()["Gibbs, binary"]),
    }


def frames(tree):
    return {
        path: {name: v.values for name, v in node.data_vars.items()} for path, node in tree.subtree_with_keys
    }


POSTERIORS = {
    "kernel_table": lambda model: posterior.kernel_table(model).select_dtypes("number").to_numpy(),
    "view_table": lambda model: posterior.view_table(model, random_state=0)["share"].to_numpy(),
    "sample_posterior": lambda model: posterior.sample_posterior(model, 10, random_state=0),
    "to_datatree": lambda model: frames(posterior.to_datatree(model, n_draws=10, random_state=0)),
    "compare_loo": lambda model: compared(model),
    "plot_kernel_weights": lambda model: positions(posterior.plot_kernel_weights(model)),
}


def compared(model):
    table = posterior.compare_loo({"a": model, "b": model}, n_draws=100, random_state=0)
    return table.select_dtypes("number").to_numpy()


def positions(ax):
    return [line.get_xydata() for line in ax.lines]


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("model", ["classes", "regression", "Gibbs"])
def test_functions_of_posteriors(models, model, name):
    expected = families.fitted(lambda: POSTERIORS[name](models[model]))
    for setting in SETTINGS:
        with setting():
            found = families.fitted(lambda: POSTERIORS[name](models[model]))
        np.testing.assert_equal(found, expected, err_msg=setting.__name__)


def test_refined_posteriors(models):
    def find():
        return refined_a_little(models["binary"], 10).kernel_weights_

    expected = families.fitted(find)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(families.fitted(find), expected)


# ------------------------------------------------------------------------------------- what callers still decide


def test_errors_of_ones_own_kernel_are_still_raised():
    """Settings inside concern what underflows alone."""

    def kernel(A, B):
        return A @ B.T / np.float64(0.0)

    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide"):
        BEMKLRegressor(KernelBank(kernel)).fit(X, families.target(X))
