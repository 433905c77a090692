"""Fixtures that all tests share."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))  # modules that tests import, too


@pytest.fixture
def rng(request):
    """Generator seeded by the test's name: independent between tests, the same in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def undrawn(monkeypatch):
    """Reports make their figures, and draw none of them: that takes a third of a second each."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    monkeypatch.setattr(figure, "savefig", lambda figure, file, **_: file.write(b"<svg/>"))


@pytest.fixture(params=["numpy", "jax"])
def xp(request):
    """Array namespace, NumPy and JAX in turn, the latter in double precision."""
    if request.param == "numpy":
        yield np
    else:
        with jax.enable_x64(True):
            yield jax.numpy
