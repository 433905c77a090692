"""What is installed, what an import costs, and what the package must never do."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers import ROOT, from_source

import bayesmkl

PACKAGE = Path(bayesmkl.__file__).parent
HEAVY = {
    "arviz",
    "arviz_base",
    "arviz_plots",
    "arviz_stats",
    "jax",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
    "xarray",
}
PICKLERS = {"cPickle", "cloudpickle", "dill", "marshal", "pickle", "shelve"}


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_no_heavy_package():
    loaded = json.loads(run_python("import bayesmkl, json, sys; print(json.dumps(list(sys.modules)))"))
    assert "bayesmkl" in loaded
    assert not HEAVY & set(loaded)


SAMPLED = {"arviz", "arviz_base", "arviz_plots", "arviz_stats", "jax", "jaxlib", "numpyro"}


def test_import_of_estimators_loads_no_sampler():
    code = "from bayesmkl import BEMKLClassifier, GPMKLSurvival; import json, sys; print(json.dumps([*sys.modules]))"
    loaded = set(json.loads(run_python(code)))
    assert "bayesmkl.gp.estimators.survival" in loaded
    assert not (SAMPLED | {"matplotlib"}) & loaded


FIT = """
import json, sys, tempfile, warnings
import numpy as np
from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.discriminative import LMKLClassifier, PrimalMKLClassifier, SimpleMKLClassifier
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(30, 2))
for kind in (BEMKLClassifier, SimpleMKLClassifier, LMKLClassifier, PrimalMKLClassifier, BEMKLRegressor):
    model = kind(KernelBank("auto")).fit(X, X[:, 0] if kind is BEMKLRegressor else X[:, 0] > 0)
    model.predict(X)
with tempfile.TemporaryDirectory() as folder:
    save_model(model, f"{folder}/model.skops")
    load_model(f"{folder}/model.skops").predict(X, return_std=True)
print(json.dumps(list(sys.modules)))
"""


@pytest.mark.heavy
def test_closed_form_and_discriminative_fits_load_no_sampler():
    assert not SAMPLED & set(json.loads(run_python(FIT)))


def test_version_is_the_installed_one():
    assert importlib.metadata.version("bayesmkl") == bayesmkl.__version__


@pytest.mark.parametrize("name", bayesmkl.__all__)
def test_public_names_resolve(name):
    assert getattr(bayesmkl, name) is not None
    assert name in dir(bayesmkl)


@from_source
def test_wheel_holds_the_package_and_nothing_else(tmp_path):
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    run_python(build, str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = {name.rpartition("/")[2] for name in names if ".dist-info/" in name}
        (license_name,) = (name for name in names if name.endswith("/LICENSE"))
        license_text = archive.read(license_name).decode()
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }
    assert {name for name in names if ".dist-info/" not in name} == sources
    assert not [name for name in sources if "test" in Path(name).name or "tests" in Path(name).parts]
    assert {"METADATA", "entry_points.txt"} <= metadata
    assert license_text == (ROOT / "LICENSE").read_text(encoding="utf-8")
    for part in ("BSD 3-Clause", "Copyright (c)", "\n3. Neither the name", "POSSIBILITY OF SUCH DAMAGE."):
        assert part in license_text
    assert f"bayesmkl-{bayesmkl.__version__}-" in wheel.name


def unsafe_loading(source: str) -> list[str]:
    """Everything in `source` that can read or write a pickle."""
    if not re.search("|".join(("pickle", "joblib", *PICKLERS)), source):
        return []
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _pickles(node)]


def _pickles(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.partition(".")[0] in PICKLERS for alias in names)
        case ast.ImportFrom(module="joblib", names=names):
            return any(alias.name in {"dump", "load"} for alias in names)
        case ast.ImportFrom(module=str(module)):
            return module.partition(".")[0] in PICKLERS
        case ast.Attribute(value=ast.Name(id="joblib"), attr="dump" | "load"):
            return True
        case ast.Attribute(attr="read_pickle" | "to_pickle"):
            return True
        case ast.keyword(arg="allow_pickle", value=value):
            return not (isinstance(value, ast.Constant) and value.value is False)
    return False


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "from joblib import load",
        "import joblib\njoblib.load('model')",
        "np.load('x.npy', allow_pickle=True)",
        "pd.read_pickle('x')",
    ],
)
def test_detector_sees_pickles(source):
    assert unsafe_loading(source)


HASHES = ("_utils/hashing.py", "evaluation/store.py")  # which make pickles for their hashes, and read none


def test_package_never_pickles():
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")
    }
    assert len(sources) > 10
    assert not {
        name: found for name, s in sources.items() if name not in HASHES and (found := unsafe_loading(s))
    }
    assert not [name for name in HASHES if re.search(r"pickle\.(loads?|Unpickler)\b", sources[name])]
