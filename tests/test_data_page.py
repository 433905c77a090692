"""Blocks of the guides that read files, or need libraries that are no extras of the tests, on small data."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from bayesmkl import GPMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.datasets import from_mudata
from bayesmkl.kernels import FromDistance, Linear, SeriesDistance
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import view_table

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guide"
PAGE = GUIDE / "data.md"
N = 24
QUICK = partial(GPMKLClassifier, inference=Marginal(n_points=100, n_draws=100), random_state=0)


def run(sign, **names):
    """Run the one block of the page that has `sign` in it and is not run with the others; return its names."""
    (code,) = (
        block
        for block in re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if sign in block
    )
    given = {
        "np": np,
        "pd": pd,
        "GPMKLClassifier": QUICK,
        "KernelBank": KernelBank,
        "FromDistance": FromDistance,
        "Linear": Linear,
        "make_column_transformer": make_column_transformer,
        "make_pipeline": make_pipeline,
        "save_model": save_model,
        **names,
    }
    exec(code, given)
    return given


def best_view(model):
    return view_table(model).sort_values("share")["view"].iloc[-1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_matrices_that_other_programs_write_as_files(folder, rng):
    """Samples in columns, in another order in each file, and more of them than there are in the table of samples."""
    samples = [f"s{i}" for i in range(N)]
    rna, protein = (
        pd.DataFrame(rng.normal(size=(n, N + 1)), [f"g{j}" for j in range(n)], [*samples, "more"])
        for n in (6, 3)
    )
    rna.to_csv("rna.csv")
    protein[protein.columns[::-1]].to_csv("protein.csv")
    outcome = pd.DataFrame({"responder": protein.loc["g0", samples] > 0}, samples)
    outcome.to_csv("colData.csv")
    found = run("colData.csv")
    assert found["X"].shape == (N, 9)
    np.testing.assert_allclose(found["X"]["protein:g0"], protein.loc["g0", samples])
    assert best_view(found["model"]) == "protein"


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of that library
def test_a_file_of_several_modalities(folder, rng):
    mudata = pytest.importorskip("mudata", reason="not among the extras", exc_type=ImportError)
    anndata = pytest.importorskip("anndata", reason="not among the extras", exc_type=ImportError)
    samples = np.array([f"s{i}" for i in range(N)])
    parts = {name: rng.normal(size=(N, n)) for name, n in (("rna", 6), ("protein", 3))}
    kept = {"rna": slice(None), "protein": slice(4, None)}  # four samples lack a modality
    made = mudata.MuData(
        {
            name: anndata.AnnData(
                part[kept[name]],
                pd.DataFrame(index=samples[kept[name]]),
                pd.DataFrame(index=[f"{name}{j}" for j in range(part.shape[1])]),
            )
            for name, part in parts.items()
        }
    )
    made.obs["responder"] = pd.Series(parts["rna"][:, 0] > 0, samples).astype(str)
    made.obs["age"] = pd.Series(rng.normal(60.0, 5.0, size=N), samples)
    made.write("multiome.h5mu")
    found = run("multiome.h5mu", mudata=mudata, from_mudata=from_mudata)
    assert found["table"].data.isna().any(axis=1).sum() == 4
    assert best_view(found["model"]) == "rna"


def test_series_of_different_lengths(rng):
    pytest.importorskip("tslearn.metrics", reason="an extra that the tests do without", exc_type=ImportError)
    y = np.arange(N) < N // 2
    pulses = [np.sin(np.linspace(0, (2 if late else 4) * np.pi, 20 + i % 5)) for i, late in enumerate(y)]
    found = run(
        "pulses",
        SeriesDistance=SeriesDistance,
        pulses=pulses,
        ages=rng.normal(size=N),
        doses=rng.normal(size=N),
        y=y,
    )
    assert best_view(found["model"][-1]) == "pulse"
    assert found["model"].score(found["X"], y) == 1.0


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of that library
def test_volumes_behind_masks(folder, rng):
    nibabel = pytest.importorskip("nibabel", reason="not among the extras")
    pytest.importorskip("nilearn.maskers", reason="not among the extras", exc_type=ImportError)
    tissue = rng.integers(0, 3, size=(5, 5, 5))
    for value, name in ((1, "grey"), (2, "white")):
        nibabel.save(nibabel.Nifti1Image((tissue == value).astype(np.uint8), np.eye(4)), f"{name}.nii.gz")
    y = np.arange(N) % 2 == 0
    volumes = [rng.normal(size=tissue.shape) + 2.0 * label * (tissue == 1) for label in y]
    scans = [nibabel.Nifti1Image(volume, np.eye(4)) for volume in volumes]
    found = run("nilearn.maskers", scans=scans, y=y)
    assert found["ends"] == [0, (tissue == 1).sum(), (tissue > 0).sum()]
    assert best_view(found["model"][-1]) == "grey"
    rows = found["model"][:1].transform(scans)
    np.testing.assert_array_equal(
        load_model("model.bayesmkl").predict_proba(rows), found["model"].predict_proba(scans)
    )


@pytest.mark.slow
def test_calibration_of_a_program_of_ones_own(capsys):
    """As many ranks as kernels and data sets, of fewer and shorter chains than those of the page."""
    text = (GUIDE / "numpyro.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL) if "ranks" in block)
    assert len([line for line in code.splitlines() if line]) <= 10
    before = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for many, few in (("num_samples=100)", "num_samples=3)"), ('"num_warmup": 500', '"num_warmup": 60')):
        assert many in code
        code = code.replace(many, few)
    exec(before + "from numpyro.infer import MCMC, NUTS\n" + code, {})
    counts = [int(n) for n in re.findall(r"\d+", capsys.readouterr().out.splitlines()[-1])]
    assert len(counts) == 5
    assert sum(counts) == 9
