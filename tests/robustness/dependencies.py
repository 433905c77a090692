"""What the package depends on: the lowest versions it declares, and an audit of those that are installed.

Usage: ``dependencies.py lowest`` prints constraints for pip, ``dependencies.py audit [FILE]`` prints a table and ends
with 1 where something is wrong; FILE is what ``pip-audit --format json`` wrote.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
# Licenses that ask of who ships the package, or links to it, to publish their own source under the same terms.
RECIPROCAL = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.IGNORECASE)
PERMISSIVE = re.compile(
    r"\b(BSD|MIT|Apache|ISC|Python Software|PSF|MPL|Mozilla|HPND|Zlib|Unlicense)", re.IGNORECASE
)


def declared(extras: Sequence[str] = ()) -> list[Requirement]:
    """Return the requirements of the package and of some extras that hold for this Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = list(project["dependencies"])
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    found = [Requirement(text) for text in texts]
    own = [extra for one in found if one.name == project["name"] for extra in one.extras]
    found = [one for one in found if one.name != project["name"]]
    found = [one for one in found if one.marker is None or one.marker.evaluate()]
    return found + (declared_by(own) if own else [])


def declared_by(extras: Sequence[str]) -> list[Requirement]:
    """Return the requirements of some extras alone."""
    base = {str(one) for one in declared()}
    return [one for one in declared(extras) if str(one) not in base]


def lowest(requirements: Sequence[Requirement]) -> list[str]:
    """Return a constraint for every requirement: the lowest version it declares, and what else it asks for."""
    found = []
    for one in requirements:
        bounds = {bound.operator: bound.version for bound in one.specifier}
        low = f"=={bounds['>=']}" if ">=" in bounds else str(one.specifier)
        found.append(f"{one.name}{low}")
    return found


class Installed(NamedTuple):
    """One package that is installed because another one asks for it."""

    name: str
    version: str
    asked_by: str
    specifier: str
    fits: bool
    license: str


def needed(requirements: Sequence[Requirement], by: str = "bayesmkl") -> dict[str, Installed]:
    """Return everything that is installed for some requirements, and for those of these packages, by name."""
    found: dict[str, Installed] = {}
    waiting = [(one, by) for one in requirements]
    while waiting:
        one, asker = waiting.pop(0)
        name = canonicalize_name(one.name)
        known = found.get(name)
        try:
            held = distribution(one.name)
        except PackageNotFoundError:
            found[name] = Installed(one.name, "none", asker, str(one.specifier), False, "")
            continue
        fits = one.specifier.contains(held.version, prereleases=True)
        if known is None or not fits:
            found[name] = Installed(
                one.name, held.version, asker, str(one.specifier), fits, " or ".join(licenses(one.name))
            )
        if known is None or one.extras:
            waiting += [(sub, name) for sub in required_by(one)]
    return found


def required_by(one: Requirement) -> Iterator[Requirement]:
    """Yield what a requirement asks for itself, with its extras."""
    for text in distribution(one.name).requires or ():
        sub = Requirement(text)
        if sub.marker is None or any(sub.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
            yield sub


def licenses(name: str) -> list[str]:
    """Return what a package says of its license: an expression, classifiers, or its license's first line."""
    about = distribution(name).metadata
    if about.get("License-Expression"):
        return re.split(r"\s+OR\s+", about["License-Expression"])
    kinds = [
        text.split("::")[-1].strip() for text in about.get_all("Classifier") or () if "License ::" in text
    ]
    named = [kind for kind in kinds if kind != "OSI Approved"]
    if named:
        return named
    lines = (about.get("License") or "").strip().splitlines()
    if lines:
        return lines[:1]
    return [first_line(name)]


def first_line(name: str) -> str:
    """Return the title of the license file that a package brings."""
    for path in distribution(name).files or ():
        if re.match(r"(LICEN[SC]E|COPYING)", path.name, re.IGNORECASE):
            return path.locate().read_text(errors="replace").strip().splitlines()[0]  # type: ignore[union-attr]
    return ""


def is_permissive(text: str) -> bool:
    """Whether one of the licenses that a package offers asks nothing of who uses it, as far as its name says."""
    return any(PERMISSIVE.search(one) and not RECIPROCAL.search(one) for one in text.split(" or "))


def known_vulnerabilities(path: Path) -> tuple[int, list[str]]:
    """Return how many packages pip-audit has really looked up, and what it knows of them.

    It reports no vulnerability, and no error, where its database answers for no package at all.
    """
    if not path.exists():
        return 0, []
    packages = json.loads(path.read_text())["dependencies"]
    checked = [one for one in packages if "skip_reason" not in one]
    return len(checked), [
        f"{one['name']} {one['version']}: {v['id']}" for one in checked for v in one["vulns"]
    ]


def audit(path: Path | None) -> int:
    """Print the table; return the exit code."""
    found = needed(declared())
    say = lambda text: print(text)  # noqa: T201
    say(f"{'package':<24} {'installed':<14} {'asked for':<24} license")
    for one in sorted(found.values(), key=lambda one: one.name.lower()):
        mark = "" if one.fits else "  DOES NOT FIT"
        mark += "" if is_permissive(one.license) else "  LICENSE?"
        say(f"{one.name:<24} {one.version:<14} {one.specifier or 'any':<24} {one.license[:40]}{mark}")
    wrong = [one for one in found.values() if not (one.fits and is_permissive(one.license))]
    say(f"{len(found)} packages, {len(wrong)} with a wrong version or an unknown license")
    n_checked, vulnerable = (0, []) if path is None else known_vulnerabilities(path)
    for text in vulnerable:
        say(f"VULNERABLE {text}")
    reached = f"{n_checked} packages looked up" if n_checked else "NOT CHECKED: no database could be reached"
    say(f"known vulnerabilities: {len(vulnerable)} ({reached})")
    return 1 if wrong or vulnerable else 0


if __name__ == "__main__":
    if sys.argv[1] == "lowest":
        print("\n".join(lowest(declared(["test"]))))  # noqa: T201
    else:
        sys.exit(audit(Path(sys.argv[2]) if len(sys.argv) > 2 else None))
