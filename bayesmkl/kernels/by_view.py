"""Parameters of a bank that are one value for all views, or a mapping from the names of views to values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from bayesmkl._utils.validation import shown
from bayesmkl.kernels.views import View

__all__ = ["ParametersByView", "check_entries", "per_view", "read_by_view"]

Value = TypeVar("Value")
BY_VIEW = ("kernels", "normalize")  # parameters that may be mappings


def read_by_view(name: str, given: object, read: Callable[[Any, str], Value]) -> Value | dict[str, Value]:
    """Read a parameter, or each of its values where it is a mapping from names of views.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    given : object or mapping of view name to object
    read : callable
        Takes a value and what to call it in messages, and returns what it stands for.

    Raises
    ------
    ValueError
        For a mapping that is empty or names a view twice.

    Examples
    --------
    >>> from bayesmkl.kernels.adapters import as_kernels
    >>> read_by_view("kernels", {"left": "linear", "right": ["rbf"]}, as_kernels)
    {'left': [SklearnPairwise(metric='linear')], 'right': [SklearnPairwise(metric='rbf')]}
    """
    if not isinstance(given, Mapping):
        return read(given, name)
    if not given:
        raise ValueError(f"`{name}` must have an entry for every view; got an empty mapping.")
    names = Counter(str(view) for view in given)
    twice = [view for view, count in names.items() if count > 1]
    if twice:
        raise ValueError(f"`{name}` must have one entry for a view; got {names[twice[0]]} for {twice[0]!r}.")
    return {str(view): read(value, f"{name}[{view!r}]") for view, value in given.items()}


def per_view(name: str, values: Value | dict[str, Value], views: Sequence[View]) -> list[Value]:
    """Return the value for each view, the same for all of them where there is no mapping.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    values : object or dict
        Result of `read_by_view`.
    views : sequence of View

    Raises
    ------
    ValueError
        For a view without an entry, an entry without a view, and views that have one name.

    Examples
    --------
    >>> import numpy as np
    >>> views = [View("left", np.array([0])), View("right", np.array([1]))]
    >>> per_view("normalize", {"right": None, "left": "trace"}, views)
    ['trace', None]
    >>> per_view("normalize", {"left": "trace"}, views)
    Traceback (most recent call last):
        ...
    ValueError: `normalize` must have an entry for every view; got none for 'right'. Its entries are 'left'. ...
    """
    if not isinstance(values, dict):
        return [values] * len(views)
    counts = Counter(view.name for view in views)
    without = [view for view in counts if view not in values]
    unknown = [view for view in values if view not in counts]
    if unknown:
        close = get_close_matches(unknown[0], without or counts, n=1)
        hint = (
            f"Did you mean {close[0]!r}?"
            if close
            else f"The views are {_listed(counts)}: name others, `views={{name: columns}}`, or leave it out."
        )
        raise ValueError(
            f"`{name}` must have entries for views alone; got one for {unknown[0]!r}, which is none. {hint}"
        )
    if without:
        raise ValueError(
            f"`{name}` must have an entry for every view; got none for {_listed(without)}. Its entries are "
            f"{_listed(values)}. Add one, or leave the view out of `views`."
        )
    twice = [view for view, count in counts.items() if count > 1]
    if twice:
        raise ValueError(
            f"`{name}` must be the same for all views where two have one name; got {counts[twice[0]]} views that are "
            f"called {twice[0]!r}. Name them, `views={{name: columns}}`."
        )
    return [values[view.name] for view in views]


def check_entries(bank: Any, views: Sequence[View]) -> None:
    """Raise for a bank whose parameters have other entries than its views.

    Parameters
    ----------
    bank : KernelBank
        Fitted or not.
    views : sequence of View
        Its views on a table.

    Raises
    ------
    ValueError
        As `per_view` does.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank
    >>> check_entries(KernelBank({"left": "rbf"}), [View("right", np.array([0]))])
    Traceback (most recent call last):
        ...
    ValueError: `kernels` must have entries for views alone; got one for 'left', which is none. The views ...
    """
    for name in BY_VIEW:
        per_view(name, read_by_view(name, getattr(bank, name), lambda value, _: value), views)


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return shown(list(names))[1:].removesuffix("]")


class ParametersByView(BaseEstimator):
    """Give entries of parameters that are mappings names of their own, such as ``kernels__expression__width``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of kernels are among them, and the entries of mappings, as ``kernels__expression``.

        Returns
        -------
        dict of str to object
            The parameters themselves, not copies.
        """
        found = super().get_params(deep=deep)
        for name in BY_VIEW if deep else ():
            if isinstance(found[name], Mapping):
                for view, value in found[name].items():
                    found[f"{name}__{view}"] = value
                    if _has_parameters(value):
                        found |= {f"{name}__{view}__{key}": one for key, one in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            As `get_params` names them. A mapping is replaced by one with other entries, not changed itself.

        Returns
        -------
        self : estimator
            With these parameters; what was learned stays until the next `fit`.

        Raises
        ------
        ValueError
            For an unknown name.
        """
        of_views: dict[str, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            is_entry = rest and name in BY_VIEW and isinstance(params.get(name, getattr(self, name)), Mapping)
            if is_entry:
                of_views.setdefault(name, {})[rest] = value
            else:
                own[key] = value
        super().set_params(**own)
        for name, changes in of_views.items():
            setattr(self, name, _changed(name, getattr(self, name), changes))
        return self


def _changed(name: str, given: Mapping[Any, Any], changes: dict[str, Any]) -> dict[Any, Any]:
    """Return a mapping with other entries, whose kernels have other parameters where changes say so."""
    by_name, found = {str(view): view for view in given}, dict(given)
    for key in sorted(changes, key=len):  # an entry before its parameters
        views = [view for view in by_name if f"{key}__".startswith(f"{view}__")]
        view = max(views, key=len, default="")
        parameter = key[len(view) + 2 :]
        if not views or (parameter and not _has_parameters(found[by_name[view]])):
            raise ValueError(
                f"Invalid parameter {f'{name}__{key}'!r}. `{name}` has entries for {_listed(by_name)}, and "
                "parameters of those that are one kernel."
            )
        if parameter:
            found[by_name[view]].set_params(**{parameter: changes[key]})
        else:
            found[by_name[view]] = changes[key]
    return found


def _has_parameters(value: object) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)
