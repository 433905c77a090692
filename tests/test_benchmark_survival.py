"""What `benchmarks/survival.py` tunes other models by, splits, and says of calibration."""

from __future__ import annotations

import numpy as np
import pytest
from _survival_models import held_out_likelihood, partial_likelihood
from statsmodels.duration.hazard_regression import PHReg


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
