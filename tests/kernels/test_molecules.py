"""Fingerprints of molecules beside RDKit's own, and rows that are none."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import MorganFingerprint, Tanimoto

SMILES = ["CCO", "CCCO", "c1ccccc1O", "c1ccccc1N", "CC(=O)O", "CC(=O)OC", "CCN", "CCCN"]
BAD = {
    "a ring that is not closed": ("C1CC", "row 2 is 'C1CC': RDKit does not parse it"),
    "an impossible atom": ("C(C)(C)(C)(C)C", "row 2 .* RDKit does not parse it"),
    "nothing": ("", "row 2 is '': it is empty"),
    "spaces": ("  ", "row 2 .*: it is empty"),
    "missing": (None, "row 2 is None: it is of type NoneType"),
    "a number": (3.5, "row 2 is 3.5: it is of type float"),
    "a long one": ("C" * 10_001, "row 2 .*: it has 10001 characters"),
    "a deep one": ("C(" * 201 + "C" + ")" * 201, "row 2 .*: it has 201 branches inside of each other"),
}


@pytest.fixture
def rdkit():
    return pytest.importorskip("rdkit.Chem", reason="an extra", exc_type=ImportError)


def test_kernel_is_the_similarity_of_rdkit(rdkit):
    from rdkit import DataStructs
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=1, fpSize=512)
    own = [generator.GetFingerprint(rdkit.MolFromSmiles(text)) for text in SMILES]
    expected = [DataStructs.BulkTanimotoSimilarity(one, own) for one in own]
    bits = MorganFingerprint(radius=1, n_bits=512, counts=False).fit_transform(SMILES)
    np.testing.assert_allclose(Tanimoto()(bits, bits), expected, atol=1e-12)
    counts = MorganFingerprint(radius=0).fit_transform(["CCCO"])
    assert sorted(counts[counts > 0].tolist()) == [1.0, 1.0, 2.0]  # CH3, OH and twice CH2


def test_pipelines_predict_for_other_molecules_and_survive_a_file(rdkit, tmp_path):
    X = pd.DataFrame({"smiles": SMILES * 3, "logp": np.linspace(-1.0, 1.0, 24)})
    y = X["smiles"].str.contains("N")
    encode = make_column_transformer((MorganFingerprint(n_bits=128), "smiles"), remainder="passthrough")
    views = {"fingerprint": slice(0, 128), "numbers": [128]}
    bank = KernelBank({"fingerprint": Tanimoto(), "numbers": "linear"}, views=views)
    model = make_pipeline(encode, UniformMKLClassifier(bank)).fit(X, y)
    new = pd.DataFrame({"smiles": ["CCCCN", "CCCCO"], "logp": [0.0, 0.0]})
    assert model.predict(new).tolist() == [True, False]
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert list(encode.fit(X).get_feature_names_out())[-2:] == [
        "morganfingerprint__morgan127",
        "remainder__logp",
    ]


@pytest.mark.parametrize("what", BAD)
def test_rows_that_are_no_molecules_are_named(what, rdkit, capfd):
    smiles, message = BAD[what]
    model = MorganFingerprint().fit(SMILES)
    for call in (model.transform, MorganFingerprint().fit, MorganFingerprint().fit_transform):
        with pytest.raises(ValueError, match=rf"`X` must hold molecules as SMILES.*{message}"):
            call(np.array([*SMILES[:2], smiles], dtype=object))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"radius": -1}, SMILES, "`radius` must be a whole number >= 0; got -1"),
        ({"n_bits": 0}, SMILES, "`n_bits` must be a whole number >= 1; got 0"),
        ({"counts": 1}, SMILES, "`counts` must be True or False; got 1"),
        ({}, np.array([SMILES, SMILES]), r"`X` must be one column .* got \(2, 8\)"),
        ({}, [SMILES, SMILES], r"row 0 is .*: it is of type list"),
        ({}, [], r"`X` must be one column .* got \(0,\)"),
    ],
)
def test_parameters_and_tables(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        MorganFingerprint(**parameters).fit(X)


def test_the_line_that_installs_rdkit(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ImportError, match=r'pip install "bayesmkl\[molecules\]"'):
        MorganFingerprint().fit(SMILES)
