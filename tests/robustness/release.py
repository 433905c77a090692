"""A release, tried before it is one: archives, license, metadata, recipe, and the wheel by itself.

    make release-check                                      with the Python of the Makefile
    make release-check PYTHONS="python3.11 python3.12"      with several

Seconds are printed step by step. The archives and a bill of materials (CycloneDX: every package that comes along,
with version and license) are left in `dist/`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

from newcomer import ROOT, Visit

RENDER = """
import sys
from rattler_build import RenderConfig, Stage0Recipe, VariantConfig
(found,) = Stage0Recipe.from_yaml(open(sys.argv[1]).read()).render(VariantConfig(), RenderConfig())
assert found.recipe.package.version == sys.argv[2], f"{found}, not {sys.argv[2]}"
"""


def wrong_archives(folder: Path, version: str) -> list[str]:
    """Return what is wrong with the archives of a version: their names, licenses and metadata."""
    wheel, source = folder / f"bayesmkl-{version}-py3-none-any.whl", folder / f"bayesmkl-{version}.tar.gz"
    names = sorted(path.name for path in folder.iterdir())
    if names != sorted([wheel.name, source.name]):
        return [f"expected {wheel.name} and {source.name}, got {', '.join(names)}"]
    license_text = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        inside = f"bayesmkl-{version}.dist-info"
        about = Parser().parsestr(archive.read(f"{inside}/METADATA").decode())
        found = [] if archive.read(f"{inside}/licenses/LICENSE") == license_text else ["LICENSE of the wheel"]
    with tarfile.open(source) as archive:
        inner = archive.extractfile(f"bayesmkl-{version}/LICENSE")
        if inner is None or inner.read() != license_text:
            found.append("LICENSE of the source archive")
    expected = {
        "Version": version,
        "License-Expression": "BSD-3-Clause",
        "License-File": "LICENSE",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    return found + [f"{key}: {about[key]}" for key, value in expected.items() if about[key] != value]


def wrong_materials(path: Path, version: str) -> list[str]:
    """Return what is wrong with a bill of materials: packages that are not there, or without a license."""
    parts = {one["name"]: one for one in json.loads(path.read_text(encoding="utf-8"))["components"]}
    found = [] if parts.get("bayesmkl", {}).get("version") == version else ["bayesmkl is not in it"]
    found += [
        f"{name} is not in it" for name in ("numpy", "scipy", "scikit-learn", "jax") if name not in parts
    ]
    return found + [f"{name} has no license" for name, one in parts.items() if not one.get("licenses")]


def main() -> int:
    """Take all steps; return the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--tools", type=Path, required=True, help="interpreter with build, twine and others")
    options.add_argument("--python", nargs="+", default=["python3"], help="interpreters that try the wheel")
    options.add_argument("--pages", nargs="*", default=["README.md"], help="pages whose code they run")
    given = options.parse_args()
    dist, failed = ROOT / "dist", []
    dist.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        visit, built = Visit(Path(place), ()), Path(place) / "dist"
        tools = [given.tools.absolute(), "-m"]
        if not visit.step("build", [*tools, "build", "--no-isolation", "--outdir", built, ROOT], ROOT):
            return 1
        (version,) = {path.name.split("-")[1] for path in built.glob("*.whl")}
        visit.check("names, license, metadata", wrong_archives(built, version))
        visit.step("twine check", [*tools, "twine", "check", "--strict", *built.iterdir()], ROOT)
        python, recipe = tools[0], ROOT / "conda" / "recipe.yaml"
        visit.step("conda recipe, rendered", [python, "-c", RENDER, recipe, version], ROOT)
        failed += visit.failed
        for k, python in enumerate(given.python):
            print(f"with {python}", flush=True)
            visit = Visit(Path(place) / str(k), ())
            visit.folder.mkdir()
            new = visit.install(python, built / f"bayesmkl-{version}-py3-none-any.whl")
            if new is not None:
                for page in given.pages:
                    visit.page(ROOT / page, new)
                materials = dist / f"bayesmkl-{version}.cdx.json"
                list_parts = [
                    *tools,
                    "cyclonedx_py",
                    "environment",
                    "--gather-license-texts",
                    "--output-reproducible",
                    "-o",
                    materials,
                    new,
                ]
                if visit.step("bill of materials", list_parts, visit.folder):
                    visit.check("versions and licenses of all parts", wrong_materials(materials, version))
            failed += visit.failed
        for path in built.iterdir():
            shutil.copy2(path, dist)
    print(f"failed: {', '.join(failed)}" if failed else f"bayesmkl {version} can be released: dist/")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
