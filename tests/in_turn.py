"""Many small cases as few tests: they run one after the other, and the one that fails is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["in_turn"]


def in_turn(
    names: tuple[str, ...], cases: Iterable[Any], by: Callable[..., Any] = lambda first, *_: first
) -> Callable[..., Any]:
    """Parametrize a test by groups of cases that share their marks and what `by` makes of their arguments.

    A test costs milliseconds before it begins, in every process: more than most cases of bad input. Arguments and
    cases are those of ``pytest.mark.parametrize``. Groups run in the order of their first cases.
    """
    groups: dict[str, list[Any]] = {}
    for case in cases:
        case = case if isinstance(case, type(pytest.param())) else pytest.param(*case)
        key = "-".join([str(by(*case.values)), *(mark.name for mark in case.marks)])
        groups.setdefault(key, []).append(case)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(cases: list[Any], **fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**dict(zip(names, case.values, strict=True)), **fixtures)
                except BaseException as error:
                    shown = case.id or ", ".join(repr(value)[:80] for value in case.values)
                    error.add_note(f"in the case {shown}, one of {len(cases)}")
                    raise

        others = [p for p in inspect.signature(test).parameters.values() if p.name not in names]
        first = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        tests = [pytest.param(held, id=key, marks=held[0].marks) for key, held in groups.items()]
        return pytest.mark.parametrize("cases", tests)(run)

    return decorate
