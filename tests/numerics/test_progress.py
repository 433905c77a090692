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
