"""Global discriminative methods: certificates, speed, and the studies of the papers behind them.

    python benchmarks/global_mkl.py --section certificates     duality gaps on random and real problems
    python benchmarks/global_mkl.py --section speed            seconds beside those of the machines inside
    python benchmarks/global_mkl.py --section primal           PrimalMKL: weight schemes, solvers, tables of the paper
    python benchmarks/global_mkl.py --section obmkl            OBMKL: the protocol of its paper, alignment and speed
    python benchmarks/global_mkl.py --section laplacian        LapMKL: transduction, tables of the paper
    python benchmarks/global_mkl.py --fast                     short forms of all, on bundled data

With BAYESMKL_DATA=folder the sets of the papers are read from there; sections run on bundled data without.
"""

from __future__ import annotations

import argparse
import importlib
import time

from _machine import measure
from _report import finish, parser

SECTIONS = ("certificates", "speed", "primal", "obmkl", "laplacian")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--section", choices=(*SECTIONS, "all"), default="all", help="which study; all of them by default"
    )
    options = options_parser.parse_args()
    print(measure(options.fast).report() + "\n")
    for section in SECTIONS if options.section == "all" else (options.section,):
        start = time.perf_counter()
        module = importlib.import_module(f"_global_{section}")
        text, numbers = module.run(options.fast)
        print(f"== {section}, {time.perf_counter() - start:.0f} s\n")
        here = argparse.Namespace(**vars(options))
        if options.json and options.section == "all":  # one file per section
            here.json = options.json.with_stem(f"{options.json.stem}_{section}")
        finish(here, f"global_{section}", text, numbers)
        if options.docs and hasattr(module, "draw"):
            module.draw(numbers)
        print()


if __name__ == "__main__":
    main()
