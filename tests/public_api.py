"""Public names by tier, and what moved since the last release.

    python tests/public_api.py          print both; ends with 1 if a name is gone that the changelog does not mention
    python tests/public_api.py write    after a release: keep the names of this version in `released_api.txt`

The API reference says which names are experimental. `make release-check` runs this with the wheel.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import bayesmkl

ROOT = Path(__file__).resolve().parents[1]
RELEASED = Path(__file__).with_name("released_api.txt")
# Packages export what users need, also of their plain modules. The command line is documented as commands.
PUBLIC_MODULES = ["bayesmkl"] + [
    f"bayesmkl.{module.name}"
    for module in pkgutil.iter_modules(bayesmkl.__path__)
    if module.ispkg and not module.name.startswith("_") and module.name != "cli"
]


def listed_names() -> list[tuple[str, str, str]]:
    """Return every entry of the autosummary tables of the API reference, as (module, name, tier)."""
    module, tier, inside, names = "", "stable", False, []
    for line in (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif line.startswith(".. autosummary::"):
            inside = True
        elif line == ".. rubric:: Experimental":
            tier = "experimental"
        elif line and not line.startswith((" ", "..")):
            tier, inside = "stable", False
        elif inside and line.strip() and not line.strip().startswith(":"):
            names.append((module, line.strip(), tier))
    return names


def signature(found: object) -> str:
    """Return the parameters of something callable with their defaults, without types."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    bare = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters])
    return re.sub(r" at 0x\w+|(?<=\()self(, )?", "", str(bare))


def public_api() -> Iterator[tuple[str, str]]:
    """Yield everything public and its public methods, with parameters at the first of its names."""
    names = [
        (module, name) for module in PUBLIC_MODULES[1:] for name in importlib.import_module(module).__all__
    ]
    names += [(module, name) for module, name, _ in listed_names() if (module, name) not in names]
    names += [("bayesmkl", name) for name in bayesmkl.__all__ if ("bayesmkl", name) not in names]
    seen = []
    for module, name in names:
        found = getattr(importlib.import_module(module), name)
        is_new = not any(found is one for one in seen)
        seen.append(found)
        yield f"{module}.{name}", signature(found) if is_new else ""
        for method, function in (
            inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) and is_new else ()
        ):
            if not method.startswith("_") and function.__module__.startswith("bayesmkl"):
                yield f"{module}.{name}.{method}", signature(function)


def main() -> int:
    """Print tiers and what moved; return the exit code."""
    now = dict(public_api())
    if sys.argv[1:] == ["write"]:
        lines = (bayesmkl.__version__, *(f"{name}{parameters}" for name, parameters in now.items()))
        RELEASED.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    version, *lines = RELEASED.read_text(encoding="utf-8").splitlines()
    before = {name: opening + rest for name, opening, rest in (line.partition("(") for line in lines)}
    tiers = [tier for *_, tier in listed_names()]
    print(f"public names: {tiers.count('stable')} stable, {tiers.count('experimental')} experimental")
    gone, new = (
        {
            name: name.rpartition(".")[2]
            for name in one
            if name not in other and name.rpartition(".")[0] not in one
        }
        for one, other in ((before, now), (now, before))
    )
    homes = {last: name for name, last in reversed(new.items())}  # the first of its names
    moved = {name: homes[last] for name, last in gone.items() if last in homes}
    print(f"since {version}, moved:", *(f"  {name} -> {home}" for name, home in moved.items()), sep="\n")
    print("gone:", *(f"  {name}" for name in gone if name not in moved), sep="\n")
    print("new:", *(f"  {name}" for name in new if name not in moved.values()), sep="\n")
    changes = defaultdict(list)
    for name, home in [*((name, name) for name in before if name in now), *moved.items()]:
        was, is_now = (set(one[1:-1].split(", ")) for one in (before[name], now[home]))
        told = [*(f"-{one}" for one in sorted(was - is_now)), *(f"+{one}" for one in sorted(is_now - was))]
        changes[", ".join(told)].append(name)
    del changes[""]
    print(
        "other parameters:", *(f"  {told}: {', '.join(changes[told])}" for told in sorted(changes)), sep="\n"
    )
    first = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    silent = [
        name for name, last in gone.items() if name not in moved and not re.search(rf"\b{last}\b", first)
    ]
    print("gone, and not in the changelog:", *silent) if silent else None
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main())
