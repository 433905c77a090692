"""Functions between `fit` and the first update of a model: how many, and how deep they are nested.

    python benchmarks/call_depth.py [--fast] [--functions]

A reader who follows a fit has to pass all of them. Counted are distinct functions, methods, properties and lambdas
of bayesmkl, each once however often it is called, from the call of `fit` on. Comprehensions and generator
expressions are part of the function that they stand in (later Pythons run them there); functions of NumPy, SciPy and
scikit-learn are not counted. The depth is the number of such functions that are under way when the first update
begins: of q(a) in BEMKL, `update_dual`; of the SVMs in SimpleMKL, `Evaluator.__call__`. In a classifier of BEMKL it
is that of the first fold, by which the scale of the intermediate outputs is chosen. Fits of the default bank evaluate
kernels; those of precomputed kernels, which are those of BEMKL's default bank, do not. How many of the functions are
those of kernels (`bayesmkl.kernels`: functions, banks, checks, stacks) and of scalar parameters and given arrays
(`bayesmkl._utils`) is in two columns: what is left is the estimator, the model and the loop.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import bayesmkl
from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl.models.moments import update_dual
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.discriminative.svm.evaluator import Evaluator

PACKAGE = os.path.dirname(bayesmkl.__file__) + os.sep
INLINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
GOALS = {"functions": 99, "depth": 9}


class Calls(NamedTuple):
    """What ran until the first update."""

    functions: list[str]  # distinct ones, by file and name, in the order of their first calls
    nested: list[str]  # those under way, outermost first


class _Reached(BaseException):
    """The first update begins; nothing catches this."""


def calls_before(code: CodeType, model: Any, X: np.ndarray, y: np.ndarray) -> Calls:
    """Fit `model` until the function with that code is called.

    Raises
    ------
    RuntimeError
        If the fit ends without it.
    """
    functions: dict[str, None] = {}
    nested: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_own(frame.f_code):
            return
        functions.setdefault(_name(frame.f_code))
        if frame.f_code is code:
            sys.setprofile(None)
            at: FrameType | None = frame
            while at is not None:
                if _is_own(at.f_code):
                    nested.append(_name(at.f_code))
                at = at.f_back
            raise _Reached

    sys.setprofile(watch)
    try:
        model.fit(X, y)
    except _Reached:
        return Calls(list(functions), nested[::-1])
    finally:
        sys.setprofile(None)
    raise RuntimeError(f"{model} was fitted without a call of {code.co_qualname}.")


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE) and code.co_name not in INLINE


def _name(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno} {code.co_qualname}"


def measure(n_samples: int) -> dict[tuple[str, str], Calls]:
    """Count for three estimators, with the default bank and with precomputed kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 5))
    score = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=n_samples)
    labels = (score > np.median(score)).astype(int)
    kernels = KernelBank("auto").fit_transform(X)  # the default bank
    found = {}
    for make, target, first in (
        (BEMKLClassifier, labels, update_dual),
        (BEMKLRegressor, score, update_dual),
        (SimpleMKLClassifier, labels, Evaluator.__call__),
    ):
        for samples, given in (("bank", None), ("precomputed", "precomputed")):
            model = make(given)
            with warnings.catch_warnings(action="ignore"):
                calls = calls_before(first.__code__, model, X if given is None else kernels, target)
            found[make.__name__, samples] = calls
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="fewer samples; the counts are the same")
    parser.add_argument("--functions", action="store_true", help="list the functions as well")
    given = parser.parse_args()
    found = measure(60 if given.fast else 400)
    print(f"{'estimator':22}{'kernels':14}{'functions':>10}{'kernels/':>10}{'_utils/':>10}{'depth':>8}")
    for (estimator, samples), calls in found.items():
        inside = [sum(name.startswith(part) for name in calls.functions) for part in ("kernels/", "_utils/")]
        print(
            f"{estimator:22}{samples:14}{len(calls.functions):10}{inside[0]:10}{inside[1]:10}{len(calls.nested):8}"
        )
    print("asked of BEMKL: " + ", ".join(f"{name} at most {value}" for name, value in GOALS.items()))
    if given.functions:
        for (estimator, samples), calls in found.items():
            print(f"\n{estimator}, {samples}, nested:", *calls.nested, sep="\n  ")
            print("all:", *calls.functions, sep="\n  ")


if __name__ == "__main__":
    main()
