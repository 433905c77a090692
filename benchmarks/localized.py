"""Localized methods: the tables of the papers behind them, their scale, and studies of single methods.

    python benchmarks/localized.py --section tables       accuracy, seconds and support points beside the published
    python benchmarks/localized.py --section mwu          multiplicative weights as the machine inside
    python benchmarks/localized.py --section scale        LD-MKL and SwMKL on all rows of a9a: time and memory
    python benchmarks/localized.py --section samkl        SAMKL: the integer step, and the time of a fit
    python benchmarks/localized.py --section corruption   SAMKL and others where kernels are wrong for some samples
    python benchmarks/localized.py --section lmkl         LMKL: cost of gradients, ways to descend
    python benchmarks/localized.py --section clmkl        C-LMKL: duality gaps, clustering by landmarks
    python benchmarks/localized.py --fast                 short forms of all, on bundled data

With BAYESMKL_DATA=folder the sets of the papers are read from there; sections run on bundled data without.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import time
from types import ModuleType
from typing import Any

from _machine import measure
from _report import finish, parser

SECTIONS = ("tables", "mwu", "scale", "samkl", "corruption", "lmkl", "clmkl")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--section", choices=(*SECTIONS, "all"), default="all", help="which study; all of them by default"
    )
    options_parser.add_argument(
        "--splits", type=int, metavar="N", help="random splits of the studies that repeat themselves on some"
    )
    options = options_parser.parse_args()
    print(measure(options.fast).report() + "\n")
    for section in SECTIONS if options.section == "all" else (options.section,):
        start = time.perf_counter()
        module = importlib.import_module(f"_localized_{section}")
        text, numbers = run(module, options)
        print(f"== {section}, {time.perf_counter() - start:.0f} s\n")
        here = argparse.Namespace(**vars(options))
        if options.json and options.section == "all":  # one file per section
            here.json = options.json.with_stem(f"{options.json.stem}_{section}")
        finish(here, f"localized_{section}", text, numbers)
        if options.docs and hasattr(module, "draw"):
            module.draw(numbers)
        print()


def run(module: ModuleType, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Run a section; those without random splits know nothing of their number."""
    if options.splits is not None and "splits" in inspect.signature(module.run).parameters:
        return module.run(options.fast, splits=options.splits)
    return module.run(options.fast)


if __name__ == "__main__":
    main()
