"""The real sets, where a folder with the data files is at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from papers.uci import SETS, fetch

from bayesmkl.datasets import make_ringnorm, make_twonorm, make_waveform

pytestmark = pytest.mark.skipif(
    not os.environ.get("BAYESMKL_DATA"), reason="BAYESMKL_DATA names no folder with the data files"
)


@pytest.mark.filterwarnings("ignore:this copy of 'australian':UserWarning")
@pytest.mark.parametrize("name", SETS)
def test_every_set_is_the_published_one(name):
    bunch = fetch(name)
    assert bunch.data.shape == (SETS[name].n_samples, SETS[name].n_features)


@pytest.mark.parametrize("name", ["a9a", "usps"])
def test_published_parts(name):
    train, test = fetch(name, subset="train"), fetch(name, subset="test")
    sizes = {"a9a": (32561, 16281), "usps": (7291, 2007)}[name]
    assert (len(train.data), len(test.data)) == sizes


def test_encodings_of_the_papers():
    assert fetch("heart_statlog", one_hot=True).data.shape == (270, 28)
    assert fetch("wpbc").data[:, 1:].shape == (194, 32)
    assert fetch("splice", one_hot=True).data.shape == (3175, 240)


def test_rows_are_not_in_the_order_of_the_classes():
    for name in ("usps", "sonar", "mfeat"):
        target = fetch(name, return_X_y=True)[1]
        changes = np.count_nonzero(np.diff(target))
        assert changes > 0.4 * len(target)


@pytest.mark.parametrize("make", [make_twonorm, make_ringnorm, make_waveform])
def test_generators_draw_what_the_published_samples_hold(make):
    sample = make(20_000, random_state=0)
    published = fetch(sample.name)
    X = sample.data
    if sample.name == "ringnorm":  # published with columns of variance 1
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    classes = sample.get("target_multiclass", sample.target)
    published_classes = published.get("target_multiclass", published.target)
    for label in np.unique(classes):
        ours, theirs = X[classes == label], published.data[published_classes == label]
        pvalues = [kstest(ours[:, j], theirs[:, j]).pvalue for j in range(X.shape[1])]
        assert min(pvalues) > 1e-4
        tolerance = 6 * (1 / np.sqrt(len(theirs)) + 1 / np.sqrt(len(ours))) * ours.var(axis=0).max()
        np.testing.assert_allclose(np.cov(theirs.T), np.cov(ours.T), atol=tolerance)
