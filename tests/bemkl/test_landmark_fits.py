"""BEMKL against landmarks: the exact model as a special case, the paper's loops, and all that follows a fit."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from helpers import assert_same, log_likelihood, refined_a_little
from sklearn.base import clone, is_regressor

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, discriminative, load_model, save_model
from bayesmkl.bemkl import NUTS, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, Gibbs
from bayesmkl.bemkl.base import BaseBEMKL
from bayesmkl.kernels import Gaussian, Laplacian, Linear
from bayesmkl.posterior import diagnose, kernel_table, sample_posterior, to_datatree

EXACT = 1e-8
RNG = np.random.default_rng(5)
X = RNG.normal(size=(48, 3))
SIGNAL = X[:, 0] + X[:, 1] ** 2 - 1.0
LABELS = np.where(SIGNAL > 0.0, "yes", "no")
THREE = np.digitize(SIGNAL, [-0.5, 0.5])
MANY = np.column_stack([SIGNAL > 0.0, X[:, 2] > 0.3]).astype(int)
SOME = np.where(np.arange(48) % 3 == 0, "?", LABELS)
TARGETS = np.column_stack([SIGNAL, X[:, 2]])
ROWS = RNG.normal(size=(9, 3))
for _shared in (X, SIGNAL, ROWS):
    _shared.flags.writeable = False
KERNELS = [Gaussian(width=1.5), Laplacian(width=2), Linear()]
FIXED = {"max_iter": 12, "tol": 0.0}
MODELS = {
    "binary": (BEMKLClassifier(intermediate_scale=1.0), LABELS),
    "nonnegative": (BEMKLClassifier(nonnegative=True, intermediate_scale=1.0), LABELS),
    "semi-supervised": (BEMKLClassifier(unlabeled_label="?", intermediate_scale=1.0), SOME),
    "three classes": (BEMKLClassifier(intermediate_scale=1.0), THREE),
    "one versus all": (BEMKLClassifier(multiclass="one-versus-all", intermediate_scale=1.0), THREE),
    "multinomial": (BEMKLClassifier(multiclass="multinomial", intermediate_scale=1.0), THREE),
    "labels": (BEMKLClassifier(intermediate_scale=1.0), MANY),
    "regression": (BEMKLRegressor(), SIGNAL),
    "targets": (BEMKLRegressor(), TARGETS),
    "tasks": (BEMKLMultitaskRegressor(), TARGETS),
    "tasks of labels": (BEMKLMultitaskClassifier(relation="separate"), MANY),
}


def bank(landmarks=None, **settings):
    return KernelBank(KERNELS, {"pair": [0, 1], "third": [2]}, landmarks=landmarks, **settings)


def fitted(model, y, landmarks=None, **settings):
    return clone(model).set_params(kernels=bank(landmarks), **(FIXED | settings)).fit(X, y)


def predictions(model, rows):
    """Return all that a model says of rows, as one array with the rows first."""
    if is_regressor(model):
        found = model.predict(rows, return_std=True)
    elif isinstance(model, BEMKLMultitaskClassifier):
        found = [np.stack(model.predict_proba(rows), axis=1)]
    else:
        found = [model.predict_proba(rows), *model.predict_latent(rows, return_std=True)]
    return np.column_stack([np.reshape(part, (len(rows), -1)) for part in found])


# --- the exact model, and the paper's equations ------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("name", MODELS)
def test_degenerate_all_samples_as_landmarks_give_the_exact_model(name):
    model, y = MODELS[name]
    exact, found = (fitted(model, y, landmarks) for landmarks in (None, X))
    for attribute in ("elbo_", "kernel_weights_", "kernel_weights_cov_", "dual_coef_", "intercept_"):
        assert_same(getattr(found, attribute), getattr(exact, attribute), EXACT, attribute)
    for attribute in ("kernel_shares_", "kernel_shares_std_"):
        assert_same(getattr(found, attribute), getattr(exact, attribute), EXACT, attribute)
    assert_same(predictions(found, ROWS), predictions(exact, ROWS), EXACT)


@pytest.mark.parametrize(
    "model", [BEMKLClassifier(intermediate_scale=1.0), BEMKLRegressor()], ids=["classifier", "regressor"]
)
def test_degenerate_gibbs_with_all_samples_as_landmarks_draws_as_the_exact_model(model, recwarn):
    y = SIGNAL if is_regressor(model) else LABELS
    settings = {"inference": Gibbs(n_chains=1, n_warmup=5, n_draws=10)}
    exact, found = (fitted(model, y, landmarks, **settings) for landmarks in (None, X))
    assert_same(found.posterior_.dual, exact.posterior_.dual, 1e-6)
    assert_same(found.posterior_.kernel_weights, exact.posterior_.kernel_weights, 1e-6)
    few = fitted(model, y, 6, **settings)
    assert few.posterior_.dual.shape == (1, 10, 6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nuts_and_gibbs_agree():
    settings = {
        "gibbs": Gibbs(n_chains=2, n_draws=3000),
        "nuts": NUTS(n_chains=2, n_warmup=300, n_draws=400),
    }
    found = {}
    for inference, own in settings.items():
        model = fitted(
            BEMKLClassifier(intermediate_scale=1.0), LABELS, 6, inference=own, tol=1e-5, max_iter=500
        )
        assert model.posterior_.dual.shape[-1] == 6
        found[inference] = model.predict_proba(X)[:, 1]
    assert np.abs(found["nuts"] - found["gibbs"]).mean() < 0.02


# --- what follows a fit ------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_predicted_one_by_one_as_in_a_batch(name):
    model, y = MODELS[name]
    found = fitted(model, y, 8)
    batch = predictions(found, ROWS)
    single = np.concatenate([predictions(found, ROWS[i : i + 1]) for i in range(len(ROWS))])
    assert_same(single, batch, 1e-11)
    assert found.dual_coef_.shape[-1] == 8


def test_equivariance_permuted_landmarks_permute_their_weights():
    points, order = RNG.normal(size=(9, 3)), RNG.permutation(9)
    first, second = (
        fitted(BEMKLClassifier(intermediate_scale=1.0), LABELS, p) for p in (points, points[order])
    )
    assert_same(second.dual_coef_, first.dual_coef_[order], EXACT)
    assert_same(predictions(second, ROWS), predictions(first, ROWS), EXACT)


def test_recovery_more_landmarks_bring_predictions_nearer_to_the_exact_ones():
    rows = np.random.default_rng(0).normal(size=(200, 3))
    models = {
        n: fitted(BEMKLClassifier(intermediate_scale=1.0), LABELS, n, max_iter=1000, tol=1e-5).predict_proba(
            rows
        )
        for n in (2, 12, 40, None)
    }
    errors = [np.abs(models[n] - models[None]).mean() for n in (2, 12, 40)]
    assert errors[0] > 1.4 * errors[1]
    assert errors[1] > 4.0 * errors[2]
    assert errors[2] < 0.01


def test_tasks_share_the_landmarks():
    """Every task is compared with all landmarks; on its own it is the model of its samples."""
    tasks, points = np.where(np.arange(48) < 30, "a", "b"), X[::4]
    model = BEMKLMultitaskRegressor(bank(points), relation="separate", **FIXED)
    found = model.fit(X, SIGNAL, tasks=tasks)
    assert found.dual_coef_.shape == (2, 12)
    for t, name in enumerate(["a", "b"]):
        own = tasks == name
        alone = clone(model).fit(X[own], SIGNAL[own])
        assert_same(found.dual_coef_[t], alone.dual_coef_[0], EXACT)
        assert_same(found.predict(ROWS, tasks=np.full(9, name)), alone.predict(ROWS), EXACT)
    together = BEMKLMultitaskRegressor(bank(points), **FIXED).fit(X, SIGNAL, tasks=tasks)
    assert together.predict(ROWS).shape == (9, 2)


def test_file_keeps_every_digit_and_the_data_once(tmp_path):
    model = fitted(BEMKLClassifier(intermediate_scale=1.0), LABELS, 8)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(predictions(again, ROWS), predictions(model, ROWS))
    np.testing.assert_array_equal(again.kernel_bank_.basis_, model.kernel_bank_.basis_)
    plain = KernelBank(Linear()).fit(X)
    save_model(plain, tmp_path / "bank.skops")
    again = load_model(tmp_path / "bank.skops")
    assert again.basis_ is again.X_train_


@pytest.mark.parametrize("name", ["binary", "three classes", "one versus all", "semi-supervised", "targets"])
def test_posterior_tools_know_landmarks(name):
    model, y = MODELS[name]
    found = fitted(model, y, 8)
    for pointwise in (True, False):
        tree = to_datatree(found, n_draws=6, random_state=0, pointwise=pointwise)
        coefficients = tree["posterior/dual_coef"]
        assert coefficients.dims[-1] == "landmark"
        assert coefficients.shape[-1] == 8
        assert tree["posterior/sample_precision"].dims == coefficients.dims
        assert tree["observed_data/y"].sizes["obs_id"] == 48
    assert sample_posterior(found, 5)["dual_coef"].shape[-1] == 8
    assert len(kernel_table(found)) in (6, 18)


def test_log_likelihood_of_the_tree_by_the_formula():
    from scipy.stats import norm

    model = fitted(BEMKLRegressor(), SIGNAL, 8)
    posterior = (tree := to_datatree(model, n_draws=4, random_state=0))["posterior"]
    kernels = model.kernel_bank_.transform(X)
    scores = np.einsum("cdm,ibm,cdb->cdi", posterior.kernel_weights, kernels, posterior.dual_coef)
    scores += posterior.intercept.values[..., None]
    variance = 1.0 / posterior.noise_precision + (posterior.kernel_weights**2).sum("kernel") / (
        posterior.intermediate_precision
    )
    law = norm(scores, np.sqrt(variance.values)[..., None])
    expected = law.logpdf((SIGNAL - SIGNAL.mean()) / SIGNAL.std()).sum(axis=-1)
    np.testing.assert_allclose(log_likelihood(tree), expected, rtol=1e-9)


@pytest.mark.heavy
def test_diagnosis_and_refinement():
    model = BEMKLRegressor(KernelBank(KERNELS[:2], landmarks=5), tol=1e-4).fit(X[:24], SIGNAL[:24])
    assert "24 training samples" in str(diagnose(model, n_draws=100, random_state=0))
    refined = refined_a_little(model, 10)
    assert refined.posterior_.dual.shape[-1] == 5
    assert np.abs(refined.predict(X) - model.predict(X)).mean() < 0.5 * SIGNAL.std()


# --- what is refused ---------------------------------------------------------------------------

DISCRIMINATIVE = [
    cls
    for cls in (getattr(discriminative, name) for name in discriminative.__all__)
    if inspect.isclass(cls) and "kernels" in inspect.signature(cls).parameters
]


@pytest.mark.parametrize("cls", DISCRIMINATIVE)
def test_discriminative_models_refuse_landmarks_by_name(cls):
    model = cls(bank(5))
    y = SIGNAL if is_regressor(model) else LABELS
    with pytest.raises(
        ValueError, match=f"`kernels` must be a bank with `landmarks=None` for {cls.__name__}"
    ):
        model.fit(X, y)
    assert not issubclass(cls, BaseBEMKL)


def test_wrong_use_with_landmarks():
    with pytest.raises(ValueError, match='`missing_views` must be "error" with a bank of kernels that has'):
        BEMKLClassifier(bank(5), missing_views="integrate", intermediate_scale=1.0).fit(X, LABELS)
    with pytest.raises(ValueError, match="from 1 to the number of training samples, 48; got 49"):
        BEMKLRegressor(bank(49)).fit(X, SIGNAL)
    other = fitted(BEMKLClassifier(intermediate_scale=1.0), LABELS, 6).posterior_
    with pytest.raises(ValueError, match="`init` must be a posterior with 8 sample weights"):
        fitted(BEMKLClassifier(intermediate_scale=1.0), LABELS, 8, init=other)
