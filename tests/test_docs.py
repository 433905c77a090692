"""The documentation names what exists, and everything public is in it."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest
import typer

import bayesmkl
import bayesmkl.cli
import bayesmkl.discriminative

DOCS = Path(__file__).resolve().parents[1] / "docs"
_spec = importlib.util.spec_from_file_location("make_methods", DOCS / "make_methods.py")
make_methods = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_methods)
# Packages export what users need, also of their plain modules. The command line is documented as
# commands, and so is what stands behind `bayesmkl reproduce`.
PUBLIC_MODULES = ["bayesmkl"] + [
    f"bayesmkl.{module.name}"
    for module in pkgutil.iter_modules(bayesmkl.__path__)
    if module.ispkg and not module.name.startswith("_") and module.name not in {"cli", "reproduction"}
]
MODULES_IN_EQUATION_TABLES = {
    "absent_views": "bayesmkl.bemkl.models.absent_views",
    "moments": "bayesmkl.bemkl.models.moments",
    "outputs": "bayesmkl.bemkl.models.outputs",
    "task_parts": "bayesmkl.bemkl.models.task_parts",
    "tasks": "bayesmkl.bemkl.models.tasks",
    "censored": "bayesmkl.bemkl.models.censored",
    "binary": "bayesmkl.bemkl.models.binary",
    "regression": "bayesmkl.bemkl.models.regression",
    "loop": "bayesmkl.bemkl.inference.loop",
    "predict": "bayesmkl.bemkl.reading.predict",
    "class_probabilities": "bayesmkl.bemkl.reading.class_probabilities",
    "collapsed": "bayesmkl.bemkl.reading.collapsed",
    "draws": "bayesmkl.bemkl.reading.draws",
    "gibbs": "bayesmkl.bemkl.inference.gibbs",
    "largest_normal": "bayesmkl._numerics.largest_normal",
    "missing_views": "bayesmkl.bemkl.inference.missing_views",
    "multiclass": "bayesmkl.bemkl.models.multiclass",
    "multinomial": "bayesmkl.bemkl.models.multinomial",
    "multioutput": "bayesmkl.bemkl.models.multioutput",
    "multitask": "bayesmkl.bemkl.models.multitask",
    "multitask_results": "bayesmkl.bemkl.reading.multitask_results",
    "nonnegative": "bayesmkl.bemkl.models.nonnegative",
    "ordinal": "bayesmkl.bemkl.models.ordinal",
    "numpyro_model": "bayesmkl.bemkl.inference.numpyro_model",
    "quadrant": "bayesmkl._numerics.quadrant",
    "sampling": "bayesmkl.bemkl.inference.sampling",
    "semisupervised": "bayesmkl.bemkl.models.semisupervised",
    "shares": "bayesmkl.bemkl.reading.shares",
    "truncated_normal": "bayesmkl._numerics.truncated_normal",
    "psis": "bayesmkl._numerics.psis",
    "conditioning": "bayesmkl.marginal.conditioning",
    "unknown_points": "bayesmkl.marginal.unknown_points",
    "covariances": "bayesmkl.marginal.covariances",
    "evidence": "bayesmkl.marginal.evidence",
    "hyperposterior": "bayesmkl.marginal.hyperposterior",
    "hyperpriors": "bayesmkl.marginal.hyperpriors",
    "likelihoods": "bayesmkl.marginal.likelihoods",
    "numpyro_program": "bayesmkl.marginal.numpyro_program",
    "reading": "bayesmkl.marginal.reading",
}


def listed_names():
    """Every entry of the autosummary tables of the API reference, as (module, name)."""
    module, inside, names = "", False, []
    text = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    for line in text.replace(".. include:: _methods.rst", make_methods.api_list()).splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif line.startswith(".. autosummary::"):
            inside = True
        elif inside and line and not line.startswith(" "):
            inside = False
        elif inside and line.strip() and not line.strip().startswith(":"):
            names.append((module, line.strip()))
    return names


def test_every_listed_name_exists_and_is_public():
    for module, name in listed_names():
        assert name in importlib.import_module(module).__all__, f"{module}.{name} is listed but not public"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_in_the_api_reference(module):
    listed = [getattr(importlib.import_module(owner), name) for owner, name in listed_names()]
    public = importlib.import_module(module)
    missing = [
        name
        for name in public.__all__
        if not name.startswith("__") and not any(getattr(public, name) is entry for entry in listed)
    ]
    assert not missing, f"add to docs/api/index.rst, from {module}: {missing}"


MODULES_IN_EQUATION_TABLES |= {
    module.name.rpartition(".")[2]: module.name
    for module in pkgutil.walk_packages(bayesmkl.discriminative.__path__, "bayesmkl.discriminative.")
    if not module.name.startswith(("bayesmkl.discriminative.estimators.", "bayesmkl.discriminative.plots."))
}


LEAST = {
    "alignment": 6,
    "obmkl": 6,
    "optimized": 8,
    "primalmkl": 8,
    "lapmkl": 6,
    "lmkl": 10,
    "clmkl": 10,
    "swmkl": 8,
}
LEAST |= {"ldmkl": 8, "samkl": 8}


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("bemkl", 22),
        ("multiclass", 18),
        ("multinomial", 7),
        ("multioutput", 11),
        ("semisupervised", 7),
        ("nonnegative", 11),
        ("multitask", 14),
        ("missing_views", 19),
        ("outcomes_bemkl", 7),
        ("gpmkl", 23),
        ("likelihoods", 13),
        *((page, LEAST.get(page, 3)) for page in make_methods.pages()),
    ],
)
def test_equation_tables_name_functions_that_exist(page, least):
    text = (DOCS / "algorithms" / f"{page}.md").read_text(encoding="utf-8")
    references = re.findall(rf"`({'|'.join(MODULES_IN_EQUATION_TABLES)})\.(\w+)`", text)
    assert len(references) >= least
    for module, name in references:
        assert hasattr(importlib.import_module(MODULES_IN_EQUATION_TABLES[module]), name), f"{module}.{name}"


def test_command_line_page_names_options_that_exist():
    commands = typer.main.get_command(bayesmkl.cli.app).commands
    options = {
        option for command in commands.values() for parameter in command.params for option in parameter.opts
    }
    page = (DOCS / "guide" / "command_line.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(--[a-z][a-z-]*)", page)) - {"--help"}
    assert len(named) >= 9
    assert not named - options
    assert set(commands) == set(re.findall(r"^bayesmkl (\w+)", page, re.MULTILINE))


def test_generated_tables_are_shown():
    pages = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]
    includes = [
        (path.parent / name).resolve().relative_to(DOCS).as_posix()
        for path in pages
        for name in re.findall(r"^```{include} (\S+\.inc)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert sorted(includes) == sorted(str(p.relative_to(DOCS)) for p in (DOCS / "_generated").glob("*.inc"))
