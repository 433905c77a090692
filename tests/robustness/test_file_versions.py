"""Files of an earlier layout are read as they were meant; files of a newer one are refused by name."""

from __future__ import annotations

import json
import shutil

import earlier
import families
import numpy as np
import pandas as pd
import pytest
import sklearn
from crafted import built, packed, schema
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from typer.testing import CliRunner
from verdicts import assert_refused, quietly

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.bemkl import VB, Gibbs, Storage
from bayesmkl.cli import app
from bayesmkl.cli.folders import RUN_VERSION, load_run
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.persistence.files import _packed
from bayesmkl.persistence.layouts import STEPS, VERSION, migrate
from bayesmkl.posterior import files as posterior_files
from bayesmkl.posterior import load_posterior, save_posterior

pytestmark = [
    pytest.mark.family("files of other versions"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning"),  # `make test-min`
]

NEWER = "newer layout"


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def test_every_earlier_model_can_still_be_fitted():
    assert len(earlier.names()) > 60
    assert set(earlier.names()) == set(earlier.predictions()) <= set(families.families())


@pytest.mark.parametrize("name", earlier.names())
def test_earlier_model_predicts_what_it_did(name):
    model = quietly(
        lambda: load_model(earlier.files() / "models" / f"{name}.skops"), InconsistentVersionWarning
    )
    found, then = families.predictions(model), earlier.predictions()[name]
    assert found.keys() == then.keys()
    for method in then:
        np.testing.assert_allclose(found[method], then[method], rtol=1e-12, atol=1e-12, err_msg=method)


def test_another_scikit_learn_is_told_once(tmp_path, monkeypatch):
    X = families.data(12)
    model = make_pipeline(StandardScaler(), MinMaxScaler(), UniformMKLClassifier(KernelBank("linear")))
    model.fit(X, families.labels(X, 2))
    monkeypatch.setattr("sklearn.base.__version__", "1.5.0")
    save_model(model, tmp_path / "model.skops")
    monkeypatch.undo()
    told = (
        rf"holds parts of scikit-learn 1\.5\.0, and this is {sklearn.__version__}: their results may differ"
    )
    with pytest.warns(InconsistentVersionWarning, match=told) as caught:
        loaded = load_model(tmp_path / "model.skops")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_every_step_between_layouts_is_there():
    assert set(STEPS) == set(range(1, VERSION))


def attributes_of(model):
    return {name for name in vars(model) if name != "training_factors_"}


@pytest.mark.parametrize(
    "name", ["binary", "regression", "SimpleMKLClassifier", "tasks, learned, binary", "Gibbs, binary"]
)
def test_earlier_model_has_what_a_new_one_has(name):
    old = load_model(earlier.files() / "models" / f"{name}.skops")
    new = families.fitted(families.families()[name])
    assert attributes_of(old) == attributes_of(new)
    assert vars(old.kernel_bank_).keys() == vars(new.kernel_bank_).keys()
    assert old.get_params(deep=False).keys() == new.get_params(deep=False).keys()
    if hasattr(new, "kernel_bytes_"):
        assert (old.storage_, old.kernel_bytes_) == (new.storage_, new.kernel_bytes_)
    clone(old)


def test_options_of_an_earlier_model_are_where_they_belong():
    """Models of layout 3 and before have all options as parameters, whichever inference they had."""
    gibbs, plain = (
        load_model(earlier.files() / "models" / f"{name}.skops") for name in ("Gibbs, binary", "binary")
    )
    assert gibbs.inference == families.CHAINS["inference"]
    assert (plain.inference, plain.storage) == ("vb", "auto")
    tasks = load_model(earlier.files() / "models" / "tasks, learned, binary.skops")
    assert (tasks.inference, tasks.storage) == ("vb", "auto")
    before = {
        "accelerate": False,
        "backend": "jax",
        "devices": "all",
        "storage": "streamed",
        "n_steps": 9,
        "n_draws": 10,
    }
    vars(plain).update(before)
    migrate(plain, 3)
    assert (plain.inference, plain.storage) == (VB(accelerate=False), Storage("streamed", "jax"))
    assert not {"accelerate", "backend", "devices", "n_steps", "n_draws"} & vars(plain).keys()
    vars(gibbs).update(before, inference="gibbs", accelerate=True)
    migrate(gibbs, 3)
    assert gibbs.inference == Gibbs(n_draws=10)


@pytest.mark.parametrize("name", ["regression", "LMKLClassifier"])
def test_earlier_model_can_be_saved_again_and_fitted_again(name, tmp_path):
    old = load_model(earlier.files() / "models" / f"{name}.skops")
    save_model(old, tmp_path / "again.skops")
    again = families.predictions(load_model(tmp_path / "again.skops"))
    for method, then in families.predictions(old).items():
        np.testing.assert_array_equal(again[method], then)
    X = families.data()
    y = families.target(X) if name == "regression" else families.labels(X, 2)
    quietly(lambda: clone(old).fit(X, y), ConvergenceWarning)


def test_bank_that_was_never_fitted_is_brought_up_to_date(tmp_path):
    """Its file is that of today, less what there was not: there is no earlier one of a bank alone."""
    bank = KernelBank("rbf", views="each")
    for name in ("landmarks", "landmark_selection", "random_state"):
        delattr(bank, name)
    part = built("bayesmkl.kernels.bank.KernelBank")
    path = tmp_path / "bank.skops"
    path.write_bytes(packed(schema(part, version=1)))
    assert_refused(lambda: load_model(path), "`path`", "kernels")  # it never was without these
    path.write_bytes(_packed(bank))
    assert_refused(lambda: load_model(path), "`path`", "landmarks")  # of the present layout
    assert_refused(lambda: save_model(bank, path), "`model`", "landmarks")


@pytest.mark.parametrize("version", [VERSION + 1, 10**6])
def test_newer_model_is_refused(version, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(packed(schema(built("bayesmkl.kernels.functions.Linear"), version=version)))
    assert_refused(lambda: load_model(path), "`path`", NEWER, "Update bayesmkl")


# ------------------------------------------------------------------------------------------------------ posteriors


def test_earlier_posterior_is_read():
    tree = quietly(lambda: load_posterior(earlier.files() / "posterior.nc"))
    assert tree.attrs["model"] == "BEMKLClassifier"
    assert tree["posterior/kernel_weights"].shape == (1, 5, 4)


def test_posterior_says_its_layout_and_keeps_its_attributes(tmp_path):
    import h5py

    tree = load_posterior(earlier.files() / "posterior.nc")
    save_posterior(tree, tmp_path / "posterior.nc")
    with h5py.File(tmp_path / "posterior.nc") as file:
        assert file.attrs["bayesmkl_format"] == posterior_files.FORMAT
        assert file.attrs["bayesmkl_layout"] == posterior_files.VERSION
    assert load_posterior(tmp_path / "posterior.nc").identical(tree)


@pytest.mark.parametrize("layout", [posterior_files.VERSION + 1, 10**6, 0, "two", [1, 2]])
def test_posterior_of_another_layout_is_refused(layout, tmp_path):
    import h5py

    path = tmp_path / "posterior.nc"
    shutil.copy(earlier.files() / "posterior.nc", path)
    with h5py.File(path, "a") as file:
        file.attrs["bayesmkl_layout"] = layout
    message = NEWER if isinstance(layout, int) and layout > 0 else "layout"
    assert_refused(lambda: load_posterior(path), "`path`", message)


# ----------------------------------------------------------------------------------------------------- comparisons


# ------------------------------------------------------------------------------------------------------------ runs


def test_earlier_run_predicts_what_it_did(tmp_path):
    files = earlier.files()
    code, message = run("predict", files / "run", files / "table.csv", "--out", tmp_path / "out.csv")
    assert code == 0, message
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "out.csv"), pd.read_csv(files / "predicted.csv"), rtol=1e-12
    )


def changed_run(folder, **change):
    shutil.copytree(earlier.files() / "run", folder)
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("version", [RUN_VERSION + 1, "two", -1, None])
def test_run_of_another_layout_is_refused(version, tmp_path):
    folder = changed_run(tmp_path / "run", version=version)
    if version is None:  # as in files from before there were versions
        load_run(folder)
        return
    assert_refused(lambda: load_run(folder), "config.json", "layout")
    code, message = run("predict", folder, earlier.files() / "table.csv", "--out", tmp_path / "out.csv")
    assert code == 2
    assert "layout" in message
    assert not (tmp_path / "out.csv").exists()


def test_new_run_says_its_layout(tmp_path):
    table = earlier.files() / "table.csv"
    code, message = run(
        "fit", table, "--target", "kind", "--kernels-on", "all", "--max-iter", 2, "--out", tmp_path / "run"
    )
    assert code == 0, message
    assert json.loads((tmp_path / "run" / "config.json").read_text())["version"] == RUN_VERSION
