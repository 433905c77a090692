"""BEMKL estimators on extreme kernels and priors: right, or one warning, or refused; memory of a large fit."""

from __future__ import annotations

import contextlib
import warnings
from functools import partial

import mpmath
import numpy as np
import pytest
from many_digits import DIGITS, Old, Settings, doubles, exact, sweep
from sklearn.exceptions import ConvergenceWarning
from verdicts import assert_refused, quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import VB, Gamma
from bayesmkl.kernels import KernelQualityWarning

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("numbers under stress"),
    pytest.mark.filterwarnings("ignore:Some kernels are unlikely to help"),
]

N_TRAIN, N_ROWS = 30, 10
MODELS = {
    "binary": (BEMKLClassifier, {}),
    "regression": (BEMKLRegressor, {}),
    "shared": (BEMKLClassifier, {"multiclass": "shared"}),
    "multinomial": (BEMKLClassifier, {"multiclass": "multinomial"}),
    "nonnegative": (BEMKLClassifier, {"nonnegative": True}),
    "two targets": (BEMKLRegressor, {}),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_TRAIN + N_ROWS, 4))
    signal = X[:, 0] + 0.5 * X[:, 2] ** 2 + 0.3 * rng.normal(size=len(X))
    views = X[:, :2], X[:, 2:], X
    kernels = np.stack([np.exp(-0.5 * ((v[:, None] - v) ** 2).sum(axis=-1)) for v in views], axis=-1)
    return kernels, signal[:N_TRAIN], X


def target_of(model, signal):
    if model == "regression":
        return signal
    if model == "two targets":
        return np.stack([signal, signal**2], axis=1)
    return np.digitize(signal, [0.4] if model in ("binary", "nonnegative") else [-0.2, 0.8])


def outputs_of(model, rows):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return np.concatenate([np.ravel(part) for part in model.predict(rows, return_std=True)])


def fit_and_check(name, kernels, signal, *expected, **parameters):
    """Fit, with at most one warning of each kind; check that all is finite, and that the bound never fell."""
    estimator, own = MODELS[name]
    model = estimator("precomputed", **{"max_iter": 40} | own | parameters)
    y = target_of(name, signal)
    quietly(partial(model.fit, kernels[:N_TRAIN, :N_TRAIN], y), ConvergenceWarning, *expected)
    for history in model.elbo_history_ if isinstance(model.elbo_history_, tuple) else (model.elbo_history_,):
        assert (np.diff(history) >= -1e-9 * abs(history[-1])).all()
    for attribute in ("kernel_weights_", "kernel_weights_std_", "kernel_shares_", "intercept_", "elbo_"):
        assert np.isfinite(getattr(model, attribute)).all(), attribute
    outputs = quietly(partial(outputs_of, model, kernels[N_TRAIN:, :N_TRAIN]))
    assert np.isfinite(outputs).all()
    if hasattr(model, "predict_proba"):
        assert ((outputs >= 0.0) & (outputs <= 1.0)).all()
        np.testing.assert_allclose(outputs.sum(axis=1), 1.0, atol=1e-12)
    return model


PRIORS = [(1e-10, 1e-10), (1e-10, 1e10), (1e10, 1e-10), (1e10, 1e10)]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_extreme_priors(data, name, prior):
    """Of all precisions at once; one after the other, they are compared with 50 digits (`test_stress_sweeps`)."""
    fit_and_check(
        name, *data[:2], **dict.fromkeys(("kernel_prior", "sample_prior", "bias_prior"), Gamma(*prior))
    )


def test_priors_that_fix_every_precision_converge(data):
    """Their bound has terms of 1e11 that cancel: it must neither seem to fall nor stop the search."""
    known = dict.fromkeys(("kernel_prior", "sample_prior", "bias_prior"), Gamma(1e10, 1e10))
    for name in ("binary", "regression", "shared", "multinomial"):
        model = fit_and_check(name, *data[:2], **known, max_iter=200)
        assert model.converged_


