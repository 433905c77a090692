"""Data reach every process as they are: types, values and names, and with them the splits."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GroupKFold

from bayesmkl._utils.content import ContentHasher
from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.study import Data, content_of, spool

N = 60
NUMBERS = np.random.default_rng(0).normal(size=(N, 2))
LABELS = (NUMBERS[:, 0] + np.random.default_rng(1).normal(size=N) > 0.0).astype(int)
OF_TEN = np.arange(N) * 7 % 20  # as text, 10 comes before 2
WORDS = np.array(["low", "middle", "high"], dtype=object)[np.arange(N) % 3]
FRAME = pd.DataFrame(
    {
        "number": NUMBERS[:, 0],
        "whole": OF_TEN.astype(np.int16),
        "word": WORDS,
        "mixed": np.where(np.arange(N) % 2, WORDS, OF_TEN.astype(object)),
        "kind": pd.Categorical(WORDS, categories=["low", "middle", "high"], ordered=True),
        "day": pd.Timestamp("2020-02-28", tz="Europe/Vienna") + pd.to_timedelta(OF_TEN, "D"),
        "absent": pd.array(np.where(OF_TEN > 3, OF_TEN, None), dtype="Int64"),
        "span": pd.period_range("2020-01", periods=N, freq="M"),
        7: np.float32(NUMBERS[:, 1]),
    },
    index=[f"sample {k}" for k in range(N)],
)
SETS = {
    "whole numbers as objects": (NUMBERS, LABELS, OF_TEN.astype(object)),
    "whole numbers": (NUMBERS, LABELS, OF_TEN),
    "text": (NUMBERS, LABELS, np.array([f"g{g}" for g in OF_TEN])),
    "text as objects": (NUMBERS, LABELS, np.array([f"g{g}" for g in OF_TEN], dtype=object)),
    "fractions as objects": (NUMBERS, LABELS, (OF_TEN / 2).astype(object)),
    "table": (FRAME, np.where(LABELS, "yes", "no").astype(object), OF_TEN.astype(object)),
    "objects": (FRAME[["number", "whole"]].to_numpy(dtype=object), np.where(LABELS, "yes", "no"), OF_TEN),
    "single precision": (np.asfortranarray(NUMBERS, dtype=np.float32), LABELS.astype(bool), OF_TEN),
}


FURTHER = {
    "numbers of one type as objects": (NUMBERS, LABELS, np.array(list(OF_TEN), dtype=object)),
    "objects of all kinds": (NUMBERS, LABELS, np.empty(N, dtype=object)),
    "labels of two levels": (
        pd.DataFrame(NUMBERS, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["view", None])),
        LABELS,
        None,
    ),
    "days as labels": (pd.DataFrame(NUMBERS, index=pd.Index(FRAME["day"])), LABELS, None),
}
FURTHER["objects of all kinds"][2][:] = [
    value for _ in range(N // 4) for value in ((1, "a"), [2.5, None], np.int8(3), float("nan"))
]


class Seen(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted to."""

    def __init__(self, power=1):
        self.power = power

    def fit(self, X, y):
        self.classes_, self.fitted_ = np.unique(y), ContentHasher()((X, np.asarray(y)))
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class OfWholeGroups(GroupKFold):
    """Takes no groups but those that the test gave."""

    def split(self, X, y=None, groups=None):
        if not any(type(groups[0]) is type(known[0]) for *_, known in SETS.values()):
            raise TypeError(f"groups are {type(groups[0])}")
        return super().split(X, y, groups)


def seen(model, X, y):
    """Return a number for what the model was fitted and tested on."""
    fitted = model.best_estimator_ if hasattr(model, "best_estimator_") else model
    return float(int(ContentHasher()((fitted.fitted_, X, np.asarray(y)))[:12], 16))


@pytest.mark.parametrize("name", SETS | FURTHER)
def test_what_is_written_for_other_processes_comes_back(name, tmp_path):
    data = Data(*(SETS | FURTHER)[name])
    ref = spool(data, tmp_path / "0")
    assert content_of(ref()) == content_of(data)
    assert type(ref().X) is type(data.X)
    if isinstance(data.X, pd.DataFrame):
        pd.testing.assert_frame_equal(ref().X, data.X)


def test_objects_that_no_file_keeps_are_refused(tmp_path):
    table = pd.DataFrame({"price": [Decimal(1), Decimal(2)]})
    with pytest.raises(
        TypeError, match=r"`X` holds Decimal, which no other process can be handed. Use `n_jobs=1`"
    ):
        spool(Data(table, np.arange(2)), tmp_path / "0")


def test_data_that_a_file_changes_are_refused(tmp_path, monkeypatch):
    data = Data(*SETS["table"])
    content = ContentHasher()(content_of(data))
    assert spool(data, tmp_path / "0", content).content == content
    monkeypatch.setattr(pd, "read_parquet", lambda file: pd.DataFrame({"column": WORDS}))
    with pytest.raises(TypeError, match="cannot be handed to other processes as they are"):
        spool(data, tmp_path / "1", content)


def test_two_processes_get_the_data_and_folds_that_one_has():
    models = {"seen": Seen(), "tuned": (Seen(), {"power": [1, 2]})}
    options = {"cv": GroupKFold(3), "inner_cv": OfWholeGroups(2), "scoring": {"seen": seen}}
    one = compare_models(models, datasets=SETS, **options)
    two = compare_models(models, datasets=SETS, n_jobs=2, **options)
    assert one.failures.empty
    pd.testing.assert_frame_equal(two.scores(), one.scores())
    assert one.scores()["seen"].nunique() > len(SETS)
