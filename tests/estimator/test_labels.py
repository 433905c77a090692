"""Labels as targets: classes, several labels per sample, samples without one, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_expit
from scipy.stats import norm

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank
from bayesmkl.bemkl import BEMKLMultitaskClassifier, BEMKLOrdinalClassifier
from bayesmkl.gp import GPMKLOrdinalClassifier, Marginal
from bayesmkl.kernels import Linear
from bayesmkl.outcomes.labels import class_targets, split_labels


def test_labels_are_split_from_marks():
    split = split_labels(np.array([5, -1, 7, 5, -1, 9]), -1)
    np.testing.assert_array_equal(split.labeled, [0, 2, 3, 5])
    np.testing.assert_array_equal(split.classes, [5, 7, 9])
    np.testing.assert_array_equal(split.targets, [[1, -1, 1, -1], [-1, 1, -1, -1], [-1, -1, -1, 1]])
    scores = np.eye(3)[[1, 2, 1, 1, 0, 1]]  # those of labeled samples are overruled
    np.testing.assert_array_equal(split.transduce(scores), [5, 9, 7, 5, 5, 9])


def test_text_labels_and_no_mark():
    split = split_labels(["a", "?", "b"], "?")
    np.testing.assert_array_equal(split.transduce(np.array([[-1.0], [2.0], [1.0]])), ["a", "b", "b"])
    everything = split_labels([-1, 1, -1], None)
    np.testing.assert_array_equal(everything.labeled, [0, 1, 2])
    np.testing.assert_array_equal(everything.classes, [-1, 1])


@pytest.mark.parametrize("y", [[-1, 1, 1, -1], [-1, -1, -1]])
def test_two_labels_must_remain(y):
    with pytest.raises(
        ValueError, match=r"two labels besides `unlabeled_label`=-1.*mark unlabeled samples by"
    ):
        split_labels(y, -1)


def test_targets_of_classes_and_of_label_matrices():
    classes = class_targets(["b", "a", "b", "a", "c", "c"])
    np.testing.assert_array_equal(classes.classes, ["a", "b", "c"])
    np.testing.assert_array_equal(classes.targets[0], [-1, 1, -1, 1, -1, -1])
    np.testing.assert_array_equal(classes.targets.sum(axis=0), np.full(6, -1.0))  # one class each
    labels = class_targets(np.array([[1, 0], [0, 0], [1, 1], [0, 1]]))
    assert labels.is_multilabel
    assert not classes.is_multilabel
    np.testing.assert_array_equal(labels.classes, [0, 1])
    np.testing.assert_array_equal(labels.targets, [[1, -1, 1, -1], [-1, -1, 1, 1]])


def test_unlabeled_samples_have_the_target_zero():
    split = class_targets([7, -1, 3, -1], unlabeled_label=-1)
    np.testing.assert_array_equal(split.classes, [3, 7])
    np.testing.assert_array_equal(split.targets, [[1, 0, -1, 0]])
    ordinary = class_targets([1, -1, 1, -1])
    np.testing.assert_array_equal(ordinary.targets, [[1, -1, 1, -1]])


def test_a_rare_class_among_several_is_a_warning():
    with pytest.warns(UserWarning, match=r"`y` holds only one sample of 'c', 'd'.*Merge"):
        targets = class_targets(list("aabbcd"))
    assert targets.targets.shape == (4, 6)


def test_a_label_of_all_samples_is_a_warning():
    with pytest.warns(UserWarning, match=r"all 3 samples for the labels \[0\].*Leave"):
        targets = class_targets(np.array([[1, 0], [1, 1], [1, 0]]))
    np.testing.assert_array_equal(targets.targets, [[1, 1, 1], [-1, 1, -1]])


# ------------------------------------------------------------------------------------------------- log probabilities

ROWS = np.random.default_rng(3).normal(size=(400, 2))
GRADES = np.digitize(ROWS[:40, 0], [-0.5, 0.5])
LABELS = (ROWS > 0.0).astype(int)
FITS = {
    "two classes": (GPMKLClassifier, GRADES > 0),
    "three classes": (GPMKLClassifier, GRADES),
    "labels": (GPMKLClassifier, LABELS[:40]),
    "grades": (GPMKLOrdinalClassifier, GRADES),
    "two classes by vb": (BEMKLClassifier, GRADES > 0),
    "three classes by vb": (BEMKLClassifier, GRADES),
    "labels by vb": (BEMKLClassifier, LABELS[:40]),
    "grades by vb": (BEMKLOrdinalClassifier, GRADES),
    "tasks": (BEMKLMultitaskClassifier, LABELS),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "y"), FITS.values(), ids=FITS)
def test_log_probabilities(kind, y):
    quick = {"inference": Marginal(n_points=100, n_draws=100)} if kind.__name__.startswith("GPMKL") else {}
    model = kind(KernelBank(Linear()), **quick).fit(ROWS[: len(y)], y)
    rows = np.array([[3e3, 0.0], [-3e3, 0.0], [0.5, -0.2]])
    p, log_p = model.predict_proba(rows), model.predict_log_proba(rows)
    assert type(log_p) is type(p)
    np.testing.assert_allclose(np.exp(log_p), p, rtol=1e-12)
    if kind is BEMKLOrdinalClassifier:
        mean, std = model.predict_latent(rows, return_std=True)
        below = norm.logcdf((model.cut_points_[0] - mean) / std)
        np.testing.assert_allclose(log_p[:, 0], below, rtol=1e-9)
    elif y is LABELS:  # whose probabilities round to 1
        sides = np.stack(
            [log_expit(-model.decision_function(rows)), log_expit(model.decision_function(rows))]
        )
        assert np.max(p) == 1.0
        np.testing.assert_allclose(np.transpose(log_p, (2, 1, 0)), sides, rtol=1e-9)
