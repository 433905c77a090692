"""Labels as targets: classes, several labels per sample, samples without one, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl._estimator import class_targets, split_labels


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


@pytest.mark.parametrize(
    ("y", "mark", "message"),
    [
        ([0, 0, 1, 0], None, r"at least two samples of every class; got one of 1, of 4 samples"),
        ([-1, 1, 1], -1, r"exactly two labels besides `unlabeled_label`=-1.*got \[1\]"),
        ([-1, 0, 1, 2], -1, r"exactly two labels besides `unlabeled_label`=-1.*got \[0, 1, 2\].*recode"),
        ([-1, -1, -1], -1, r"got \[\]"),
        ([3, 3, 3], None, "at least two classes"),
        ([[1, 0], [1, 1], [0, 0]], -1, "`unlabeled_label` is for two classes"),
    ],
)
def test_labels_that_cannot_be_learned(y, mark, message):
    with pytest.raises(ValueError, match=f"(?s)`y`.*{message}|{message}"):
        class_targets(np.array(y), unlabeled_label=mark)


def test_a_rare_class_among_several_is_a_warning():
    with pytest.warns(UserWarning, match=r"`y` holds one sample only of 'c', 'd'.*Merge"):
        targets = class_targets(list("aabbcd"))
    assert targets.targets.shape == (4, 6)


def test_a_label_of_all_samples_is_a_warning():
    with pytest.warns(UserWarning, match=r"all 3 samples for the labels \[0\].*Leave"):
        targets = class_targets(np.array([[1, 0], [1, 1], [1, 0]]))
    np.testing.assert_array_equal(targets.targets, [[1, 1, 1], [-1, 1, -1]])
