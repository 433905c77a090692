"""Outside of `bayesmkl.kernels` nobody looks into a stack: neither its kernels, nor of which kind it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import bayesmkl

PACKAGE = Path(bayesmkl.__file__).parent
STACKS = {
    name
    for path in (PACKAGE / "kernels" / "stacks").glob("*.py")
    for name in re.findall(
        r"^class (\w*Stack|BankColumns|KernelBlocks|RowParts)\b", path.read_text(), re.MULTILINE
    )
}
# whose `kernels` are those of estimators, banks and data sets; and, in estimators, of `localized.Rows`
NO_STACKS = {"self", "bank", "sample"}
ROWS = {"rows", "training"}
A_STACK = re.compile(r"(^|[._])(stack|whole|fold|short|compressed)(\(.*\))?$")


def violations(source, no_stacks=NO_STACKS):
    """Return the lines of code that look into a stack."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "kernels":
            if ast.unparse(node.value) not in no_stacks:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            of, rest = node.args[0], node.args[1:]
            asks = node.func.id in ("hasattr", "getattr", "vars", "type") and A_STACK.search(ast.unparse(of))
            kinds = {word for arg in rest for word in re.findall(r"\w+", ast.unparse(arg))}
            if asks or (node.func.id in ("isinstance", "issubclass") and kinds & STACKS):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Constant) and node.value in STACKS:
            found.append(f"{node.lineno}: {node.value!r}")
    return found


def test_nobody_looks_into_stacks():
    assert len(STACKS) >= 11
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "kernels"]
    assert len(files) > 150
    for path in files:
        in_estimators = path.parent == PACKAGE / "discriminative" / "estimators"
        assert (
            violations(path.read_text(), NO_STACKS | {"rows", "training"} if in_estimators else NO_STACKS)
            == []
        ), path


@pytest.mark.parametrize(
    "line",
    [
        "first = stack.kernels[0]",
        "first = self._stack.rows(index).kernels",
        "first = problem.stack.kernels",
        "whole.kernels.sum()",
        "part.kernels.sum()",
        "fast = hasattr(stack, 'spread')",
        "name = type(stack).__name__",
        "name = type(self.stack.whole).__name__",
        "if isinstance(stack, DenseStack): pass",
        "if isinstance(kernels, (int, BankColumns)): pass",
        "if isinstance(kernels, columns.BankColumns | None): pass",
        "names = {'DenseStack': 'dense'}",
    ],
)
def test_planted_violation_is_found(line):
    assert len(violations(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "self.kernels = kernels",
        "stack.each()",
        "isinstance(self.kernels, KernelBank)",
        "getattr(stacking, 'name')",
    ],
)
def test_what_looks_alike_is_none(line):
    assert violations(line) == []
