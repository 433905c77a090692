"""The papers' tables: protocols give the committed numbers, and their pieces do what the papers say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.io
from helpers import from_source
from papers import bemkl, core, localized, obmkl, primalmkl, published, samkl
from papers.lapmkl import lapmkl, tangent_distances
from papers.transductive import TransductiveSearch
from scipy.ndimage import gaussian_filter, shift
from scipy.spatial.distance import cdist

from bayesmkl import KernelBank
from bayesmkl.kernels import Gaussian


@from_source  # archives hold no results
@pytest.mark.heavy
@pytest.mark.parametrize(("dataset", "model"), [("clean", "UMKL"), ("kernels 0.3", "UMKL")])
def test_a_table_gives_the_committed_mean_and_goes_on_where_it_was(dataset, model, monkeypatch, tmp_path):
    monkeypatch.setattr(core, "CELLS", tmp_path)
    table = samkl.TABLES["samkl-synthetic"]
    (study, *_) = table.studies(None)
    small = table._replace(
        studies=lambda n: [
            study._replace(sets={dataset: study.sets[dataset]}, models={model: study.models[model]})
        ]
    )
    cells = core.run("small", small)
    committed = pd.read_csv(core.RESULTS / "samkl-synthetic.csv").set_index(["dataset", "model"])
    assert len(cells) == 20
    assert 100.0 * cells["accuracy"].mean() == pytest.approx(
        committed.loc[(dataset, model), "ours"], abs=0.01
    )
    monkeypatch.setattr(core, "measure", None)  # nothing is left to measure
    pd.testing.assert_frame_equal(core.run("small", small), cells)


def test_published_numbers_stand_beside_ours_in_their_unit():
    cells = pd.DataFrame(
        {"dataset": "pima", "model": "GMKL", "accuracy": [0.75, 0.77], "n_active_kernels": 5}
    )
    found = core.beside(primalmkl.TABLES["primalmkl-table2"], cells.assign(error=""))
    accuracy, kernels = found.to_dict("records")
    assert (accuracy["published"], accuracy["ours"], accuracy["splits"]) == (76.28, 76.0, 2)
    assert (kernels["published"], kernels["ours"]) == (5.5, 5.0)
    assert core.agreement(found)["within"].tolist() == [1]


def test_kernels_of_the_papers_by_their_formulas():
    X = np.random.default_rng(0).normal(size=(7, 3))
    squares = cdist(X, X, "sqeuclidean")
    stack = KernelBank(obmkl.gaussians(), normalize=None).fit_transform(X)
    np.testing.assert_allclose(stack[..., 2], np.exp(-squares / 20.0**2), rtol=1e-12)
    stack = KernelBank(primalmkl.gaussians(half=True), normalize=None).fit_transform(X)
    np.testing.assert_allclose(stack[..., 9], np.exp(-squares / (2 * primalmkl.WIDTHS[9] ** 2)), rtol=1e-9)
    stack = bemkl.paper_bank(1.0).fit_transform(X)
    np.testing.assert_allclose(stack[..., 4], np.exp(-squares / bemkl.WIDTHS[4] ** 2), rtol=1e-9)
    assert stack.shape[-1] == 13 * 4
    low, high = localized.feature_range("liver", 0.25)
    other = localized.BANK.fit_transform(X * high)
    np.testing.assert_allclose(other[..., 0], (0.25 * X @ X.T) ** 2, rtol=1e-9)
    np.testing.assert_allclose(other[..., 1], np.exp(-0.25 * squares), rtol=1e-9)
    assert low == -high


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_the_search_withholds_labels_and_takes_what_finds_them():
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 20)
    X = rng.normal(size=(40, 2)) + 2.0 * y[:, None]
    partly = np.where(np.arange(40) % 20 < 4, y, 0)
    model = lapmkl(KernelBank(Gaussian(width=1.0), normalize=None), gamma_intrinsic=0.0)
    widths = [{"kernels": KernelBank(Gaussian(width=w), normalize=None)} for w in (0.01, 1.0)]
    search = TransductiveSearch(model, widths, n_folds=4).fit(X, partly)
    assert search.best_params_ == widths[1]
    assert search.scores_[0] < search.scores_[1] == 1.0
    assert np.mean(search.predict(X) == y) > 0.95


def test_tangent_distances_ignore_small_shifts():
    image = gaussian_filter(np.random.default_rng(0).random((16, 16)), 2.0)
    images = np.stack([image, shift(image, (0.0, 0.3), mode="nearest")])
    plain = np.linalg.norm(images[0] - images[1])
    assert tangent_distances(images)[0, 1] < 0.5 * plain
    along = tangent_distances(images, ("shift x",))[0, 1]
    assert tangent_distances(images)[0, 1] <= along <= plain


def test_published_distances_become_kernels_by_their_training_mean(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(34, 3))
    names = ("D_colourgc", "D_shapegc", "D_texturegc", "D_hog", "D_hsv", "D_siftint", "D_siftbdy")
    distances = {name: cdist(X * (k + 1), X * (k + 1)) for k, name in enumerate(names)}
    folder = tmp_path / "flowers17"
    folder.mkdir()
    scipy.io.savemat(folder / "distancematrices17gcfeat06.mat", {n: distances[n] for n in names[:3]})
    scipy.io.savemat(folder / "distancematrices17itfeat08.mat", {n: distances[n] for n in names[3:]})
    parts = np.split(rng.permutation(34) + 1, [20, 25])
    sets = {f"{part}{k}": p for k in (1, 2, 3) for part, p in zip(("trn", "val", "tst"), parts, strict=True)}
    scipy.io.savemat(folder / "datasplits.mat", sets)
    monkeypatch.setenv("BAYESMKL_DATA", str(tmp_path))
    data = published.flowers17()
    assert (data.X.shape, len(np.unique(data.y)), len(data.splits)) == ((34, 34, 7), 17, 3)
    train, test = data.splits[0]
    assert (len(train), len(test)) == (25, 9)
    kernels = published.DistanceKernels().fit(data.X[np.ix_(train, train)])
    square = distances["D_hog"][np.ix_(train, train)]
    scale = square[~np.eye(25, dtype=bool)].mean()
    cross = kernels.transform(data.X[np.ix_(test, train)])[:, :, 3]
    np.testing.assert_allclose(cross, np.exp(-distances["D_hog"][np.ix_(test, train)] / scale), rtol=1e-12)
