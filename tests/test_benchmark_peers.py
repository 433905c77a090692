"""Rows of the comparison with peers: what is kept, what is not run, when a score is reached."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("peers")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def row():
    return {"set": "ringnorm", "n": 500, "task": "classification", "device": "cpu", "method": "BEMKL"}


DONE = {"outcome": "done", "cpu": 10.0, "wall": 4.0, "score": 0.9, "loss": 0.2}


def test_the_last_result_is_kept(peers, row):
    first, second, none = row | DONE, row | DONE | {"loss": 0.1}, row | {"outcome": "stopped after 9 s"}
    assert peers.merged([none, first, second, none]) == [second]
    assert peers.merged([none, row | {"outcome": "not installed"}]) == [row | {"outcome": "not installed"}]
    assert len(peers.merged([first, first | {"device": "cuda"}])) == 2


def test_a_score_is_reached_where_the_loss_stays(peers, row):
    curve = [[1.0, 0.5, 0.8, 0.5], [2.0, 1.0, 0.9, 0.201], [3.0, 1.5, 0.9, 0.25], [4.0, 2.0, 0.9, 0.2015]]
    report = importlib.import_module("_peer_report")
    assert report.to_the_score(row | DONE | {"curve": curve}) == 4.0
    assert report.to_the_score(row | DONE | {"curve": curve, "device": "cuda"}) == 2.0
    assert report.to_the_score(row | DONE) == 10.0
    assert report.to_the_score({key: value for key, value in (row | DONE).items() if key != "loss"}) == 10.0


@pytest.mark.parametrize(
    ("n", "limit", "memory", "expected"),
    [
        (5000, 20_000, 100, ""),
        (5000, 9000, 100, "not run: 1e+04 s estimated"),
        (5000, 20_000, 1, "not run: 2.4 GB estimated"),
    ],
)
def test_what_takes_too_long_is_not_run(peers, row, n, limit, memory, expected):
    method = peers.METHODS["BEMKL"]
    data = argparse.Namespace(y=np.empty(n), views=[[0], [1]], widths=[1.0, 2.0, 4.0, 8.0])
    options = argparse.Namespace(limit=limit, memory=memory, device="cpu")
    assert peers.refused(method, row | {"n": n}, data, [row | DONE], options) == expected
    failed = row | {"outcome": "stopped after 9 s"}
    generous = argparse.Namespace(limit=1e9, memory=100, device="cpu")
    assert peers.refused(method, row | {"n": n}, data, [failed], generous).startswith("not run: a smaller")


def test_scores_are_those_of_the_definitions(peers):
    data = argparse.Namespace(regression=False, y_test=np.array([1.0, 0.0, 1.0, 0.0]))
    found = peers._scores(data, np.array([1, 0, 0, 0]), np.array([0.8, 0.1, 0.4, 0.3]))
    assert found["score"] == 0.75
    assert found["loss"] == pytest.approx(-np.mean(np.log([0.8, 0.9, 0.4, 0.7])))
    data = argparse.Namespace(regression=True, y_test=np.array([1.0, -1.0]))
    found = peers._scores(data, np.array([0.5, -1.0]), np.array([1.0, 2.0]))
    assert found["score"] == pytest.approx(1.0 - 0.125)
    constant = 0.5 * np.log(2.0 * np.pi)
    assert found["loss"] == pytest.approx((0.125 + constant + np.log(2.0) + constant) / 2.0)


def test_both_sides_evaluate_the_same_kernels(peers):
    """What peers take as matrices are the kernels of the bank."""
    data = importlib.import_module("_peer_data").load("wdbc", 40)
    protocol, ours = importlib.import_module("_peer"), importlib.import_module("_peer_bayesmkl")
    problem = protocol.Problem(data.X, data.y, data.views, data.widths, False, "cpu")
    bank = ours._bank(problem).fit(data.X)
    expected = np.moveaxis(np.asarray(bank.transform(data.X_test[:5])), -1, 0)
    np.testing.assert_allclose(
        sorted(protocol.gaussian_kernels(problem, data.X_test[:5])[:, 0, 0]), sorted(expected[:, 0, 0])
    )
    assert np.allclose(data.X.mean(axis=0), 0.0)
    assert len(data.y) == 40
