"""Write docs/performance.md from its template and the committed results of the benchmarks.

The template, docs/_templates/performance.md, has places for what was measured:

    <!-- claims -->                       what is asked of the package beside what was measured, of all benchmarks
    <!-- table NAME -->                   what benchmarks/NAME.py --docs wrote, and on which machine
    {{ NAME: keys and positions | .1f }}  one number of benchmarks/results/NAME.json
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "docs" / "_templates" / "performance.md"
PAGE = ROOT / "docs" / "performance.md"
GENERATED = ROOT / "docs" / "_generated"
RESULTS = ROOT / "benchmarks" / "results"
NOTE = "<!-- Written by `make performance` from docs/_templates/performance.md and committed results. -->\n\n"
PLACE = re.compile(r"^<!-- (claims|table) ?(\S*) -->$", re.MULTILINE)
NUMBER = re.compile(r"{{ (\w+): ([^|}]+?) \| (\S+) }}")


def page(template: str, generated: Path, results: Path) -> str:
    """Fill in the template."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))
    }
    for name, numbers in found.items():
        if numbers.get("fast"):
            raise ValueError(
                f"{name}.json holds a short run; `python benchmarks/{name}.py --docs` makes a full one."
            )

    order = [name for kind, name in PLACE.findall(template) if name in found]
    order += [name for name in found if name not in order]

    def fill(place: re.Match[str]) -> str:
        kind, name = place.groups()
        if kind == "claims":
            return claims({name: found[name] for name in order})
        return table(name, (generated / f"{name}.inc").exists(), found.get(name, {}))

    return NOTE + NUMBER.sub(lambda place: number(found, *place.groups()), PLACE.sub(fill, template))


def claims(found: dict[str, dict[str, Any]]) -> str:
    """List every number that is asked for, in the order of the tables on the page."""
    lines = ["| What | Asked | Measured | Holds | Benchmark |", "|---|---:|---:|---|---|"]
    for name, numbers in found.items():
        command = numbers.get("command", f"python {name}.py").split()
        script = Path(command[1]).name  # which may have several sections
        for claim in numbers.get("claims", []):
            holds = "yes" if claim["holds"] else "**no**"
            cells = [claim["what"], claim["asked"], claim["measured"], holds, f"`{script}`"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table(name: str, is_written: bool, numbers: dict[str, Any]) -> str:
    """Include the table of a benchmark, and say what it was measured on."""
    command = numbers.get("command", f"python benchmarks/{name}.py")
    if not is_written:
        return f"Not measured here; `{command} --docs` does."
    parts = [f"```{{include}} _generated/{name}.inc\n```"]
    if "machine" in numbers:
        parts.append(machine(numbers["machine"], command))
    return "\n\n".join(parts)


def machine(facts: dict[str, Any], command: str) -> str:
    """Describe the machine in a line."""
    rates = {"read": "read_gb_s", "copy": "copy_gb_s"}
    memory = ", ".join(f"{label} {facts[rate]:.0f} GB/s" for label, rate in rates.items())
    return (
        f"*`{command}`: {facts['processor']}, {facts['cores']} cores, {facts['versions']}; "
        f"{memory}, dgemm {facts['gemm_gflop_s']:.0f} GFLOP/s.*"
    )


def number(found: dict[str, dict[str, Any]], name: str, path: str, form: str) -> str:
    """Look a number up: keys, positions, and `key=value` for the entry of a list that has it."""
    value: Any = found.get(name)
    try:
        for step in path.split():
            if "=" in step:
                key, wanted = step.split("=")
                value = next(entry for entry in value if str(entry[key]) == wanted)
            else:
                value = value[int(step) if isinstance(value, list) else step]
        return format(value, form)
    except (KeyError, IndexError, StopIteration, TypeError, ValueError) as error:
        raise ValueError(
            f"the template asks for {{{{ {name}: {path} | {form} }}}}, which is not in the results."
        ) from error


if __name__ == "__main__":
    PAGE.write_text(page(TEMPLATE.read_text(encoding="utf-8"), GENERATED, RESULTS), encoding="utf-8")