@pytest.mark.parametrize("name", MODELS)
def test_kernels_that_are_singular_to_double_precision(data, name):
    """Wide Gaussian kernels of condition 1e16 and more, a constant one, one of rank one, and one twice."""
    X = data[2]
    wide = [np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1) / width**2) for width in (1e3, 1e4)]
    kernels = np.stack(
        [*wide, np.ones_like(wide[0]), np.outer(X[:, 0], X[:, 0]), data[0][..., 0], data[0][..., 0]], -1
    )
    assert (np.linalg.cond(np.moveaxis(kernels[:N_TRAIN, :N_TRAIN, :4], -1, 0)) > 1e15).all()
    model = fit_and_check(name, kernels, data[1], KernelQualityWarning)
    weights = np.atleast_2d(model.kernel_weights_)
    np.testing.assert_allclose(weights[:, 4], weights[:, 5], rtol=1e-3, atol=1e-6)  # the same kernel twice


# ------------------------------------------------------------------------------ too large and too close to singular


def reference(K, y):
    """Second moments of a, and E[f], after eight sweeps with 50 digits."""
    one, scores = exact(np.ones(1)), exact(2.0 * y[None])
    settings = Settings(K, y[None], (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), 1.0, 1.0)
    readout = exact(np.eye(1 + len(K))[1:].sum(axis=0)), exact(np.eye(1 + len(K)))
    G = np.repeat(scores[:, None], len(K), axis=1)
    old = Old(exact(np.ones((1, len(y)))), G, *readout, scores, one, one)
    for _ in range(8):
        _, old, _ = sweep(settings, old)
    return doubles(old.a_square)[0], doubles(old.f)[0]


def low_rank(exponent):
    """Return kernels of rank one and two on six points, labels, and a function that fits a model and returns it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2))
    y = np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    K = 10.0**exponent * np.stack([np.outer(X[:, 0], X[:, 0]), X @ X.T])
    model = BEMKLClassifier(
        "precomputed", margin=1.0, max_iter=8, tol=0.0, inference=VB(accelerate=False), intermediate_scale=1.0
    )
    return K, y, partial(model.fit, np.moveaxis(K, 0, -1), y)


@pytest.mark.parametrize("exponent", [0, 4, 6])
def test_low_rank_kernels_up_to_a_million_are_right(exponent):
    """The prior decides where kernels are zero: the rounding errors of K'K must stay below it."""
    K, y, fit = low_rank(exponent)
    model = quietly(fit)
    with mpmath.workdps(DIGITS):
        square, latent = reference(K, y)
    np.testing.assert_allclose(model.posterior_.dual.square, square, rtol=1e-2)
    np.testing.assert_allclose(model.posterior_.latent.mean, latent, rtol=1e-2)


def test_low_rank_kernels_of_ten_million_are_warned_of():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        low_rank(7)[2]()
    found = [w for w in caught if issubclass(w.category, KernelQualityWarning)]
    assert len(found) == 1
    assert len(caught) <= 2  # the search may end early, too
    assert "third digit" in str(found[0].message)
    assert "Normalize them" in str(found[0].message)


@pytest.mark.parametrize("exponent", [9, 12, 50])
def test_low_rank_kernels_that_are_larger_are_refused(exponent):
    assert_refused(low_rank(exponent)[2], "`X`", "normalize")


SCALES = 10.0 ** np.array([-12.0, -6.0, 0.0, 6.0, 12.0])


def scaled_kernel(X, Z, scale):
    return scale * np.exp(-0.5 * ((X[:, None] - Z) ** 2).sum(axis=-1))


def test_kernels_from_1e12_below_to_1e12_above_are_warned_of_and_the_remedy_works(data):
    """Weights would have to span the same range; normalized, the kernels are the same one five times."""
    kernels, signal, X = data
    y = target_of("binary", signal)
    spread = kernels[..., :1] * SCALES
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):  # "too large or too close to singular", if that is how it ends
            BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(spread[:N_TRAIN, :N_TRAIN], y)
    (quality,) = (w.message for w in caught if issubclass(w.category, KernelQualityWarning))
    assert 'normalize="spherical"' in str(quality)
    assert len(caught) <= 2
    bank = KernelBank([partial(scaled_kernel, scale=scale) for scale in SCALES], normalize="spherical")
    plain = KernelBank([partial(scaled_kernel, scale=1.0) for _ in SCALES], normalize="spherical")
    first, second = (
        quietly(
            partial(BEMKLClassifier(kernels, max_iter=50, intermediate_scale=1.0).fit, X[:N_TRAIN], y),
            ConvergenceWarning,
            KernelQualityWarning,
        )
        for kernels in (bank, plain)
    )
    np.testing.assert_allclose(first.predict_proba(X[N_TRAIN:]), second.predict_proba(X[N_TRAIN:]), atol=1e-6)
