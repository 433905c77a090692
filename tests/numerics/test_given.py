"""What is no table in memory is refused by the name of its argument, with the call that makes one of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from sklearn.linear_model import LogisticRegression

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.evaluation import compare_models, evaluate_classifier
from bayesmkl.kernels import Gaussian

FRAME = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 12), "b": np.linspace(1.0, -1.0, 12) ** 2})
Y = np.repeat([0, 1], 6)


def dask_frame():
    return pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=2)


class Query:
    """What stands for a table in other libraries."""

    columns = ("a", "b")


class SparkFrame(Query):
    def toPandas(self):
        raise AssertionError("nobody asked")

    def collect(self):
        raise AssertionError("nobody asked")


FORMS = {
    "polars": (lambda: pl.from_pandas(FRAME).lazy(), TypeError, r"got a LazyFrame, .* Use `\.collect\(\)`\."),
    "Dask": (dask_frame, TypeError, r"got a DataFrame, .* Use `\.compute\(\)`\."),
    "Spark": (SparkFrame, TypeError, r"Use `\.toPandas\(\)`\."),
    "xarray": (lambda: xr.Dataset.from_dataframe(FRAME), TypeError, r"must be an array; got a Dataset: "),
    "a class": (lambda: pd.DataFrame, TypeError, r"must be an array; got the class DataFrame\."),
    "a dictionary": (lambda: {"a": [1.0], "b": [2.0]}, ValueError, r"must be an array; got \{'a'"),
    "dictionaries": (lambda: FRAME.to_dict("records"), TypeError, r"must hold numbers; got an entry \{'a'"),
    "a generator": (lambda: (row for row in FRAME.to_numpy()), ValueError, r"must be an array; got <generator"),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return UniformMKLClassifier().fit(FRAME, Y)


@pytest.mark.heavy
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_table_is_refused(form, model):
    make, kind, message = FORMS[form]
    calls = {
        "fit": lambda X: UniformMKLClassifier().fit(X, Y),
        "BEMKL": lambda X: BEMKLClassifier(intermediate_scale=1.0).fit(X, Y),
        "bank": lambda X: KernelBank().fit(X),
        "transform": lambda X: model.kernel_bank_.transform(X),
        "predict": model.predict,
        "kernel": lambda X: Gaussian(width=1.0)(X, X),
    }
    for call in calls.values():
        with pytest.raises(kind, match=f"^`X` {message if 'must' in message else '.*' + message}"):
            call(make())


@pytest.mark.parametrize("form", ["polars", "Dask", "Spark", "a class"])
def test_queries_are_refused_before_they_are_evaluated(form, model):
    make, kind, message = FORMS[form]
    for call in (
        lambda: compare_models({"uniform": UniformMKLClassifier()}, make(), Y),
        lambda: evaluate_classifier(LogisticRegression().fit(FRAME, Y), make(), Y),
    ):
        with pytest.raises(kind, match=f"^`X` .*{message}"):
            call()
    with pytest.raises(kind, match=f"^`y` .*{message}"):
        UniformMKLClassifier().fit(FRAME, make())


@pytest.mark.parametrize("make", [pa.Table.from_pandas, pl.from_pandas])
def test_other_tables_in_memory_are_taken(make, model):
    other = UniformMKLClassifier().fit(make(FRAME), Y)
    assert other.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(other.decision_function(make(FRAME)), model.decision_function(FRAME))
    with pytest.raises(ValueError, match="same order"):
        model.predict(make(FRAME[["b", "a"]]))
