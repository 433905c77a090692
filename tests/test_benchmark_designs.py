"""What `benchmarks/designs.py` computes of tasks beside multitask BEMKL."""

from __future__ import annotations

import _design_tasks
import numpy as np
import pytest
from _design_tasks import SETTINGS, _bank, draw_tasks, task_cell

from bayesmkl.bemkl import BEMKLMultitaskRegressor


def test_errors_and_intervals_are_those_of_a_model_by_hand(monkeypatch):
    monkeypatch.setattr(_design_tasks, "N_NEW", 20)
    setting = SETTINGS[0]
    found = task_cell(setting, 8, 0, "BEMKLMultitask, shared weights")
    train, test, _ = draw_tasks(setting, 8, np.random.default_rng(0))
    model = BEMKLMultitaskRegressor(_bank(setting), relation="shared").fit(
        train.X, train.y, tasks=train.tasks
    )
    mean, std = model.predict(test.X, tasks=test.tasks, return_std=True)
    assert found["error"] == pytest.approx(np.mean((mean - test.score) ** 2))
    assert found["inside"] == pytest.approx(np.mean(np.abs(test.y - mean) < 1.959964 * std))
