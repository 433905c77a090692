"""Scripts of the gallery are short, link to pages that exist, and draw one labeled figure; the other examples run."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_a_script_is_short_and_links_to_pages(script):
    _, text, code = script.read_text(encoding="utf-8").split('"""')
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    for target in re.findall(r":doc:`/([^`]+)`", text):
        assert (ROOT / "docs" / f"{target}.md").is_file(), target


def labels_of(script):
    from matplotlib import pyplot

    pyplot.close("all")
    try:
        runpy.run_path(str(script))
        return [
            [(ax.get_xlabel(), ax.get_ylabel(), ax.get_yticklabels()) for ax in pyplot.figure(number).axes]
            for number in pyplot.get_fignums()
        ]
    finally:
        pyplot.close("all")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=() if "gates" in script.stem else (pytest.mark.heavy,))
        for script in GALLERY
    ],
    ids=lambda script: script.stem,
)
def test_a_script_draws_one_labeled_figure(script, capfd):
    (axes,) = labels_of(script)
    assert axes
    assert all(x and (y or ticks) for x, y, ticks in axes)
    assert capfd.readouterr().err == ""


@pytest.mark.heavy
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_in_an_empty_folder(script, tmp_path):
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
