"""Malformed files and odd options on the command line: some cases of `benchmarks/fuzz.py`, and how it judges them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fuzz

pytestmark = [pytest.mark.family("malformed input of the command line"), pytest.mark.heavy]

N_QUICK = 70


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return fuzz.Bench(tmp_path_factory.mktemp("bench"))


# Cases that failed once, by family.
MENDED = {
    "csv: fit": [74],  # a column of numbers with 400 digits
    "csv: compare": [10],  # all fits of a grid fail
    "parquet: fit": [179],  # classes of 1e308
    "model.skops: predict": [98, 116, 124],  # numbers that are not finite
    "earlier folder: compare": [66, 75, 100, 101],  # tables in place of numbers
}


CASES = [
    *fuzz.cases(N_QUICK),
    *((family, number) for family, numbers in MENDED.items() for number in numbers),
]


@pytest.mark.parametrize(("family", "number"), CASES)
def test_malformed_input_ends_in_a_result_or_a_message(family, number, bench):
    outcome = fuzz.run_case(bench, family, number)
    assert not outcome.fault, f"{outcome.fault}\n{outcome.said}"


def judged(
    exit_code=0, exception=None, output="fine", stderr="fine", words=("predict",), warned=(), folder=None
):
    result = SimpleNamespace(exit_code=exit_code, exception=exception, output=output, stderr=stderr)
    case = fuzz.Case(list(words), folder / "out")
    return fuzz._fault(case, result, list(warned), folder, set())


def test_faults_are_seen(tmp_path):
    """Every way in which a command can end badly is one that the judge knows."""
    (tmp_path / "out").write_text("x")
    assert judged(folder=tmp_path) == ""
    assert "KeyError" in judged(1, KeyError("x"), folder=tmp_path)
    assert judged(1, SystemExit(1), output="Traceback (most recent", folder=tmp_path) == "a traceback"
    assert "code" in judged(-9, SystemExit(-9), folder=tmp_path)
    assert "warning" in judged(warned=["divide by zero"], folder=tmp_path)
    assert judged(2, SystemExit(2), stderr=" ", folder=tmp_path) == "no message"
    assert "left" in judged(2, SystemExit(2), folder=tmp_path)
    (tmp_path / ".out.1234.part").write_text("x")
    assert "half-written" in judged(folder=tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    assert "wrote nothing" in judged(folder=tmp_path)
    assert judged(2, SystemExit(2), folder=tmp_path) == ""
