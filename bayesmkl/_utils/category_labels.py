"""Labels of categories and groups: which ones are the same value in another spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

FLAGS = {"true": "1", "false": "0"}


def plain_label(value: Any) -> Any:
    """Return a label as a plain value: whole numbers without a fraction, other objects as their text.

    Examples
    --------
    >>> plain_label(np.float64(3.0)), plain_label(np.True_), plain_label((1, 2))
    (3, True, '(1, 2)')
    """
    if isinstance(value, np.floating):
        value = float(str(value))  # 0.1 in single precision as well
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def match_labels(given: Sequence[Any], known: Sequence[Any]) -> np.ndarray:
    """Return the position in `known` of the label that has the same value as each given one.

    Labels have the same value if they are equal, or become equal when surplus spaces, upper case, the spelling of
    numbers ("01" and 1.0 are 1) and that of flags ("true" is 1, in a column without other numbers than 0 and 1) are
    ignored, one after the other. Nothing is ignored that tells two known labels apart: where both "a" and "A" are
    known, upper case matters, and the spelling of numbers as well. Words such as "yes" are never numbers.

    Parameters
    ----------
    given : sequence of length n
        Plain labels, see `plain_label`, none of them missing.
    known : sequence of length n_known
        Different labels of the same kind, such as those of training samples.

    Returns
    -------
    positions : ndarray of int of shape (n,)
        -1 where no known label has the value.

    Examples
    --------
    >>> match_labels([1, "0.0", "FALSE ", "no"], [False, True])
    array([ 1,  0,  0, -1])
    >>> match_labels(["B", "A "], ["a", "b"]), match_labels(["B", "A "], ["a", "b", "A"])
    (array([1, 0]), array([-1,  2]))
    """
    found = dict.fromkeys(given, -1)
    readings: tuple[Callable[[Any], Any], ...] = (lambda label: label, str, _tidy, _folded, _number, _flag)
    for read in readings:
        if min(found.values(), default=0) >= 0:
            break
        place = {read(label): k for k, label in enumerate(known)}
        if len(place) < len(known) or (read is _flag and not all(map(_may_be_flag, place))):
            break
        for label, position in found.items():
            if position < 0:
                found[label] = place.get(read(label), -1)
    return np.array([found[label] for label in given], dtype=int)


def _tidy(label: Any) -> str:
    return " ".join(unicodedata.normalize("NFKC", str(label)).split())


def _folded(label: Any) -> str:
    return _tidy(label).casefold()


def _number(label: Any) -> str | Decimal:
    text = _folded(label)
    try:
        number = Decimal(text.replace("_", "?"))
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _flag(label: Any) -> str | Decimal:
    return _number(FLAGS.get(_folded(label), label))


def _may_be_flag(value: str | Decimal) -> bool:
    return isinstance(value, str) or value in (0, 1)
