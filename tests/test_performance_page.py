"""docs/performance.md is what its generator makes of the template and the committed results."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker():
    return imported(ROOT / "docs" / "make_performance.py")


@pytest.fixture(scope="module")
def report():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield imported(BENCHMARKS / "_report.py")


@pytest.fixture
def folders(tmp_path):
    """One benchmark that wrote its table, and its numbers."""
    generated, results = tmp_path / "generated", tmp_path / "results"
    generated.mkdir()
    results.mkdir()
    (generated / "speed.inc").write_text("| a |\n", encoding="utf-8")
    machine = {"processor": "abacus", "cores": 2, "versions": "NumPy 2", "blas_threads": 1}
    machine |= {"read_gb_s": 30.2, "copy_gb_s": 40.0, "gemm_gflop_s": 99.6}
    claim = {"what": "time", "asked": "at most 2 s", "measured": "3 s", "holds": False}
    numbers = {"command": "python benchmarks/speed.py --case a", "fast": False, "machine": machine}
    numbers |= {
        "claims": [claim],
        "rows": [{"case": "a", "seconds": 1.25}, {"case": "b", "seconds": [2.0, 3.5]}],
    }
    (results / "speed.json").write_text(json.dumps(numbers), encoding="utf-8")
    return generated, results


def test_page_is_up_to_date(maker):
    template = maker.TEMPLATE.read_text(encoding="utf-8")
    made = maker.page(template, maker.GENERATED, maker.RESULTS)
    assert maker.PAGE.read_text(encoding="utf-8") == made, "run `make performance`"
    assert not maker.PLACE.search(made)
    assert "{{" not in made


def test_results_appear_on_the_page(maker, folders):
    template = "# Page\n\n<!-- claims -->\n\n<!-- table speed -->\n\n<!-- table gpu -->\n\n"
    template += "{{ speed: rows case=a seconds | .1f }} and {{ speed: rows 1 seconds 1 | .2f }}\n"
    text = maker.page(template, *folders)
    assert "| time | at most 2 s | 3 s | **no** | `speed.py` |" in text
    assert "```{include} _generated/speed.inc\n```" in text
    assert "`python benchmarks/speed.py --case a`: abacus, 2 cores, NumPy 2; read 30 GB/s" in text
    assert "Not measured here; `python benchmarks/gpu.py --docs` does." in text
    assert text.endswith("1.2 and 3.50\n")


@pytest.mark.parametrize(
    "place",
    [
        "speed: rows case=c seconds | .1f",
        "speed: rows 0 minutes | .1f",
        "gpu: rows | .1f",
        "speed: rows | .1f",
    ],
)
def test_numbers_that_nobody_measured_are_refused(maker, folders, place):
    with pytest.raises(ValueError, match=re.escape(f"{{{{ {place} }}}}")):
        maker.page(f"{{{{ {place} }}}}", *folders)


def test_short_runs_are_refused(maker, folders):
    path = folders[1] / "speed.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"fast": false', '"fast": true'), encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"speed\.json holds a short run"):
        maker.page("", *folders)


def test_benchmarks_write_what_the_page_reads(maker, report, folders, tmp_path, monkeypatch, capsys):
    generated, results = folders
    monkeypatch.setattr(report, "GENERATED", generated)
    monkeypatch.setattr(report, "RESULTS", results)
    monkeypatch.setattr(sys, "argv", ["/somewhere/new.py", "--docs", "--case", "a"])
    options = report.parser("doc")
    options.add_argument("--case")
    claims = [
        report.claim("sweeps", 4.0, 4.0),
        report.claim("rate", 0.6, 0.59, at_least=True),
        report.claim("x", 1, None),
    ]
    report.finish(options.parse_args(), "new", "a table", {"claims": claims})
    assert (generated / "new.inc").read_text(encoding="utf-8") == "a table\n"
    text = maker.page("<!-- claims -->\n\n<!-- table new -->", *folders)
    assert "| sweeps | at most 4 | 4 | yes | `new.py` |" in text
    assert "| rate | at least 0.6 | 0.59 | **no** | `new.py` |" in text
    assert "| x | at most 1 | – | **no** | `new.py` |" in text
    assert "| sweeps " in capsys.readouterr().out
    numbers = json.loads((results / "new.json").read_text(encoding="utf-8"))
    assert numbers["command"] == "python benchmarks/new.py --case a"
    assert numbers["fast"] is False


def test_short_runs_are_not_published(report, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["new.py", "--docs", "--fast"])
    with pytest.raises(SystemExit):
        report.parser("doc").parse_args()
    assert "leave out --fast" in capsys.readouterr().err


def test_every_benchmark_is_described():
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    scripts = {path.name for path in BENCHMARKS.glob("[!_]*.py")}
    assert len(scripts) >= 20
    assert set(re.findall(r"^\| `(\w+\.py)` \|", text, re.MULTILINE)) == scripts


def test_every_table_on_the_page_has_a_benchmark(maker):
    names = [name for kind, name in maker.PLACE.findall(maker.TEMPLATE.read_text(encoding="utf-8")) if name]
    made_by = dict.fromkeys(("gpu_contractions", "gpu_rows", "gpu_chains"), "gpu")
    assert len(names) == len(set(names)) >= 10
    assert all((BENCHMARKS / f"{made_by.get(name, name)}.py").exists() for name in names)
