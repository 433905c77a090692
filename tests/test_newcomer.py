"""Somebody's own table, and nothing but the README: its second example, as written, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesmkl import load_model

README = Path(__file__).resolve().parents[1] / "README.md"
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run the block that reads `samples.csv` on a table in which only the columns `worst` say anything."""
    folder = tmp_path_factory.mktemp("newcomer")
    rng = np.random.default_rng(7)
    table = pd.DataFrame(
        rng.normal(size=(240, 6)), columns=[f"{view} {name}" for view in ("mean", "worst") for name in "abc"]
    )
    score = table["worst a"] - table["worst b"] + 0.1 * rng.normal(size=240)
    table.assign(diagnosis=np.where(score > 0, "ill", "well")).to_csv(folder / "samples.csv", index=False)
    blocks = re.findall(
        r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (script,) = [block for block in blocks if "read_csv" in block]
    (folder / "script.py").write_text(script, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    return folder, table, score, ran.stdout


def test_the_view_that_matters_is_found_with_its_interval(done):
    _, _, _, printed = done
    share, lower, upper = map(float, re.search(r"^ *worst +(.*)$", printed, re.MULTILINE)[1].split())
    assert share > 0.8
    assert 0.5 < lower < share < upper < 1.2


def test_three_methods_are_compared(done):
    _, _, _, printed = done
    scores = {
        name: float(re.search(rf"^{name} +(\d\.\d+)$", printed, re.MULTILINE)[1])
        for name in ("GPMKL", "SimpleMKL", "LD-MKL")
    }
    assert min(scores.values()) > 0.7
    assert scores["GPMKL"] > 0.85


def test_the_model_that_was_saved_predicts(done):
    folder, table, score, printed = done
    assert float(re.search(r"^(\d\.\d+) of the new samples right", printed, re.MULTILINE)[1]) > 0.85
    model = load_model(folder / "model.skops")
    right = model.predict(table) == np.where(score > 0, "ill", "well")
    assert right.mean() > 0.93
    sure = model.predict_proba(table).max(axis=1) > 0.9
    assert right[sure].mean() > right[~sure].mean()
