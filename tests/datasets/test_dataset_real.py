"""The real sets, where a folder with the data files is at hand."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from scipy.stats import kstest

from bayesmkl.datasets import fetch, list_datasets, make_ringnorm, make_twonorm, make_waveform

pytestmark = pytest.mark.skipif(
    not os.environ.get("BAYESMKL_DATA"), reason="BAYESMKL_DATA names no folder with the data files"
)

SHAPES = {
    "wdbc": (569, 30, {-1: 357, 1: 212}),
    "iris": (150, 4, {0: 50, 1: 50, 2: 50}),
    "breast_wisconsin": (683, 9, {-1: 444, 1: 239}),
    "breast_ljubljana": (277, 9, {-1: 196, 1: 81}),
    "bupaliver": (345, 6, {-1: 200, 1: 145}),
    "pima": (768, 8, {-1: 500, 1: 268}),
    "heart_statlog": (270, 13, {-1: 150, 1: 120}),
    "ionosphere": (351, 33, {-1: 126, 1: 225}),
    "sonar": (208, 60, {-1: 97, 1: 111}),
    "australian": (690, 14, {-1: 383, 1: 307}),
    "ecoli": (336, 7, {0: 143, 1: 77, 2: 2, 3: 2, 4: 35, 5: 20, 6: 5, 7: 52}),
    "glass": (214, 9, {1: 70, 2: 76, 3: 17, 5: 13, 6: 9, 7: 29}),
    "wpbc": (194, 33, {-1: 148, 1: 46}),
    "german_numeric": (1000, 24, {-1: 300, 1: 700}),
    "mushrooms": (8124, 112, {-1: 4208, 1: 3916}),
    "a9a": (48842, 123, {-1: 37155, 1: 11687}),
    "mfeat": (2000, 649, dict.fromkeys(range(10), 200)),
    "usps": (9298, 256, dict(enumerate([1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821]))),
    "banana": (5300, 2, {-1: 2924, 1: 2376}),
    "twonorm": (7400, 20, {-1: 3697, 1: 3703}),
    "ringnorm": (7400, 20, {-1: 3736, 1: 3664}),
    "waveform": (5000, 21, {-1: 3353, 1: 1647}),
    "titanic": (2201, 3, {-1: 1490, 1: 711}),
    "thyroid": (215, 5, {-1: 150, 1: 65}),
    "splice": (3175, 60, {-1: 1648, 1: 1527}),
    "flare": (1066, 11, {"B": 147, "C": 211, "D": 239, "E": 95, "F": 43, "H": 331}),
    "image": (2310, 18, {-1: 990, 1: 1320}),
}


def read(name, **options):
    with warnings.catch_warnings():
        if name == "australian":  # some copies have lost decimal points
            warnings.simplefilter("ignore", UserWarning)
        return fetch(name, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_shape_and_class_counts(name):
    n_samples, n_features, counts = SHAPES[name]
    bunch = read(name)
    assert bunch.data.shape == (n_samples, n_features)
    labels, found = np.unique(bunch.target, return_counts=True)
    assert dict(zip(labels.tolist(), found.tolist(), strict=True)) == counts
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == n_features
    assert len(bunch.target_names) == len(counts)


def test_every_set_of_the_table_is_covered():
    assert set(list_datasets().index) - set(SHAPES) == {"wine", "digits", "diabetes"}


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


def test_column_meanings():
    image = fetch("image", as_frame=True)
    sky = image.data[image.target_multiclass == "sky"]
    assert sky.intensity_mean.mean() > 2 * image.data.intensity_mean.mean()
    colors = image.data[["rawred_mean", "rawblue_mean", "rawgreen_mean"]].mean(axis=1)
    np.testing.assert_allclose(colors, image.data.intensity_mean, atol=1e-3)
    heart = fetch("heart_statlog", as_frame=True).data
    assert heart.age.between(29, 77).all()
    assert set(heart.thal) == {3, 6, 7}
    wpbc = fetch("wpbc", as_frame=True).data
    assert np.corrcoef(wpbc.mean_radius**2, wpbc.mean_area)[0, 1] > 0.98
    assert (wpbc.worst_radius >= wpbc.mean_radius - 1e-9).mean() > 0.99
