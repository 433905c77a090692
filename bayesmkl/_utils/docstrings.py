"""Docstring entries that several classes or functions share, written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, TypeVar

# A line `%(key)s`, and what is added to the first line of the entry. It must be a whole line, so that percent signs
# and braces of formulas stay what they are.
MARKER = re.compile(r"^(?P<indent>[ ]*)%\((?P<key>[^()]+)\)s(?P<added>.*)$", re.MULTILINE)
_ENTRY = re.compile(
    r"^(?P<names>\w+(?:, \w+)*)(?P<variant>:\w+)?(?P<type> : .*)?\n(?P<text>(?:[ ]{4}.*\n|\n(?=[ ]{4}))+)",
    re.MULTILINE,
)
_SECTION = re.compile(r"^\w[\w ]*\n-{3,}$", re.MULTILINE)  # heading of a section
_CLASS_MARKS = " *+"  # at the end of a type, of attributes that may have a leading axis of classes

_Documented = TypeVar("_Documented", bound=Callable[..., Any])


def entries(text: str) -> dict[str, str]:
    """Return the numpydoc entries of a text by their names.

    A name may be followed by a variant, ``tol:libsvm``, which tells apart entries of one name and is no part of them.

    Examples
    --------
    >>> found = entries('''
    ...     tol : float, default=1e-3
    ...         Largest duality gap.
    ...     tol:libsvm : float, default=1e-3
    ...         Tolerance of LibSVM.
    ...     ''')
    >>> print(found["tol:libsvm"])
    tol : float, default=1e-3
        Tolerance of LibSVM.
    """
    found = {}
    for entry in _ENTRY.finditer(inspect.cleandoc(text) + "\n"):
        kind = (entry["type"] or "").rstrip(_CLASS_MARKS)
        found[entry["names"] + (entry["variant"] or "")] = f"{entry['names']}{kind}\n{entry['text'].rstrip()}"
    return found


def fill_docs(*sources: Mapping[str, str] | type) -> Callable[[_Documented], _Documented]:
    """Fill shared entries into the docstrings of a function, or of a class and the methods that it defines.

    A line ``%(key)s`` becomes the entry of that key. What follows on the line, such as a default, is added to the
    first line of the entry.

    Parameters
    ----------
    *sources : mapping of str to str, or type
        Tables of entries; the first one that has a key decides. A class lends the entries of its own docstring by
        keys such as ``LpMKLClassifier.p_norm``, without the marks * and + of attributes.

    Returns
    -------
    callable
        Decorator of a class or a function. It raises LookupError for a key that no source has.

    Examples
    --------
    >>> table = entries('''
    ...     max_iter : int
    ...         Maximum number of steps.
    ...     ''')
    >>> @fill_docs(table)
    ... class Solver:
    ...     '''Walk downhill.
    ...
    ...     %(max_iter)s, default=100
    ...     '''
    >>> print(inspect.getdoc(Solver))
    Walk downhill.
    <BLANKLINE>
    max_iter : int, default=100
        Maximum number of steps.
    """
    table: dict[str, str] = {}
    for source in reversed(sources):
        table.update(_lent(source) if isinstance(source, type) else source)

    def fill(documented: _Documented) -> _Documented:
        for one in _with_methods(documented):
            if one.__doc__:  # there are none under `python -OO`
                one.__doc__ = _filled(one, table)
        return documented

    return fill


def fulfil_docs(contract: type) -> Callable[[_Documented], _Documented]:
    """Give the methods of a class the sections that the contract which it fulfils has for them.

    A method whose docstring has sections of its own keeps it.

    Parameters
    ----------
    contract : type
        A protocol, whose methods say what they take and return.

    Returns
    -------
    callable
        Decorator of a class.

    Examples
    --------
    >>> class Loss:
    ...     def value(self, score):
    ...         '''Return the loss.
    ...
    ...         Returns
    ...         -------
    ...         float
    ...         '''
    >>> @fulfil_docs(Loss)
    ... class Hinge:
    ...     def value(self, score):
    ...         '''Return what is missing of a margin of one.'''
    >>> inspect.getdoc(Hinge.value).splitlines()[-3:]
    ['Returns', '-------', 'float']
    """

    def fulfil(documented: _Documented) -> _Documented:
        for name, method in vars(documented).items():
            promised = inspect.getdoc(getattr(contract, name, None))
            if isinstance(method, FunctionType) and method.__doc__ and promised:
                own, sections = inspect.cleandoc(method.__doc__), _SECTION.search(promised)
                if sections and not _SECTION.search(own):
                    method.__doc__ = f"{own}\n\n{promised[sections.start() :]}"
        return documented

    return fulfil


def _lent(source: type) -> dict[str, str]:
    return {f"{source.__name__}.{key}": entry for key, entry in entries(source.__doc__ or "").items()}


def _with_methods(documented: Any) -> Iterator[Any]:
    """Yield a function, or a class and the functions that it defines: wrappers and what is inside them."""
    if isinstance(documented, type):
        yield documented
    for member in vars(documented).values() if isinstance(documented, type) else [documented]:
        while isinstance(member, FunctionType):
            yield member
            member = getattr(member, "__wrapped__", None)


def _filled(documented: Any, table: Mapping[str, str]) -> str:
    def entry(marker: re.Match[str]) -> str:
        if marker["key"] not in table:
            raise LookupError(f"{documented.__qualname__}: no shared docstring entry {marker['key']!r}.")
        first, *others = table[marker["key"]].splitlines()
        return "\n".join((marker["indent"] + line).rstrip() for line in (first + marker["added"], *others))

    return MARKER.sub(entry, documented.__doc__)
