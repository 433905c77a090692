"""What may become of bad input: the right number, or an error of this package that names the argument."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

import bayesmkl

# Where an error may be raised: in the package, or in the checks of scikit-learn, which name the argument too.
OURS = Path(bayesmkl.__file__).parent
CHECKS = tuple(Path(sklearn.__file__).parent / part for part in ("utils", "base.py"))


class Thing:
    """Nothing that any function takes, with the same name in every process."""

    def __repr__(self) -> str:
        return "Thing()"


THING = Thing()
LONGEST = 1500  # characters of a message; an array that is printed whole is longer


def assert_refused(
    call: Callable[[], Any], *names: str, kinds: type | tuple[type, ...] = (ValueError, TypeError)
) -> BaseException:
    """Check that `call` raises an error of `kinds` from the package, whose message has each of `names`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = call()
    except Exception as error:
        refusal = error
    else:
        pytest.fail(f"accepted, with the result {result!r}")
    assert isinstance(refusal, kinds), f"{type(refusal).__name__}: {refusal}"
    assert not isinstance(refusal, np.linalg.LinAlgError), f"a bare LinAlgError: {refusal}"
    raiser = Path(traceback.extract_tb(refusal.__traceback__)[-1].filename)
    assert any(raiser.is_relative_to(place) for place in (OURS, *CHECKS)), f"raised in {raiser}: {refusal}"
    message = str(refusal)
    absent = [
        name
        for name in names
        if not re.search(rf"\b{name}\b" if len(name) == 1 else re.escape(name), message)
    ]
    assert not absent, f"the message does not mention {absent[0]!r}: {message}"
    assert len(message) <= LONGEST, f"a message of {len(message)} characters"
    return refusal


def each_refused(cases: Iterable[tuple[str, Callable[[], Any], str]], **options: Any) -> None:
    """Check that all of the named calls are refused, each with an error that mentions the last of its three."""
    failed = {}
    for label, call, name in cases:
        try:
            assert_refused(call, name, **options)
        except (AssertionError, pytest.fail.Exception) as error:
            failed[label] = str(error)
    assert not failed, "\n".join(f"{label}: {error}" for label, error in failed.items())


def quietly(call: Callable[[], Any], *expected: type[Warning]) -> Any:
    """Return the result of `call`, which may warn once of the `expected` kinds and of nothing else."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    strange = [w for w in caught if not issubclass(w.category, expected)] if expected else caught
    assert not strange, f"an unexpected warning: {strange[0].category.__name__}: {strange[0].message}"
    assert len(caught) <= max(1, len(expected)), f"{len(caught)} warnings, at most one of a kind is useful"
    return result
