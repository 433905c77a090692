"""A release, tried before it is one: archives, license, metadata, recipe, public names, and the wheel by itself.

    make release-check                                      with the Python of the Makefile
    make release-check PYTHONS="python3.11 python3.12"      with several

Seconds are printed step by step. The archives and a bill of materials (CycloneDX: every package that comes along,
with version and license) are left in `dist/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

RENDER = """
import sys
from rattler_build import RenderConfig, Stage0Recipe, VariantConfig
(found,) = Stage0Recipe.from_yaml(open(sys.argv[1]).read()).render(VariantConfig(), RenderConfig())
assert found.recipe.package.version == sys.argv[2], f"{found}, not {sys.argv[2]}"
"""


class Visit:
    """Steps that were taken, their seconds, and which failed."""

    def __init__(self, folder: Path):
        self.folder, self.failed = folder, []

    def step(self, name: str, command: Sequence[str | Path], cwd: Path, shows: bool = False) -> bool:
        """Run a command; print how long it took, and what it printed if that is asked for or if it fails."""
        started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, env=clean
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told = f"{time.monotonic() - started:7.1f} s  processors {used:7.1f} s"
        print(f"{name:40} {told}  {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode:
            self.failed.append(name)
        if done.returncode or shows:
            print((done.stdout + done.stderr)[-12_000:], flush=True)
        return done.returncode == 0

    def check(self, name: str, wrong: Sequence[str]) -> None:
        """Print what is wrong with something that was looked at."""
        print(f"{name:40} {'':30}  {'FAILED: ' + '; '.join(wrong) if wrong else 'ok'}", flush=True)
        self.failed.extend([name] if wrong else [])

    def install(self, python: str, wheel: Path) -> Path | None:
        """Make an empty environment with a wheel, and run its demo; return the interpreter."""
        new = self.folder / "env" / "bin" / "python"
        pip = [new, "-m", "pip"]
        steps = {
            "environment": [python, "-m", "venv", self.folder / "env"],
            "pip install, no compiler": [*pip, "install", "-qq", "--only-binary", ":all:", wheel.resolve()],
            "pip check": [*pip, "check"],
            "bayesmkl demo": [new.with_name("bayesmkl"), "demo", "--out", self.folder / "demo"],
        }
        return new if all(self.step(name, command, self.folder) for name, command in steps.items()) else None

    def page(self, path: Path, python: Path) -> None:
        """Run the code of a page from its first block to its last, in a folder of its own."""
        code = "\n".join(BLOCK.findall(path.read_text(encoding="utf-8")))
        if code:
            name = f"{path.parent.name}/{path.name}" if path.parent.name == "guide" else path.name
            cwd = self.folder / "pages" / path.stem
            cwd.mkdir(parents=True)
            (cwd / "page.py").write_text(code, encoding="utf-8")
            self.step(name, [python, "-W", "error", "page.py"], cwd)


def wrong_archives(folder: Path, version: str) -> list[str]:
    """Return what is wrong with the archives of a version: their names, sizes, licenses and metadata."""
    wheel, source = folder / f"bayesmkl-{version}-py3-none-any.whl", folder / f"bayesmkl-{version}.tar.gz"
    names = sorted(path.name for path in folder.iterdir())
    if names != sorted([wheel.name, source.name]):
        return [f"expected {wheel.name} and {source.name}, got {', '.join(names)}"]
    sizes = {wheel: 2e6, source: 6e6}  # bytes at most
    found = [
        f"{path.name} has {path.stat().st_size} bytes"
        for path, most in sizes.items()
        if path.stat().st_size > most
    ]
    license_text = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        inside = f"bayesmkl-{version}.dist-info"
        about = Parser().parsestr(archive.read(f"{inside}/METADATA").decode())
        if archive.read(f"{inside}/licenses/LICENSE") != license_text:
            found.append("LICENSE of the wheel")
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
        visit, built = Visit(Path(place)), Path(place) / "dist"
        tools = [given.tools.absolute(), "-m"]
        if not visit.step("build", [*tools, "build", "--no-isolation", "--outdir", built, ROOT], ROOT):
            return 1
        (version,) = {path.name.split("-")[1] for path in built.glob("*.whl")}
        visit.check("names, sizes, license, metadata", wrong_archives(built, version))
        visit.step("twine check", [*tools, "twine", "check", "--strict", *built.iterdir()], ROOT)
        python, recipe = tools[0], ROOT / "conda" / "recipe.yaml"
        visit.step("conda recipe, rendered", [python, "-c", RENDER, recipe, version], ROOT)
        failed += visit.failed
        for k, python in enumerate(given.python):
            print(f"with {python}", flush=True)
            visit = Visit(Path(place) / str(k))
            visit.folder.mkdir()
            new = visit.install(python, built / f"bayesmkl-{version}-py3-none-any.whl")
            if new is not None:
                visit.step("public names", [new, ROOT / "tests" / "public_api.py"], visit.folder, shows=not k)
                for page in given.pages:
                    visit.page(ROOT / page, new)
                materials = dist / f"bayesmkl-{version}.cdx.json"
                options = ["--gather-license-texts", "--output-reproducible", "-o", materials]
                list_parts = [*tools, "cyclonedx_py", "environment", *options, new]
                if visit.step("bill of materials", list_parts, visit.folder):
                    visit.check("versions and licenses of all parts", wrong_materials(materials, version))
            failed += visit.failed
        for path in built.iterdir():
            shutil.copy2(path, dist)
    print(f"failed: {', '.join(failed)}" if failed else f"bayesmkl {version} can be released: dist/")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
