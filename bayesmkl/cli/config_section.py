"""Tables of a configuration file that know where they stand, so that every complaint names file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bayesmkl.datasets._tables import named

__all__ = ["Section", "did_you_mean", "read_toml"]

_KINDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


def read_toml(path: Path) -> Section:
    """Read a TOML file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no configuration file {str(path)!r}.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: this is no TOML: {error}. Texts need quotes, lists brackets.") from error
    return Section(values, "", path)


def did_you_mean(word: str, known: Collection[str], n: int = 1) -> str:
    """Suggest the nearest known words, or list what is known; a sentence that ends the message."""
    lower = {name.lower(): name for name in known}
    close = [lower[near] for near in get_close_matches(str(word).lower(), lower, n=n, cutoff=0.55)]
    return f"did you mean {named(close)}?" if close else f"known: {named(sorted(known)) or 'nothing'}."


class Section:
    """A table of a configuration file.

    Parameters
    ----------
    values : dict
        Contents of the table.
    path : str
        Where it stands, such as "models.BEMKL.grid"; "" for the whole file.
    file : Path
        The file.
    """

    def __init__(self, values: dict[str, Any], path: str, file: Path) -> None:
        self.values = values
        self.path = path
        self.file = file

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def key_path(self, key: str | None = None) -> str:
        """Return the full name of a key, or of the table itself."""
        return ".".join(part for part in (self.path, key) if part)

    def wrong(self, key: str | None, message: str) -> ValueError:
        """Make the error that says what is wrong with a key."""
        return ValueError(f"{self.file}: `{self.key_path(key)}` {message}")

    @contextmanager
    def blamed(self, key: str | None = None) -> Iterator[None]:
        """Name the key in errors from elsewhere."""
        try:
            yield
        except (ValueError, TypeError, OSError) as error:
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(f"{self.file}: `{self.key_path(key)}`: {error}") from error

    def refuse_others(self, known: Collection[str], what: str) -> None:
        """Raise for keys beside the known ones; `what` is what the table describes, such as "a data set"."""
        for key in self.values:
            if key not in known:
                raise self.wrong(key, f"is no key of {what}; {did_you_mean(key, known)}")

    def take(self, key: str, kind: type, default: object = None) -> Any:
        """Return a value of the given type, or the default where the key is absent."""
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.wrong(key, f"must be {_KINDS[kind]}; got {value!r}.")
        return value

    def need(self, key: str, kind: type, example: str) -> Any:
        """Return a value that must be there; `example` shows how to give it."""
        if key not in self.values:
            raise self.wrong(None, f"lacks `{key}`; give it, such as {example}.")
        return self.take(key, kind)

    def integer(self, key: str, low: int, default: object = None) -> Any:
        """Return a whole number of at least `low`, or the default where the key is absent."""
        value = self.take(key, int, default)
        if key in self.values and value < low:
            raise self.wrong(key, f"must be a whole number >= {low}; got {value}.")
        return value

    def texts(self, key: str, default: object = None) -> Any:
        """Return a tuple of texts from a list of them or a single one, or the default where the key is absent."""
        if key not in self.values:
            return default
        value = self.values[key]
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self.wrong(key, f"must be text or a list of texts; got {value!r}.")
        return tuple(found)

    def section(self, key: str) -> Section:
        """Return the table under a key, an empty one where the key is absent."""
        return Section(self.take(key, dict, {}), self.key_path(key), self.file)

    def sections(self) -> dict[str, Section]:
        """Return all tables in this one by name."""
        return {name: self.section(name) for name in self.values}
