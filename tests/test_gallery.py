"""Scripts of the gallery label their figures, and link to pages that exist."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from bayesmkl import discriminative, posterior
from bayesmkl.evaluation import plots

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
QUICKEST = ("plot_04_regression_band.py", "plot_10_gates.py")
PLOTS = {
    name
    for module in (discriminative, plots, posterior)
    for name in module.__all__
    if name.startswith("plot_")
}
LABELS = {"title": {"set_title", "suptitle"}, "x": {"set_xlabel"}, "y": {"set_ylabel"}}
LINK = re.compile(r":(\w+):`([^`]+)`")


def calls_of(script):
    """Names of all functions and methods that are called."""
    calls = [
        node.func
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def titles_of(ax):
    return [ax.get_title(loc=side) for side in ("left", "center", "right")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_writes_title_and_labels_and_keeps_its_figures(script):
    calls = calls_of(script)
    for part, names in LABELS.items():
        assert calls & (names | PLOTS), part
    assert "subplots" in calls
    assert not calls & {"close", "savefig", "show", "filterwarnings", "simplefilter"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_no_block_ends_with_a_value_that_its_page_would_show(script):
    text = script.read_text(encoding="utf-8")
    for block in text.split("\n# %%\n"):
        assert not isinstance(ast.parse(block).body[-1], ast.Expr)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_links_lead_to_pages(script):
    for role, target in LINK.findall(script.read_text(encoding="utf-8")):
        if role != "doc":
            assert role == "math"
            continue
        page = re.sub(r".*<(.*)>", r"\1", target)
        assert (ROOT / "docs" / f"{page.lstrip('/')}.md").is_file(), target


@pytest.mark.parametrize("name", QUICKEST)
def test_axes_of_a_script_have_title_and_labels(name, tmp_path, monkeypatch, capfd):
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    try:
        runpy.run_path(str(GALLERY / name), run_name="__main__")
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        assert figures
        for ax in (ax for figure in figures for ax in figure.axes):
            assert any(titles_of(ax))
            assert ax.get_xlabel()
            assert ax.get_ylabel()
    finally:
        pyplot.close("all")
    assert capfd.readouterr().err == ""
    assert not list(tmp_path.iterdir())
