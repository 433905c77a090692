"""Localized methods: their scale, their defaults, and studies of single methods.

    python benchmarks/localized.py --section mwu          multiplicative weights: what accuracy costs
    python benchmarks/localized.py --section memory       figure 2: memory with either machine, by samples
    python benchmarks/localized.py --section scale        LD-MKL and SwMKL on all rows of a9a: time and memory
    python benchmarks/localized.py --section samkl        SAMKL: the integer step, and the time of a fit
    python benchmarks/localized.py --section corruption   SAMKL and others where kernels are wrong for some samples
    python benchmarks/localized.py --section lmkl         LMKL: cost of gradients, ways to descend
    python benchmarks/localized.py --section clmkl        C-LMKL: duality gaps, clustering by landmarks
    python benchmarks/localized.py --section defaults     every default on real sets and on designs that are local
    python benchmarks/localized.py --section ldmkl        LD-MKL as printed: gate kernel, ties and intercepts
    python benchmarks/localized.py --section retraining   LD-MKL: support points of machines that are trained again
    python benchmarks/localized.py --fast                 short forms of all, on bundled data

The sections corruption and defaults can be shared by processes, each with a file of its own; then all in one:

    python benchmarks/localized.py --section defaults --part 1/4 --cells 1.jsonl  (and so on)
    cat 1.jsonl 2.jsonl 3.jsonl 4.jsonl > all.jsonl
    python benchmarks/localized.py --section defaults --cells all.jsonl

With BAYESMKL_DATA=folder the sets of the papers are read from there; sections run on bundled data without.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _sections import run_sections

SECTIONS = (
    "mwu",
    "memory",
    "scale",
    "samkl",
    "corruption",
    "lmkl",
    "clmkl",
    "defaults",
    "ldmkl",
    "retraining",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what some sections take."""
    parser.add_argument(
        "--splits", type=int, metavar="N", help="random splits of the studies that repeat themselves on some"
    )
    parser.add_argument(
        "--cells", type=Path, metavar="FILE", help="append what is done here, and leave out what is there"
    )
    parser.add_argument("--part", metavar="I/N", help="do one of N parts only, for --cells; print no tables")


if __name__ == "__main__":
    run_sections(__doc__, "localized", SECTIONS, add_options)
