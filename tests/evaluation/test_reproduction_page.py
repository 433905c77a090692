"""docs/reproduction.md is what its generator makes of the template and the committed results."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from bayesmkl.evaluation import Comparison
from bayesmkl.reproduction import obmkl, paper_tables
from bayesmkl.reproduction.run import reproduce
from bayesmkl.reproduction.tables import Setting

pytestmark = pytest.mark.heavy
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "make_reproduction.py"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_reproduction", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def template(maker):
    return maker.TEMPLATE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of stand-ins that passes for a full one."""
    folder = tmp_path_factory.mktemp("runs") / "obmkl-table3"
    reproduce("obmkl-table3", Setting(fast=True), folder)
    about = (folder / "about.json").read_text(encoding="utf-8")
    (folder / "about.json").write_text(about.replace('"fast": true', '"fast": false'), encoding="utf-8")
    return folder


@pytest.fixture
def runs(run, tmp_path):
    shutil.copytree(run, tmp_path / run.name)
    return tmp_path


def test_page_is_up_to_date(maker, template):
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(template, maker.RUNS), (
        "run `make reproduction`"
    )


def test_results_appear_on_the_page(maker, template, runs):
    text = maker.page(template, runs)
    for name in ("obmkl-table3", "obmkl-table4", "obmkl-figure2"):  # from the same cells
        for printed in maker.read_reproduction(runs / "obmkl-table3", name).printed:
            assert maker.markdown(maker.as_text(printed.frame)) in text
    assert text.count("`bayesmkl reproduce obmkl-table3`: 36 cells") == 3
    assert len(re.findall("^Not run in full here", text, re.MULTILINE)) == len(paper_tables()) - 3
    assert not maker.PLACE.search(text)


def test_committed_run_has_the_splits_that_all_models_have(maker, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(maker, "print_tables", lambda *_: [])  # its tests take two splits
    source, kept = runs / "obmkl-table3", tmp_path / "kept"
    whole = maker.read_reproduction(source)
    folder = maker.keep([str(source)], kept)
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "results.csv"]
    again = maker.read_reproduction(folder)
    assert maker.as_text(again.printed[0].frame).equals(maker.as_text(whole.printed[0].frame))
    together = maker.read_reproduction(maker.keep([str(folder), str(source)], tmp_path / "twice"))
    assert maker.as_text(together.printed[0].frame).equals(maker.as_text(whole.printed[0].frame))
    assert together.comparison.about["environment"] == again.comparison.about["environment"]
    key = json.loads((source / "about.json").read_text(encoding="utf-8"))["view"][0]["cells"]["GMKL"][1]
    for file in (source / "cells").glob(f"{key}*"):
        file.unlink()
    less = Comparison.load(maker.keep([str(source)], kept))
    assert less.cells["split"].unique().tolist() == [0]
    assert set(less.models) == set(whole.comparison.models)
    assert less.about["reproduce"] == {
        "table": "obmkl-table3",
        "fast": False,
        "splits": 1,
        "sets": ["breast"],
    }


def test_variants_may_have_fewer_splits_in_a_committed_run(maker, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(maker, "print_tables", lambda *_: [])
    source = runs / "obmkl-table3"
    about = json.loads((source / "about.json").read_text(encoding="utf-8"))
    [view] = about["view"]
    main, few = view | {"cells": {}}, view | {"cells": {}, "splits": view["splits"][:1]}
    for name, keys in view["cells"].items():
        part, n = (few, 1) if name.endswith(obmkl.ONE_C) else (main, 2)
        part["cells"][name] = keys[:n]
    (source / "about.json").write_text(json.dumps(about | {"view": [main, few]}), encoding="utf-8")
    cells = Comparison.load(maker.keep([str(source)], tmp_path / "kept")).cells
    assert cells.groupby("model")["split"].nunique().to_dict() == {name: 2 for name in main["cells"]} | {
        name: 1 for name in few["cells"]
    }
    one = Comparison.load(maker.keep([str(source)], tmp_path / "one", most=1))
    assert one.cells["split"].unique().tolist() == [0]
    assert one.about["reproduce"]["splits"] == 1
    not_run = f"GMKL, {obmkl.ONE_C}"
    for file in (source / "cells").glob(f"{few['cells'][not_run][0]}*"):
        file.unlink()
    less = Comparison.load(maker.keep([str(source)], tmp_path / "less"))
    assert set(less.models) == set(view["cells"]) - {not_run}


def test_unfinished_run_is_not_on_the_page(maker, template, runs):
    (runs / "obmkl-table3" / "results.csv").unlink()
    assert maker.page(template, runs) == maker.page(template, runs / "nothing")


def test_what_must_not_be_on_the_page_is_refused(maker, template, runs):
    about = runs / "obmkl-table3" / "about.json"
    text = about.read_text(encoding="utf-8")
    about.write_text(text.replace('"fast": false', '"fast": true'), encoding="utf-8")
    with pytest.raises(ValueError, match="holds a fast run"):
        maker.page(template, runs)
    about.write_text(text.replace("obmkl-table3", "obmkl-table2"), encoding="utf-8")
    with pytest.raises(ValueError, match="holds cells of obmkl-table2, not of obmkl-table3"):
        maker.page(template, runs)
    (runs / "obmkl-table3").rename(runs / "obmkl-figure3")
    with pytest.raises(ValueError, match=r"no table \['obmkl-figure3'\]"):
        maker.page(template, runs)


def test_table_without_a_place_is_refused(maker, template, tmp_path):
    name = next(iter(paper_tables()))
    with pytest.raises(ValueError, match="one place for each table"):
        maker.page(template.replace(f"<!-- table {name} -->", ""), tmp_path / "nothing")
