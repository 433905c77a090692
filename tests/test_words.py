"""One voice: no private term in what users read, and short sentences."""

from __future__ import annotations

import importlib.util

import pytest
from helpers import ROOT

_spec = importlib.util.spec_from_file_location("words", ROOT / "docs" / "words.py")
words = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(words)


def test_no_private_term_is_left():
    found = [line for text in words.texts() for line in words.findings(text)]
    assert not found, "\n".join(found)


def test_sentences_are_short():
    assert words.median_sentence() < 22


@pytest.mark.parametrize(
    "text",
    [
        "Each kernel has a machine of its own.",
        "C is the price of margin violations.",
        "Intervals by the closed form are too narrow.",
        "At some times the fit ends early, after some hundred steps.",
        "Stop after 200 plain sweeps.",
        "Scores follow a normal law.",
        "A line that ends\nin a\nmachine",
    ],
)
def test_terms_are_found_in_their_line(text):
    found = words.findings(words.Text(ROOT / "page.md", 3, words.prose_of(text)))
    assert found
    assert found[0].startswith(f"page.md:{3 + text.count(chr(10))}: ")


@pytest.mark.parametrize(
    "text",
    [
        "A support vector machine, by machine learning.",
        "```python\nmachine = 1\n```",
        "The attribute `price` and $C_{price}$.",
        "Gibbs sampling takes 500 sweeps.",
        "The moments have no closed form.",
    ],
)
def test_code_names_and_standard_words_are_not(text):
    assert not words.findings(words.Text(ROOT / "page.md", 1, words.prose_of(text)))


def test_sentences_are_counted_without_tables_and_headings():
    text = "# A heading.\n\nOne two three. Four five\nsix seven.\n\n| a | table of five words. |\n"
    assert words.sentence_lengths(text) == [3, 4]
