"""The name table: true sizes, unambiguous names."""

from __future__ import annotations

import pytest
from in_turn import together

from bayesmkl.datasets import fetch, list_datasets
from bayesmkl.datasets._columns import CATEGORICAL, feature_names
from bayesmkl.datasets._names import AMBIGUOUS
from bayesmkl.datasets._table import TABLE


@together
@pytest.mark.parametrize("entry", TABLE.values(), ids=list(TABLE))
def test_entries_are_consistent(entry):
    if entry.classes:
        assert sum(count for _, _, count in entry.classes) == entry.n_samples
        labels = [label for label, _, _ in entry.classes]
        assert labels == sorted(set(labels))
    names = feature_names(entry.name)
    if names is not None:
        assert len(names) == len(set(names)) == entry.n_features
        assert set(CATEGORICAL.get(entry.name, [])) <= set(names)
    if entry.n_train:
        test_counts = [
            count - train for (_, _, count), train in zip(entry.classes, entry.train_counts, strict=True)
        ]
        assert min(test_counts) > 0
    assert entry.source in list_datasets().source.tolist()


def test_five_breast_and_diabetes_sets_are_five_things():
    sizes = list_datasets()[["samples", "features"]]
    names = ["diabetes", "pima", "breast_wisconsin", "breast_ljubljana", "wdbc"]
    assert [tuple(sizes.loc[name]) for name in names] == [(442, 10), (768, 8), (683, 9), (277, 9), (569, 30)]


def test_table_prints_on_a_terminal_of_100_columns():
    text = list_datasets().to_string()
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "683x10 LD-MKL" in text


@pytest.mark.parametrize(
    ("name", "could_mean"),
    [
        ("breast", ["wdbc", "breast_wisconsin", "breast_ljubljana", "wpbc"]),
        ("breast-cancer", ["wdbc", "breast_wisconsin", "breast_ljubljana"]),
        ("diabetis", ["pima", "diabetes"]),
        ("liver", ["bupaliver"]),
        ("Heart", ["heart_statlog"]),
        ("mushroom", ["mushrooms"]),
    ],
)
def test_ambiguous_names_say_what_they_could_mean(name, could_mean):
    with pytest.raises(ValueError, match=r"`name` must be an exact data set name") as error:
        fetch(name)
    for candidate in could_mean:
        assert f'"{candidate}"' in str(error.value)


@pytest.mark.parametrize(("name", "close"), [("sonarr", "sonar"), ("WDBC", "wdbc"), (7, "usps")])
def test_unknown_names_suggest_known_ones(name, close):
    with pytest.raises(ValueError, match=f'list_datasets.*"{close}"'):
        fetch(name)


def test_ambiguous_names_are_no_names():
    assert not set(AMBIGUOUS) & set(TABLE)
    assert all(candidate in TABLE for names in AMBIGUOUS.values() for candidate in names)
