"""The code blocks of the README and of the documentation run, and print what the pages say they print."""

from __future__ import annotations

import contextlib
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.posterior import view_table

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^`\n]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"(-?\d+\.\d+)")


class Block(NamedTuple):
    """A python block, the output block directly after it ("" without one), and its first line in the page."""

    code: str
    output: str
    line: int


def blocks_of(text: str) -> list[Block]:
    fences = list(FENCE.finditer(text))
    found = []
    for fence, follower in zip(fences, [*fences, None][1:], strict=True):
        if fence["kind"] != "python":
            continue
        shows_output = (
            follower is not None
            and follower["kind"] == "text"
            and not text[fence.end() : follower.start()].strip()
        )
        line = text.count("\n", 0, fence.start("text"))
        found.append(Block(fence["text"], follower["text"] if shows_output else "", line))
    return found


def same_output(expected: str, got: str) -> bool:
    """Equal up to white space, and up to 1.5 units in the last printed digit of decimal numbers."""
    expected_parts, got_parts = (DECIMAL.split(text) for text in (expected, got))
    if len(expected_parts) != len(got_parts):
        return False
    for position, (one, other) in enumerate(zip(expected_parts, got_parts, strict=True)):
        if position % 2 == 0:
            same = one.split() == other.split()
        else:
            digits = len(one.partition(".")[2])
            same = (
                len(other.partition(".")[2]) == digits and abs(float(one) - float(other)) < 1.5 * 10**-digits
            )
        if not same:
            return False
    return True


BUILT = {"_build", "notebooks", "gallery"}  # by Sphinx
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if not BUILT & set(p.parts))]
PAGES_WITH_CODE = [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))]


def test_intervals_of_the_readme_are_those_of_the_exact_posterior():
    """What the second block prints, beside the committed reference of the same hundred tumors."""
    _, second = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^ *(gaussian.*?|views together)((?: +-?\d\.\d\d){3})$", second.output, re.MULTILINE)
    printed = {name: [float(number) for number in numbers.split()] for name, numbers in rows}
    path = ROOT / "benchmarks" / "results" / "reference_posteriors" / "a_wdbc_100_nested.json"
    reference = json.loads(path.read_text(encoding="utf-8"))
    share = reference["quantities"]["share"]
    assert sorted(printed) == sorted(reference["kernels"])
    for name, mean, std, quantiles in zip(
        reference["kernels"], share["mean"], share["sd"], share["quantiles"], strict=True
    ):
        found, *ends = printed[name]
        assert abs(found - mean) < 0.2 * std + 0.005, name
        below, above = np.interp(ends, quantiles, reference["levels"])
        assert 0.86 < above - below < 0.99, name


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="archives do not hold the gate")
def test_gate_runs_the_commands_of_the_readme_as_they_are_written():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [line.partition("#")[0].strip() for line in block.splitlines()]
    stages = re.findall(r"^stage \S+ (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 2
    assert set(commands) <= {stage.partition("#")[0].strip() for stage in stages}


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


def check_picture(path: Path) -> None:
    """Check that it is the picture of the README, up to fonts and antialiasing: both are shrunk."""
    shrunk = []
    for one in (ROOT / "docs" / "_static" / "readme.png", path):
        with Image.open(one) as image:
            shrunk.append(np.asarray(image.convert("L").resize((70, 28)), dtype=float).ravel())
    assert np.corrcoef(shrunk)[0, 1] > 0.9


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # blank lines in front make tracebacks point into the page
            exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)
        got = printed.getvalue()
        assert same_output(block.output, got), (
            f"{page}:{block.line + 1} says\n{block.output}\nbut prints\n{got}"
        )
    if page == ROOT / "README.md":
        check_picture(tmp_path / "views.png")


def test_files_of_samples_in_columns_are_read_as_the_guide_says(tmp_path, monkeypatch, rng):
    """Another order of samples in each file, and more of them than there are in the table of samples."""
    monkeypatch.chdir(tmp_path)
    samples = [f"s{i}" for i in range(24)]
    rna, protein = (
        pd.DataFrame(rng.normal(size=(n, 25)), [f"g{j}" for j in range(n)], [*samples, "more"])
        for n in (6, 3)
    )
    rna.to_csv("rna.csv")
    protein[protein.columns[::-1]].to_csv("protein.csv")
    pd.DataFrame({"responder": protein.loc["g0", samples] > 0}, samples).to_csv("colData.csv")
    text = (ROOT / "docs" / "guide" / "table.md").read_text(encoding="utf-8")
    (block,) = (f["text"] for f in FENCE.finditer(text) if f["kind"] == "py" and "colData.csv" in f["text"])
    found = {
        "np": np,
        "pd": pd,
        "GPMKLClassifier": partial(GPMKLClassifier, random_state=0),
        "KernelBank": KernelBank,
    }
    exec(block, found)
    assert found["X"].shape == (24, 9)
    np.testing.assert_allclose(found["X"]["protein:g0"], protein.loc["g0", samples])
    assert view_table(found["model"])["view"].iloc[0] == "protein"


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("a 0.912\nb", "a  0.913\n b\n", True),
        ("a 0.912", "a 0.914", False),
        ("a 0.912", "b 0.912", False),
        ("n = 12", "n = 13", False),
        ("0.91", "0.912", False),
        ("", "something", False),
    ],
)
def test_comparison_tells_outputs_apart(expected, got, same):
    assert same_output(expected, got) is same
