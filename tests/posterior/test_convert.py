"""DataTrees hold the draws under the right names, and come back from NetCDF unchanged."""

from __future__ import annotations

import arviz_stats
import numpy as np
import pytest
import xarray

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.posterior import load_posterior, sample_posterior, save_posterior, to_datatree

MODELS = ["binary_model", "several_model", "regression_model"]


@pytest.mark.parametrize("name", MODELS)
def test_posterior_group_holds_the_draws(name, request):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 50, random_state=3)
    draws = sample_posterior(model, 50, random_state=3)
    assert set(tree["posterior"].data_vars) == draws.keys()
    for key, values in draws.items():
        np.testing.assert_array_equal(tree["posterior"][key].values, values[None])
    several = ("class",) if name == "several_model" else ()
    assert tree["posterior"]["kernel_weights"].dims == ("chain", "draw", *several, "kernel")
    assert tree["posterior"]["dual_coef"].dims == ("chain", "draw", *several, "obs_id")
    assert tree["posterior"]["intercept"].dims == ("chain", "draw", *several)
    assert tree["posterior"]["kernel"].values.tolist() == list(model.kernel_names_)
    if several:
        assert tree["posterior"]["class"].values.tolist() == list(model.classes_)
    assert tree.attrs["elbo"] == model.elbo_


def test_kernels_are_selected_by_name(binary_model):
    weights = to_datatree(binary_model, 4000, random_state=0)["posterior"]["kernel_weights"]
    name = "gaussian(width=1) · größe"
    expected = binary_model.kernel_weights_[list(binary_model.kernel_names_).index(name)]
    assert float(weights.sel(kernel=name).mean()) == pytest.approx(expected, abs=0.02)


def test_elbo_is_the_history(binary_model, several_model):
    elbo = to_datatree(binary_model, 5)["sample_stats"]["elbo"]
    assert elbo.dims == ("iteration",)
    np.testing.assert_array_equal(elbo.values, binary_model.elbo_history_)
    assert elbo["iteration"].values[0] == 1
    elbo = to_datatree(several_model, 5)["sample_stats"]["elbo"]
    for label, history in zip(several_model.classes_, several_model.elbo_history_, strict=True):
        row = elbo.sel({"class": label}).values
        np.testing.assert_array_equal(row[: len(history)], history)
        assert np.all(np.isnan(row[len(history) :]))


def test_constants_are_views_and_label_sides(binary_model, several_model, regression_model, features):
    constants = to_datatree(binary_model, 5)["constant_data"]
    assert constants["view"].values.tolist() == binary_model.kernel_bank_.kernel_views_
    np.testing.assert_array_equal(
        constants["side"], np.where(features["größe"] > 0, -1, 1)
    )  # "big" < "small"
    sides = to_datatree(several_model, 5)["constant_data"]["side"]
    np.testing.assert_array_equal(sides.sel({"class": "big"}), np.where(features["größe"] > 0.5, 1, -1))
    assert set(to_datatree(regression_model, 5)["constant_data"].data_vars) == {"view"}


def test_precomputed_regression_has_no_constants(features):
    stack = KernelBank("rbf").fit_transform(features)
    tree = to_datatree(BEMKLRegressor("precomputed").fit(stack, features["größe"]), 5)
    assert set(tree.children) == {"posterior", "sample_stats"}


def test_arviz_reads_it(binary_model):
    tree = to_datatree(binary_model, 20_000, random_state=0)
    interval = arviz_stats.eti(tree, var_names=["kernel_weights"], prob=0.94)["kernel_weights"].values
    expected = binary_model.kernel_weights_[:, None] + np.outer(
        binary_model.kernel_weights_std_, [-1.881, 1.881]
    )
    np.testing.assert_allclose(interval, expected, atol=0.09 * binary_model.kernel_weights_std_.max())


@pytest.mark.parametrize("name", MODELS)
def test_netcdf_round_trip_is_identical(name, request, tmp_path):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 20, random_state=1)
    save_posterior(tree, tmp_path / "tree.nc")
    again = load_posterior(tmp_path / "tree.nc")
    xarray.testing.assert_identical(again, tree)
    save_posterior(model, tmp_path / "model.nc", n_draws=20, random_state=1)
    draws = load_posterior(tmp_path / "model.nc")["posterior"].to_dataset()
    xarray.testing.assert_equal(draws, tree["posterior"].to_dataset())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.nc", "tree.nc"]


def test_interrupted_writing_leaves_the_old_file(binary_model, tmp_path, monkeypatch):
    (tmp_path / "posterior.nc").write_text("old")

    def interrupted(self, path, **kwargs):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(xarray.DataTree, "to_netcdf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_posterior(binary_model, tmp_path / "posterior.nc", n_draws=2)
    assert [path.name for path in tmp_path.iterdir()] == ["posterior.nc"]
    assert (tmp_path / "posterior.nc").read_text() == "old"


def test_unreadable_files_are_named(binary_model, tmp_path):
    with pytest.raises(FileNotFoundError, match="`path` must be a NetCDF file; there is none"):
        load_posterior(tmp_path / "nowhere.nc")
    path = tmp_path / "posterior.nc"
    save_posterior(binary_model, path, n_draws=50)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"`path` is not a readable NetCDF file: .*posterior.nc"):
        load_posterior(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="`path` is not a readable NetCDF file"):
        load_posterior(path)
