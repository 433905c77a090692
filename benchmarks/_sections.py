"""Benchmarks in sections: one module each, run together or alone."""

from __future__ import annotations

import argparse
import importlib
import inspect
import time
from collections.abc import Callable, Sequence

from _machine import measure
from _report import finish, parser


def run_sections(
    doc: str | None,
    study: str,
    sections: Sequence[str],
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Run the function `run` of the modules ``_<study>_<section>`` that the command line asks for.

    It takes `fast`, and of further options those that are among its parameters and were given.
    """
    options_parser = parser(doc)
    options_parser.add_argument(
        "--section", choices=(*sections, "all"), default="all", help="which study; all of them by default"
    )
    if add_options is not None:
        add_options(options_parser)
    options = options_parser.parse_args()
    print(measure(options.fast).report() + "\n")
    for section in sections if options.section == "all" else (options.section,):
        start = time.perf_counter()
        module = importlib.import_module(f"_{study}_{section}")
        known = inspect.signature(module.run).parameters
        given = {name: value for name, value in vars(options).items() if name in known and value is not None}
        text, numbers = module.run(**given)
        print(f"== {section}, {time.perf_counter() - start:.0f} s\n")
        here = argparse.Namespace(**vars(options))
        if options.json and options.section == "all":  # one file per section
            here.json = options.json.with_stem(f"{options.json.stem}_{section}")
        finish(here, f"{study}_{section}", text, numbers)
        print()
