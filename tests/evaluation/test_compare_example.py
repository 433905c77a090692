"""The script that shows a comparison, run as it stands on fewer splits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bayesmkl.evaluation import Comparison

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location(
        "compare_models_example", ROOT / "examples" / "compare_models.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.heavy
def test_example_prints_what_it_keeps_and_goes_on_where_it_was(example, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "comparison"
    arguments = ["compare_models.py", "--datasets", "iris", "--splits", "2", "--out", str(folder)]
    monkeypatch.setattr("sys.argv", arguments)
    example.main()
    first = capsys.readouterr().out
    kept = Comparison.load(folder)
    assert kept.models == list(example.make_models())
    assert len(kept.cells) == 2 * len(kept.models)
    assert kept.failures.empty
    for model, mean in kept.scores("accuracy").mean().items():
        assert f"{model} {mean:.4f}" in " ".join(first.split())
    assert first.splitlines()[-1] == str(folder / "report.html")
    assert "Pairs that differ, of 28" in first
    assert "tuned SVM" in (folder / "report.html").read_text(encoding="utf-8")

    monkeypatch.setattr(example.Comparison, "to_html", lambda self, path: path)
    monkeypatch.setattr("bayesmkl.evaluation.cells._cell", None)  # nothing is left to fit
    example.main()
    assert capsys.readouterr().out == first
