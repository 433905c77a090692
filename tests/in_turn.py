"""Many small cases as few tests: they run one after the other, and those that fail are named."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["in_turn", "together"]


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
            _run(test, names, cases, fixtures)

        others = [p for p in inspect.signature(test).parameters.values() if p.name not in names]
        first = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        tests = [pytest.param(held, id=key, marks=held[0].marks) for key, held in groups.items()]
        return pytest.mark.parametrize("cases", tests)(run)

    return decorate


def together(test: Callable[..., None]) -> Callable[..., None]:
    """Make one test of all cases of the ``pytest.mark.parametrize`` decorators below, of marked cases another one.

    Fixtures are made once for all of them: none that cases change may be among them.
    """
    parametrized = [mark for mark in test.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    test.pytestmark = [mark for mark in test.pytestmark if mark.name != "parametrize"]  # type: ignore[attr-defined]
    names: list[str] = []
    choices = []
    for mark in parametrized:
        own, values = mark.args
        own = [name.strip() for name in own.split(",")] if isinstance(own, str) else own
        names += own
        choices.append([_case(value, len(own)) for value in values])
    cases = [
        pytest.param(
            *(value for part in parts for value in part.values),
            marks=[mark for part in parts for mark in part.marks],
            id=", ".join(_shown(part) for part in parts),
        )
        for parts in itertools.product(*choices)
    ]
    return in_turn(tuple(names), cases, by=lambda *_: "all")(test)


def _case(value: Any, n_names: int) -> Any:
    """Return a value of parametrize as what ``pytest.param`` makes of it."""
    if isinstance(value, type(pytest.param())):
        return value
    return pytest.param(value) if n_names == 1 else pytest.param(*value)


def _shown(case: Any) -> str:
    return case.id if isinstance(case.id, str) else ", ".join(repr(value)[:80] for value in case.values)


def _run(test: Callable[..., None], names: Iterable[str], cases: list[Any], fixtures: dict[str, Any]) -> None:
    """Run every case; raise the first failure, and name the others."""
    failed: list[tuple[str, BaseException]] = []
    for case in cases:
        try:
            test(**dict(zip(names, case.values, strict=True)), **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            failed.append((_shown(case), error))
    if failed:
        error = failed[0][1]
        error.add_note(f"in the case {failed[0][0]}, one of {len(cases)}")
        for shown, other in failed[1:]:
            error.add_note(f"and in the case {shown}: {type(other).__name__}: {str(other)[:200]}")
        raise error
