"""Annotated matrices as tables: values, views, absent samples, what is refused; the packages where they are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import from_mudata
from bayesmkl.kernels import Linear

RNG = np.random.default_rng(0)
SAMPLES = [f"s{i}" for i in range(8)]


def _annotated(values, samples, names, obs=None, var=None):
    """Stand in for anndata.AnnData, of which these attributes are read."""
    obs = pd.DataFrame(obs, index=samples)
    var = pd.DataFrame(var, index=names)
    return SimpleNamespace(X=values, obs=obs, var=var, obs_names=obs.index, var_names=var.index)


COUNTS = RNG.poisson(1.5, size=(8, 3)).astype(float)
PROTEINS = RNG.exponential(size=(5, 2))
RNA = _annotated(
    sparse.csr_matrix(COUNTS),
    SAMPLES,
    ["TP53", "BAX", "ATM"],
    {"sick": [0, 1] * 4, "age": np.arange(8.0)},
    {"type": ["genes", "genes", "peaks"]},
)
PROTEIN = _annotated(PROTEINS, SAMPLES[:1:-1][:5], ["CD4", "CD8"], var={"type": ["surface", "surface"]})
BOTH = {"rna": RNA, "protein": PROTEIN}


def test_modalities_become_views_and_absent_samples_nan():
    table = from_mudata(BOTH, "sick", covariates=["age"])
    assert list(table.data.index) == SAMPLES
    np.testing.assert_array_equal(table.data[table.views["rna"]], COUNTS)
    proteins = table.data[table.views["protein"]]
    np.testing.assert_array_equal(proteins.loc[PROTEIN.obs_names], PROTEINS)
    np.testing.assert_array_equal(
        proteins.isna().all(axis=1), [True, True, True, False, False, False, False, False]
    )
    np.testing.assert_array_equal(table.data["age"], np.arange(8.0))
    np.testing.assert_array_equal(table.target, [0, 1] * 4)
    assert table.feature_names == list(table.data.columns)
    bank = KernelBank(Linear(), table.views, missing_views="keep").fit(table.data.astype(float))
    np.testing.assert_array_equal(bank.present_[1], proteins.notna().all(axis=1))


def test_a_dict_chooses_modalities_and_their_order():
    table = from_mudata({"protein": PROTEIN, "rna": RNA})
    assert list(table.views) == ["protein", "rna"]
    assert list(table.data.index) == [*PROTEIN.obs_names, "s0", "s1", "s2"]
    np.testing.assert_array_equal(table.data.loc[SAMPLES, ["rna:TP53", "rna:ATM"]], COUNTS[:, [0, 2]])
    assert from_mudata(RNA).views == {"X": ["X:TP53", "X:BAX", "X:ATM"]}


def test_sparse_matrices_of_open_files_are_read():
    in_file = SimpleNamespace(to_memory=lambda: sparse.csr_matrix(COUNTS))
    table = from_mudata(SimpleNamespace(**{**vars(RNA), "X": in_file}))
    np.testing.assert_array_equal(table.data, COUNTS)


TWICE = _annotated(COUNTS[:2], ["a", "a"], ["x", "y", "z"])
CLASH = _annotated(COUNTS[:2], ["a", "b"], ["x", "y", "z"], {"rna:x": [1.0, 2.0]}, {"kind": ["u", None, "u"]})
EMPTY = _annotated(COUNTS[:2], ["a", "b"], ["x", "y", "z"])
EMPTY.X = None
UNKNOWN = _annotated(COUNTS[:2], ["a", "b"], ["x", "y", "z"], {"sick": [1.0, np.nan]})
WRONG = [
    (
        lambda: from_mudata(COUNTS),
        TypeError,
        "`mdata` must be a MuData, an AnnData or .*; got ndarray",
    ),
    (lambda: from_mudata({}), TypeError, "must be a MuData"),
    (lambda: from_mudata({"rna": COUNTS}), TypeError, r"`mdata\['rna'\]` must be an AnnData; got ndarray"),
    (
        lambda: from_mudata(BOTH, "ill"),
        ValueError,
        "`target` must name columns .* got 'ill', which is there 0",
    ),
    (lambda: from_mudata(BOTH, covariates=["sex"]), ValueError, "`covariates` must name columns of `obs`"),
    (
        lambda: from_mudata(TWICE),
        ValueError,
        r"different obs_names .* 'a' comes .* rename them alike in all modalities",
    ),
    (lambda: from_mudata(BOTH, covariates="age"), TypeError, r"`covariates` must be a list .* Use \['age'\]"),
    (
        lambda: from_mudata({"rna": CLASH}, covariates=["rna:x"]),
        ValueError,
        "different names; 'rna:x' comes several",
    ),
    (
        lambda: from_mudata(BOTH, covariates=["age", "age"]),
        ValueError,
        "different names; 'age' comes several",
    ),
    (lambda: from_mudata({"rna": RNA, "raw": EMPTY}), ValueError, "`X` of 'raw' is None"),
    (lambda: from_mudata(UNKNOWN, "sick"), ValueError, "'sick' is missing for 1 of 2, such as 'b'"),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_annotated_matrix_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_table_that_does_not_fit_is_refused_before_it_is_made():
    wide = SimpleNamespace(X=None, obs_names=pd.RangeIndex(10**7), var_names=pd.RangeIndex(10**6), obs=None)
    with pytest.raises(MemoryError, match="10000000 samples and 1000000 variables"):
        from_mudata(wide)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_packages_themselves():
    anndata = pytest.importorskip("anndata", exc_type=ImportError)
    mudata = pytest.importorskip("mudata", exc_type=ImportError)
    parts = {name: anndata.AnnData(part.X, obs=part.obs, var=part.var) for name, part in BOTH.items()}
    mdata = mudata.MuData(parts)
    table, expected = from_mudata(mdata, "rna:sick", covariates=["rna:age"]), from_mudata(BOTH, "sick")
    same = table.data.loc[expected.data.index]
    pd.testing.assert_frame_equal(same[expected.feature_names], expected.data)
    np.testing.assert_array_equal(table.target[table.data.index.get_indexer(SAMPLES)], [0, 1] * 4)
    single = from_mudata(parts["rna"], "sick")
    model = BEMKLClassifier(KernelBank(Linear(), single.views)).fit(single.data, single.target)
    assert model.kernel_names_.tolist() == ["linear · X"]
