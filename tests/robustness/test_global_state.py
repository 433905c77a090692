"""Imports, fits, plots and comparisons leave the rest of the process as it was, after errors too."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings

import families
import numpy as np
import pytest
from fit_everything import OTHERS
from fresh import fresh_process
from global_state import changes, snapshot, unchanged
from sklearn.base import is_outlier_detector
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    KernelBank,
    discriminative,
    load_model,
    posterior,
    save_model,
)
from bayesmkl.bemkl import NUTS, Gibbs, select_by_elbo
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Linear

pytestmark = [pytest.mark.family("global state"), pytest.mark.heavy]

FITS = families.families()
CLASSES = families.discriminative_classes()


def seen_by_snapshot():
    """Return what a change of each kind is called, with a function that makes it and one that takes it back."""
    import logging
    import os
    import random

    import matplotlib as mpl

    return {
        "NumPy's error state": (lambda: np.seterr(over="raise"), lambda: np.seterr(over="warn")),
        "NumPy's random state": (lambda: np.random.random(), lambda: None),  # noqa: NPY002
        "Python's random state": (random.random, lambda: None),
        "filters of warnings": (lambda: warnings.simplefilter("always", BytesWarning), lambda: None),
        "matplotlib's parameters": (
            lambda: mpl.rcParams.update({"font.size": 3.0}),
            lambda: mpl.rcParams.update({"font.size": mpl.rcParamsDefault["font.size"]}),
        ),
        "environment": (lambda: os.environ.update(BAYESMKL_X="1"), lambda: os.environ.pop("BAYESMKL_X")),
        "logging": (lambda: logging.root.setLevel(7), lambda: logging.root.setLevel(logging.WARNING)),
        "import path": (lambda: sys.path.append("x"), lambda: sys.path.remove("x")),
    }


@pytest.mark.parametrize("name", seen_by_snapshot())
def test_changes_are_seen(name):
    change, restore = seen_by_snapshot()[name]
    with warnings.catch_warnings():
        before = snapshot()
        change()
        found = changes(before, snapshot())
        restore()
    assert len(found) == 1
    assert found[0].startswith(name)


def test_importing_models_and_kernels_changes_nothing(tmp_path_factory):
    assert fresh_process(tmp_path_factory).changed_by_models == []


def test_importing_every_module_changes_nothing(tmp_path_factory):
    assert fresh_process(tmp_path_factory).changed_by_import == []


# ------------------------------------------------------------------------------------------------- estimators


@pytest.fixture(scope="module", autouse=True)
def _others_are_imported():
    for name in OTHERS:
        importlib.import_module(name)


def raising(message):
    """Return a kernel that computes one, and raises the next time."""
    calls = []

    def kernel(X, Z):
        calls.append(len(X))
        if len(calls) > 1:
            raise KeyboardInterrupt(message)
        return X @ Z.T

    return kernel


def unfitted(name):
    if name in CLASSES:
        return families._discriminative(CLASSES[name])
    return {"binary": BEMKLClassifier, "regression": BEMKLRegressor}[name](families.bank(), **families.SHORT)


@pytest.mark.parametrize("name", ["binary", "regression", *CLASSES])
def test_errors_change_nothing(name):
    """Wrong data, a wrong parameter, a warning that is an error, Ctrl-C in the middle of the kernels."""
    X = families.data()
    y = families.target(X) if "egress" in name else families.labels(X, 2)
    arguments = () if is_outlier_detector(unfitted(name)) else (y,)
    bad = X.copy()
    bad[3, 1] = np.nan
    with unchanged(), pytest.raises(ValueError, match="NaN"):
        unfitted(name).fit(bad, *arguments)
    with unchanged(), pytest.raises(ValueError, match="kernels"):
        unfitted(name).set_params(kernels=3).fit(X, *arguments)
    impatient = unfitted(name).set_params(kernels=KernelBank([Linear(), raising("stop")], views="each"))
    with unchanged(), pytest.raises(KeyboardInterrupt, match="stop"):
        impatient.fit(X, *arguments)
    strict = unfitted(name)
    if "max_iter" in strict.get_params() and "tol" in strict.get_params():
        strict.set_params(max_iter=1, tol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            with unchanged(), contextlib.suppress(ConvergenceWarning):
                strict.fit(X, *arguments)


# ------------------------------------------------------------------------------------------------- functions


X, LABELS = families.data(), families.labels(families.data(), 2)


@pytest.fixture(scope="module")
def models():
    found = {name: families.fitted(FITS[name]) for name in ("binary", "regression")}
    chains = BEMKLClassifier(
        families.bank(), inference=Gibbs(n_chains=2, n_warmup=5, n_draws=10), intermediate_scale=1.0
    )
    return found | {"Gibbs, binary": families.fitted(lambda: chains.fit(X, LABELS))}


def test_choosing_changes_nothing():
    rows = families.data(40)
    y = families.labels(rows, 2)
    model, banks = (
        BEMKLClassifier(families.bank(), max_iter=5, intermediate_scale=1.0),
        {"kernels": [families.bank(), KernelBank()]},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with unchanged():
            select_by_elbo(model, banks, rows, y)


def test_files_change_nothing(models, tmp_path):

    def there_and_back():
        save_model(models["binary"], tmp_path / "m.skops")
        load_model(tmp_path / "m.skops")
        posterior.save_posterior(models["Gibbs, binary"], tmp_path / "p.nc")
        posterior.load_posterior(tmp_path / "p.nc")

    there_and_back()  # the first imports what reads and writes
    with unchanged():
        there_and_back()
    with unchanged(), pytest.raises(ValueError, match=r"p\.nc"):
        load_model(tmp_path / "p.nc")
    with unchanged(), pytest.raises((OSError, ValueError), match=r"m\.skops"):
        posterior.load_posterior(tmp_path / "m.skops")


def parts(models):
    """Return what views add to the scores of the rows."""
    return posterior.contributions(models["binary"], X, n_draws=20, random_state=0)


PLOTS = {
    "plot_decision": lambda models: discriminative.plot_decision(
        families.fitted(
            lambda: discriminative.UniformMKLClassifier(KernelBank("linear")).fit(X[:, :2], LABELS)
        ),
        X[:, :2],
        LABELS,
    ),
    "plot_gates": lambda models: discriminative.plot_gates(families.fitted(FITS["LMKLClassifier"]), X),
    "plot_switches": lambda models: discriminative.plot_switches(
        np.eye(families.N_TRAIN, 4) > 0.0, np.ones(4)
    ),
    "plot_contributions": lambda models: posterior.plot_contributions(parts(models)),
    "plot_waterfall": lambda models: posterior.plot_waterfall(parts(models), 0),
    "plot_component": lambda models: posterior.plot_component(parts(models), "intercept", X[:, 0]),
    "plot_features": lambda models: posterior.plot_features(
        posterior.feature_table(models["binary"], random_state=0)
    ),
    "plot_elbo": lambda models: posterior.plot_elbo(models["binary"]),
    "plot_kernel_weights": lambda models: posterior.plot_kernel_weights(models["binary"]),
    "plot_posteriors": lambda models: posterior.plot_posteriors(models, n_draws=50),
    "plot_predictions": lambda models: posterior.plot_predictions(
        families.target(X), *models["regression"].predict(X, return_std=True)
    ),
    "plot_reliability": lambda models: posterior.plot_reliability(LABELS, models["binary"].predict_proba(X)),
    "plot_uncertainty": lambda models: posterior.plot_uncertainty(
        families.fitted(
            lambda: BEMKLClassifier(KernelBank("linear"), **families.SHORT, intermediate_scale=1.0).fit(
                X[:, :2], LABELS
            )
        ),
        X[:, :2],
        n_grid=5,
    ),
}


@pytest.mark.parametrize("name", PLOTS)
def test_plots_change_nothing(models, name):
    models = {key: models[key] for key in models if name != "plot_posteriors" or "binary" in key}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PLOTS[name](models)  # the first of its kind imports what draws
        with unchanged():
            PLOTS[name](models)


def test_every_plot_is_here():
    public = [*posterior.__all__, *discriminative.__all__]
    assert {name for name in public if name.startswith("plot_")} == set(PLOTS)


def test_a_comparison_and_its_report_change_nothing(tmp_path):
    rows = families.data(40)
    y = families.labels(rows, 2)
    models = {name: unfitted(name) for name in ("UniformMKLClassifier", "binary")}

    def compare(folder):
        comparison = compare_models(models, rows, y, cv=2, folder=folder)
        comparison.to_html(folder / "report.html")
        comparison.plot("scores").clear()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(tmp_path / "first")
        with unchanged():
            compare(tmp_path / "second")


@pytest.mark.slow
def test_sampling_changes_nothing():
    model = BEMKLClassifier(families.bank(), inference=NUTS(2, 20, 20), intermediate_scale=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, LABELS)  # the first imports what samples
        with unchanged():
            families.predictions(model.fit(X, LABELS))
