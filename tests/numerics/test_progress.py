"""Who sees progress: a terminal, and a notebook that has widgets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from bayesmkl._utils import progress


class ZMQInteractiveShell:
    """What Jupyter's kernels have."""


@pytest.mark.parametrize(
    ("shell", "widgets", "watched"),
    [(ZMQInteractiveShell(), True, True), (ZMQInteractiveShell(), False, False), (None, True, False)],
)
def test_notebooks_with_widgets_are_watched(monkeypatch, shell, widgets, watched):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(progress, "find_spec", lambda name: name if widgets else None)
    with progress.step_progress(True, "fit", 10, "sweep") as report:
        assert (report is not None) is watched
        if report is not None:
            report(1, "begun")
    with progress.step_progress(False, "fit", 10, "sweep") as report:
        assert report is None


def test_what_takes_over_five_seconds_is_drawn_and_nothing_inside_of_it(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    now = 0.0
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now)
    begun = []
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: begun.append(now))
    for seconds_per_step in (0.1, 1.0):  # two seconds, and twenty
        with progress.step_progress(True, "fit", 20, "step") as report:
            for step in range(1, 4):
                now += seconds_per_step
                report(step, "")
            with progress.step_progress(True, "fold", 20, "step") as inner:
                assert inner is None
    assert len(begun) == 3
    assert begun[0] == pytest.approx(0.3 + 1.0)
