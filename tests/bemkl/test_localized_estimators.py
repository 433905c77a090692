"""Localized BEMKL as users see it: evidence, gates by columns and beside kernels, files, plots, mistakes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl import NUTS, BEMKLLocalizedClassifier, BEMKLLocalizedRegressor
from bayesmkl.datasets import make_localized
from bayesmkl.discriminative import plot_gates
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import (
    diagnose,
    kernel_table,
    plot_elbo,
    sample_posterior,
    to_datatree,
    view_table,
)

N = 120
KERNELS = [Gaussian(width=2)]


def drawn(design, seed=0, n=2 * N):
    return make_localized(n, design=design, random_state=seed)


def model_of(sample, **parameters):
    bank = KernelBank(KERNELS, sample.views)
    return BEMKLLocalizedClassifier(bank, gate_columns=sample.gate_columns, **parameters)


@pytest.fixture(scope="module")
def halves():
    sample = drawn("halves")
    return sample, model_of(sample).fit(sample.data[:N], sample.target[:N])


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(N, 2)), rng.uniform(-1.0, 1.0, size=N)]
    y = 5.0 + 2.0 * np.where(X[:, 2] > 0.0, X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=N)
    bank = KernelBank([Linear()], views={"right": 0, "left": 1}, normalize=None)
    return X, y, BEMKLLocalizedRegressor(bank, gate_columns=[2]).fit(X[:80], y[:80])


# ------------------------------------------------------------------------------------------------- what it finds


def test_evidence_is_for_local_gates_where_there_are_some_and_they_are_found(halves):
    sample, model = halves
    new, right = sample.data[N:], sample.data[N:, 4] > 0.0
    assert model.elbo_gain_ > 20.0
    assert model.gate_width_ < 2.0
    assert model.score(new, sample.target[N:]) > 0.85
    plain = BEMKLClassifier(KernelBank(KERNELS, sample.views), intermediate_scale=0.3)
    plain.fit(sample.data[:N], sample.target[:N])
    assert plain.score(new, sample.target[N:]) < 0.83
    gates = model.gates(new)
    assert gates[right, 1].mean() > 3.0 * np.abs(gates[right, 0].mean())
    assert gates[~right, 0].mean() > 3.0 * np.abs(gates[~right, 1].mean())
    assert (model.locality_ > 0.2).all()
    assert (model.locality_interval_[:, 0] < model.locality_).all()
    assert (model.locality_ < model.locality_interval_[:, 1]).all()


def test_evidence_is_for_constant_gates_where_nothing_is_local():
    sample = drawn("global", seed=1)
    model = model_of(sample).fit(sample.data[:N], sample.target[:N])
    assert model.elbo_gain_ < -10.0
    assert model.gate_width_ == np.inf
    np.testing.assert_array_equal(model.locality_, 0.0)
    gates, std = model.gates(return_std=True)
    np.testing.assert_allclose(gates, np.broadcast_to(model.kernel_weights_, gates.shape))
    np.testing.assert_allclose(std, np.broadcast_to(model.kernel_weights_std_, gates.shape), rtol=1e-6)


def test_degenerate_constant_gates_are_bemkl():
    sample = drawn("global", seed=1)
    X, y = sample.data[:N], sample.target[:N]
    settings = {"margin": 0.0, "intermediate_scale": 0.3}
    model = model_of(sample, **settings, tol=1e-10).fit(X, y)
    plain = BEMKLClassifier(KernelBank(KERNELS, sample.views), tol=1e-10, temperature=1.0, **settings).fit(
        X, y
    )
    assert model.gate_width_ == np.inf
    np.testing.assert_allclose(model.elbo_, plain.elbo_, rtol=1e-8)
    new = sample.data[N:]
    np.testing.assert_allclose(model.predict_proba(new), plain.predict_proba(new), atol=1e-5)
    for rule in ("full", "paper"):
        mean, std = model.set_params(predictive=rule).predict_latent(new, return_std=True)
        expected = plain.set_params(predictive=rule).predict_latent(new, return_std=True)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(std, expected[1], rtol=1e-4)


def test_degenerate_constant_gates_are_bemkl_of_a_target():
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(60, 2)), rng.uniform(size=60)]
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=60)
    bank = KernelBank([Gaussian(width=2)], views={"one": 0, "two": 1})
    model = BEMKLLocalizedRegressor(bank, gate_columns=[2], tol=1e-7).fit(X, y)
    plain = BEMKLRegressor(bank, tol=1e-7).fit(X, y)
    assert model.gate_width_ == np.inf
    np.testing.assert_allclose(model.elbo_, plain.elbo_, rtol=1e-5)
    for found, expected in zip(
        model.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


def test_predictive_moments_are_those_of_draws(halves):
    sample, model = halves
    new, rng = sample.data[N : N + 6], np.random.default_rng(0)
    mean, std = model.predict_latent(new, return_std=True)
    state, features = model.posterior_, model.gate_basis_.features(new[:, [4]])
    kernels = np.moveaxis(model.kernel_bank_.transform(new), -1, 0)
    n = 20_000
    readout, dual = state.readout.draw(n, rng), state.dual.draw(n, rng)
    gates = readout[:, 1:].reshape(n, 2, -1) @ features.T
    outputs = np.einsum("mij,nj->nmi", kernels, dual)
    outputs += model.intermediate_scale * rng.standard_normal(outputs.shape)
    scores = readout[:, :1] + (gates * outputs).sum(axis=1) + rng.standard_normal((n, 6))
    np.testing.assert_allclose(scores.mean(axis=0), mean, atol=5.0 * (std / np.sqrt(n)).max())
    np.testing.assert_allclose(scores.std(axis=0), std, rtol=0.04)


def test_target_with_local_weights(regression):
    X, y, model = regression
    assert model.elbo_gain_ > 20.0
    assert model.score(X[80:], y[80:]) > 0.9
    mean, std = model.predict(X[80:], return_std=True)
    assert (np.abs(mean - y[80:]) < 3.0 * std).mean() > 0.9
    shifted = clone(model).fit(X[:80], 100.0 * y[:80] - 7.0)
    np.testing.assert_allclose(shifted.predict(X[80:]), 100.0 * mean - 7.0, rtol=1e-6)


def test_several_classes_have_gates_of_their_own():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(150, 2)), rng.uniform(-1.0, 1.0, size=150)]
    told = np.where(X[:, 2] > 0.0, X[:, 0], X[:, 1])
    y = np.array(["a", "b", "c"])[np.digitize(told, [-0.6, 0.6])]
    model = BEMKLLocalizedClassifier(KernelBank(KERNELS, views={"one": 0, "two": 1}), gate_columns=[2]).fit(
        X, y
    )
    assert model.gates(X[:7]).shape == (3, 7, 2)
    assert model.locality_.shape == (3, 2)
    assert model.locality_interval_.shape == (3, 2, 2)
    assert len(model.posterior_) == 3
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.predict(X) == y).mean() > 0.8
    assert log_loss(y, proba) < 0.6
    assert model.decision_function(X).shape == (150, 3)
    np.testing.assert_allclose(model.kernel_shares_.sum(axis=1), 1.0)


def test_several_targets_are_models_of_each(regression):
    X, y, _ = regression
    both = np.column_stack([y, -0.1 * y + X[:, 0]])
    bank = KernelBank([Linear()], views={"right": 0, "left": 1}, normalize=None)
    model = BEMKLLocalizedRegressor(bank, gate_columns=[2], gate_width=1.0, tol=1e-5)
    one, other = (clone(model).fit(X[:60], own[:60]) for own in both.T)
    model.fit(X[:60], both[:60])
    mean, std = model.predict(X[60:], return_std=True)
    for k, own in enumerate((one, other)):
        expected, spread = own.predict(X[60:], return_std=True)
        np.testing.assert_allclose(mean[:, k], expected, atol=2e-3)  # by `tol`
        np.testing.assert_allclose(std[:, k], spread, rtol=2e-3)
        np.testing.assert_allclose(model.gates(X[60:])[k], own.gates(X[60:]), atol=2e-3)
        np.testing.assert_allclose(model.locality_[k], own.locality_, atol=0.05)  # by other draws
    assert model.elbo_ == pytest.approx(one.elbo_ + other.elbo_, abs=0.02)
    assert model.score(X[60:], both[60:]) == pytest.approx(
        np.mean([one.score(X[60:], both[60:, 0]), other.score(X[60:], both[60:, 1])]),
        abs=1e-3,
    )
    column = clone(model).fit(X[:60], both[:60, :1])
    np.testing.assert_array_equal(column.predict(X[60:]), one.predict(X[60:]))
    tree = to_datatree(model, 10)
    assert dict(tree["posterior/gates"].sizes) == {
        "chain": 1,
        "draw": 10,
        "output": 2,
        "obs_id": 60,
        "kernel": 2,
    }
    np.testing.assert_allclose(tree["observed_data/y"].T, both[:60])
    table = kernel_table(model)
    assert table["output"].tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(table.groupby("output")["share"].sum(), 1.0)
    found = diagnose(model, X[60:], both[60:])
    assert found["calibration"]["n_samples"] == 60
    assert "target 1" in plot_gates(model, label=1).get_title(loc="left")
    with pytest.raises(ValueError, match="`label` must be given: each of the 2 targets"):
        plot_gates(model)
    with pytest.raises(ValueError, match="`label` must be the number of a target, 0 to 1; got 2"):
        plot_gates(model, label=2)
    with pytest.raises(ValueError, match="there is a model for each of 2"):
        clone(model).numpyro_model(X[:20], both[:20])


# --------------------------------------------------------------------------------------------- columns and kernels


def test_columns_are_features_beside_precomputed_kernels(halves):
    sample, model = halves
    X, y, new = sample.data[:N], sample.target[:N], sample.data[N:]
    bank = KernelBank(KERNELS, sample.views).fit(X)
    other = BEMKLLocalizedClassifier("precomputed").fit(bank.transform(X), y, gate_features=X[:, 4])
    found = other.predict_latent(bank.transform(new), new[:, [4]])
    np.testing.assert_allclose(found, model.predict_latent(new), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.gates(), model.gates(), rtol=1e-6, atol=1e-8)
    assert other.score(bank.transform(new), sample.target[N:], gate_features=new[:, 4]) == model.score(
        new, sample.target[N:]
    )


def test_names_of_columns_in_a_pipeline(halves):
    sample, model = halves
    frame = pd.DataFrame(sample.data, columns=[f"x{j}" for j in range(4)] + ["position"])
    bank = KernelBank(KERNELS, {"left": ["x0", "x1"], "right": ["x2", "x3"]})
    gated = BEMKLLocalizedClassifier(bank, gate_columns=["position"])
    found = gated.fit(frame[:N], sample.target[:N])
    np.testing.assert_allclose(found.predict_latent(frame[N:]), model.predict_latent(sample.data[N:]))
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), clone(gated))
    scaled.fit(frame[:N], sample.target[:N])
    assert scaled.score(frame[N:], sample.target[N:]) > 0.85
    default = BEMKLLocalizedClassifier(KernelBank(KERNELS), gate_columns="position").fit(
        frame[:40], sample.target[:40]
    )
    assert default.kernel_bank_.views_[0].columns.tolist() == [0, 1, 2, 3]  # kernels do not see the gate's


def test_a_file_has_the_model(halves, regression, tmp_path):
    sample, model = halves
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(sample.data), model.predict_proba(sample.data))
    np.testing.assert_array_equal(loaded.gates(), model.gates())
    X, _, other = regression
    save_model(other, tmp_path / "other")
    np.testing.assert_array_equal(load_model(tmp_path / "other").predict(X), other.predict(X))


def test_comparison_takes_it():
    sample = drawn("halves", n=60)
    models = {
        "local": model_of(sample, tol=1e-3),
        "global": BEMKLClassifier(KernelBank(KERNELS, sample.views)),
    }
    results = compare_models(models, sample.data, sample.target, cv=2, random_state=0)
    assert set(results.models) == {"local", "global"}


def test_random_starts_and_seeds(halves):
    sample, model = halves
    again = clone(model).set_params(n_init=2, tol=1e-5).fit(sample.data[:N], sample.target[:N])
    assert again.elbo_ >= model.elbo_ - 0.5
    assert again.kernel_weights_.sum() >= 0.0  # the sign that gates are aligned to
    same = clone(model).fit(sample.data[:N], sample.target[:N])
    np.testing.assert_array_equal(same.locality_interval_, model.locality_interval_)


def test_tree_has_draws_of_the_gates(halves, regression):
    sample, model = halves
    tree = to_datatree(model, 500, random_state=0)
    gates = tree["posterior/gates"]
    assert gates.dims == ("chain", "draw", "obs_id", "kernel")
    mean, std = model.gates(return_std=True)
    np.testing.assert_allclose(gates.mean(("chain", "draw")), mean, atol=5.0 * std.max() / np.sqrt(500))
    np.testing.assert_allclose(gates.std(("chain", "draw")), std, rtol=0.2)
    np.testing.assert_allclose(tree["posterior/locality"].mean(("chain", "draw")), model.locality_, atol=0.03)
    np.testing.assert_array_equal(tree["observed_data/y"], sample.target[:N] > 0)
    assert tree.attrs["elbo_gain"] == model.elbo_gain_
    X, y, other = regression
    found = to_datatree(make_pipeline(StandardScaler(), clone(other)).fit(X[:60], y[:60]), 10)
    np.testing.assert_allclose(found["observed_data/y"], y[:60])
    with pytest.raises(ValueError, match="`sample_names` must hold a different name for each of the 120"):
        to_datatree(model, sample_names=["a"])


# -------------------------------------------------------------------------------------------------------- plots


def test_plot_has_lines_and_bands_over_the_gate_feature(halves, regression):
    sample, model = halves
    ax = plot_gates(model, sample.data[N:])
    mean, std = model.gates(sample.data[N:], return_std=True)
    order = np.argsort(sample.data[N:, 4], kind="stable")
    lines = [line for line in ax.lines if len(line.get_xdata()) == N]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(model.kernel_names_)
    for m, (line, band) in enumerate(zip(lines, ax.collections, strict=True)):
        np.testing.assert_array_equal(line.get_xdata(), sample.data[N:, 4][order])
        np.testing.assert_array_equal(line.get_ydata(), mean[order, m])
        height = band.get_datalim(ax.transData).y1
        np.testing.assert_allclose(height, (mean + 2.0 * std)[:, m].max())
    assert "too narrow" in ax.get_title(loc="left")
    assert len(plot_gates(regression[2]).collections) == 2
    with pytest.raises(ValueError, match="`order_by` must have one value for each of the 120 samples"):
        plot_gates(model, sample.data[N:], order_by=[1.0, 2.0])


# ----------------------------------------------------------------------------------------------------- mistakes


def test_mistakes_are_named(halves):
    sample, model = halves
    X, y = sample.data[:N], sample.target[:N]
    constant = X.copy()
    constant[:, 4] = 3.0
    with pytest.raises(ValueError, match=r"`gate_columns` must name .* that differ .* got \[4\], constant"):
        model_of(sample).fit(constant, y)
    with pytest.raises(ValueError, match=r"`n_landmarks` must be at most .* 120; got 121"):
        model_of(sample, n_landmarks=121).fit(X, y)
    gap = sample.data[N:].copy()
    gap[0, 4] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        model.predict(gap)
    with pytest.raises(ValueError, match='`gate_width` must be "auto" or a positive number'):
        model_of(sample, gate_width="wide").fit(X, y)
    with pytest.raises(ValueError, match="gate_columns"):
        model_of(sample).set_params(gate_columns=[7]).fit(X, y)
    with pytest.raises(ValueError, match="`gate_features` must be passed"):
        BEMKLLocalizedClassifier("precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="`gate_features` must be None with kernels made from samples"):
        model.predict(X, gate_features=X[:, 4])
    with pytest.raises(ValueError, match="`inference` must be one of"):
        model_of(sample, inference=NUTS()).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model_of(sample, max_iter=3).fit(X, y)


def test_gate_features_of_new_rows(halves):
    """Rows with one gate are predicted as they are among others; without it, or with others, they are refused."""
    sample, model = halves
    names = ["x0", "x1", "x2", "x3", "position"]
    new = sample.data[N : N + 5].copy()
    new[:, 4] = 0.5
    together = model.predict_proba(new)
    one_by_one = np.concatenate([model.predict_proba(row[None]) for row in new])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-10)
    np.testing.assert_allclose(model.gates(new), np.tile(model.gates(new[:1]), (5, 1)), rtol=1e-12)
    bank = KernelBank(KERNELS, {"left": ["x0", "x1"], "right": ["x2", "x3"]})
    frame = pd.DataFrame(sample.data[:40], columns=names)
    named = BEMKLLocalizedClassifier(bank, gate_columns=["position"], gate_width=1.0, tol=1e-2)
    named.fit(frame, sample.target[:40])
    with pytest.raises(ValueError, match="position"):
        named.predict(frame.drop(columns="position"))
    with pytest.raises(ValueError, match="position"):
        clone(named).fit(frame.drop(columns="position"), sample.target[:40])
    kernels = KernelBank(KERNELS, sample.views).fit(sample.data[:40]).transform(sample.data[:40])
    beside = BEMKLLocalizedClassifier("precomputed", gate_width=1.0, tol=1e-2)
    beside.fit(kernels, sample.target[:40], gate_features=sample.data[:40, 4])
    with pytest.raises(ValueError, match="`gate_features` must be passed"):
        beside.predict(kernels)
    with pytest.raises(ValueError, match="`gate_features` must"):
        beside.predict(kernels, sample.data[:40, 3:5])
    with pytest.raises(ValueError, match="NaN"):
        beside.predict(kernels, np.full(40, np.nan))
    few = np.repeat([0.0, 1.0], 20)
    with pytest.raises(ValueError, match=r"`n_landmarks` must be at most .* differ, 2; got 3"):
        clone(beside).set_params(n_landmarks=3).fit(kernels, sample.target[:40], gate_features=few)


def test_tables_and_other_functions_of_a_posterior(halves):
    _, model = halves
    table = kernel_table(model).set_index("kernel").loc[list(model.kernel_names_)]
    np.testing.assert_allclose(table["weight"], model.kernel_weights_)
    np.testing.assert_allclose(
        table[["locality_lower", "locality_upper"]], model.locality_interval_, rtol=1e-8
    )
    assert view_table(model)["share"].sum() == pytest.approx(1.0)
    assert plot_elbo(model).get_ylabel()
    with pytest.raises(
        TypeError, match="`model` must not have gates; got BEMKLLocalizedClassifier, which `kernel_table`"
    ):
        sample_posterior(model)


def test_numpyro_program_of_an_estimator(halves):
    sample, model = halves
    program = clone(model).numpyro_model(sample.data[:N], sample.target[:N], sample.data[N : N + 3])
    assert program.data["kernels"].shape == (2, N, N)
    np.testing.assert_array_equal(program.data["features"], model.gate_basis_.features(sample.data[:N, [4]]))
    np.testing.assert_array_equal(program.data["y"], sample.target[:N])
    assert program.new["new_kernels"].shape == (2, 3, N)
    assert program.new["new_features"].shape == (3, program.data["features"].shape[1])
    with pytest.raises(ValueError, match="`kernels` must be a KernelBank"):
        BEMKLLocalizedClassifier("precomputed").numpyro_model(
            sample.data[:N] @ sample.data[:N].T, sample.target[:N]
        )


def test_numpyro_program_without_labels_draws_them(halves):
    import jax
    from numpyro.infer import Predictive

    sample, model = halves
    program = clone(model).numpyro_model(sample.data[:20], X_new=sample.data[20:23])
    with numpyro_session():
        drawn = Predictive(program.model, num_samples=3)(jax.random.key(0), **program.data, **program.new)
        draws = {name: np.asarray(values) for name, values in drawn.items()}
    assert set(np.unique(draws["y"])) <= {-1.0, 1.0}
    assert draws["gate_weights"].shape == (3, 2, program.data["features"].shape[1] - 1)
    assert draws["score_new"].shape == (3, 3)
    gates = draws["kernel_weights"][:, :, None] + draws["gate_weights"] @ program.data["features"][:, 1:].T
    outputs = np.einsum("mij,dj->dmi", program.data["kernels"], draws["dual"])
    expected = (gates * outputs).sum(axis=1) + draws["intercept"][:, None]
    np.testing.assert_allclose(draws["score"], expected, rtol=1e-8)
