"""What `benchmarks/survival.py` tunes other models by, splits, and says of calibration."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from _survival_data import N_FOLDS, SIMULATED, study_of
from _survival_models import held_out_likelihood, partial_likelihood
from survival import calibrated, cell, report


@pytest.fixture(scope="module")
def study():
    return study_of(SIMULATED, 90)


def test_partial_likelihood_is_that_of_statsmodels(rng):
    time, event = np.ceil(rng.exponential(5.0, size=40)), rng.random(40) < 0.6
    risk, train = rng.normal(size=40), np.arange(25)
    y = np.rec.fromarrays([event, time], names="event,time")

    def expected(rows):
        model = PHReg(time[rows], risk[rows, None], status=event[rows], ties="breslow")
        return model.loglike(np.ones(1))

    everyone = expected(np.arange(40))
    assert partial_likelihood(y, risk) == pytest.approx(everyone, abs=1e-10)
    assert held_out_likelihood(y, risk, train) == pytest.approx(everyone - expected(train), abs=1e-10)


def test_three_splits_hold_everyone_out_once(study):
    for first in (0, N_FOLDS):
        splits = [study.split(first + number) for number in range(N_FOLDS)]
        assert sorted(np.concatenate([split.test for split in splits])) == list(range(90))
        for split in splits:
            assert len(split.y) == 60
            assert split.y["event"].mean() == pytest.approx(study.y["event"].mean(), abs=0.02)
            np.testing.assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
    assert not np.array_equal(study.split(0).test, study.split(N_FOLDS).test)


def test_cells_are_judged_and_reported(study):
    rows = [cell(SIMULATED, study, number, "Kaplan-Meier") for number in range(N_FOLDS)]
    assert all((row["harrell"], row["uno"]) == (0.5, 0.5) and not row["warnings"] for row in rows)
    judged = calibrated(study, rows)
    assert (judged["repetitions"], judged["bins_inside"]) == (1, judged["bins"])
    assert calibrated(study, rows[:2]) is None
    text, numbers = report(rows, {SIMULATED: study})
    assert "| simulated: Kaplan-Meier |" in text
    assert numbers["studies"][SIMULATED]["Kaplan-Meier"]["splits"] == N_FOLDS
    assert numbers["claims"] == []
