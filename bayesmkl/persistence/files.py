"""Writing and reading of model files."""

from __future__ import annotations

import copy
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skops.io
from sklearn.exceptions import InconsistentVersionWarning

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.files import READING_ARRAYS, check_layout, written_beside
from bayesmkl._utils.memory import available_memory, format_bytes
from bayesmkl._utils.warnings import recording_warnings, warn_user
from bayesmkl.persistence.archive import (
    Contents,
    check_archive,
    plain_by_kind,
    untrusted_parts,
)
from bayesmkl.persistence.consistency import check_consistent
from bayesmkl.persistence.known_types import FUNCTIONS, PARTS, TRUSTED, SavedOutcome
from bayesmkl.persistence.parts import every_part, faults, in_one_piece, labels_of_index, plain_slice

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


FORMAT = "bayesmkl-model"
VERSION = 11  # of what a file says about a model; files of another one are refused
MOST_NAMES = 8  # in a message


def save_model(
    model: BaseEstimator, path: str | os.PathLike[str], trusted: Iterable[str | type] = ()
) -> None:
    """Write a model to a file that :func:`load_model` reads.

    Parameters
    ----------
    model : estimator
        An estimator of this package, or a Pipeline that holds one (of a search, ``best_estimator_``).
    path : path-like
        File to write, usually with the ending ``.skops``. It appears, or replaces an older one, only when it is
        complete and has been read back. A symbolic link of this name is replaced itself; the file that it points to
        is left alone.
    trusted : iterable of str or type, default=()
        Types and functions from elsewhere in the model, such as a kernel of your own, as in :func:`load_model`, which
        needs the same list.

    Raises
    ------
    ValueError
        If `model` holds something that no file can keep: a lambda, a function or class that is defined inside a
        function or in a script, a pandas object as a parameter. The message says where it is. Also if
        :func:`load_model` would refuse it: for types that are neither known nor in `trusted`, or parts that do not
        fit together.
    TypeError
        If `path` is no path.
    OSError
        If the file cannot be written; what was there before stays.

    Notes
    -----
    The format is that of skops: a zip archive with arrays in NumPy's format and a description in JSON. It holds no
    code. Functions and classes are kept by name and must be importable where the file is read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = BEMKLClassifier(tol=1e-3).fit(X, X[:, 0] > 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model.skops")
    ...     again = load_model(f"{folder}/model.skops")
    >>> bool(np.all(again.predict_proba(X) == model.predict_proba(X)))
    True
    """
    named = _names(trusted)
    for place, fault in faults(model, "model"):
        raise ValueError(f"`model` cannot be saved: {place} is {fault}")
    data = _packed(model)
    try:
        contents = check_archive(data)
        unknown = _untrusted(data, contents.schema, named)
        if not unknown:
            check_consistent(_content(data, named | plain_by_kind(contents.schema))["model"])
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"`model` cannot be saved, since `load_model` would refuse it: {_reason(error)}. Fit it again."
        ) from error
    if unknown:
        raise ValueError(
            f"`model` holds types that are not trusted, so nothing was saved: {_listed(unknown)}. If you know them: "
            f"{_remedy('save_model(model, path', sorted({*named, *unknown}))}, and the same for `load_model`."
        )
    with written_beside(path) as beside:
        beside.write_bytes(data)


def _packed(model: BaseEstimator) -> bytes:
    """Return the contents of a file for a model."""
    from bayesmkl import __version__

    instead: dict[int, Any] = {id(outcome): SavedOutcome.of(outcome) for outcome in Outcome}
    for part in every_part(model):
        if (labels := labels_of_index(part)) is not None:
            instead[id(part)] = labels
        elif (array := in_one_piece(part)) is not None:
            instead[id(part)] = array
        elif isinstance(part, slice):
            instead[id(part)] = plain_slice(part)
    try:
        copied = copy.deepcopy(model, instead)
        return skops.io.dumps({"format": FORMAT, "version": VERSION, "package": __version__, "model": copied})
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"`model` cannot be saved: skops fails with {type(error).__name__}: {error}. Pass parameters as numbers, "
            "strings, NumPy arrays and scikit-learn objects."
        ) from error


def load_model(path: str | os.PathLike[str], trusted: Iterable[str | type] = ()) -> Any:
    """Read a model that :func:`save_model` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : iterable of str or type, default=()
        Types and functions from elsewhere that may be built from the file, such as ``"my_package.my_kernel"``.
        This package's own types, and the data and the arithmetic of NumPy and scikit-learn, need no mention.

    Returns
    -------
    estimator
        The model; its predictions are the same to the last bit. An array that is stored backwards, as that of
        ``PCA(svd_solver="arpack")``, is read forwards: its products differ by rounding.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If `trusted` is no list of types and names; if the file is damaged, is no model file, comes from another
        layout, or holds types that are not trusted; then nothing is built from it. Also if the parts of the model do
        not fit together.
    MemoryError
        If the file takes more memory than there is, before that is taken.

    Warns
    -----
    InconsistentVersionWarning
        If another version of scikit-learn wrote parts of it.

    See Also
    --------
    save_model : Writes the file.

    Notes
    -----
    A file is judged before anything is built: the archive (nothing compressed, no paths, nothing twice), its arrays
    (as large as they say, numbers and text only) and every type and function that its description names. A name in
    `trusted` means that the file may build this type from any values, or call this function: list what you know.

    Files that another layout of this package wrote are refused: fit the model again.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank, load_model, save_model
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(BEMKLRegressor(KernelBank("linear")).fit(X, X[:, 0]), f"{folder}/model.skops")
    ...     model = load_model(f"{folder}/model.skops")
    >>> type(model).__name__, list(model.kernel_names_)
    ('BEMKLRegressor', ['linear · all'])
    """
    named = _names(trusted)
    data = _read(path)
    try:
        contents = check_archive(data)
        _require_memory(path, contents)
        unknown = _untrusted(data, contents.schema, named)
    except MemoryError:
        raise
    except Exception as error:  # whatever the parser of a damaged file stumbles over
        raise _unreadable(path, error) from error
    _check_layout(path, contents.schema)
    if unknown:
        raise _not_trusted(path, unknown)
    return _checked(path, _build(path, data, named | plain_by_kind(contents.schema)))


def _check_layout(path: str | os.PathLike[str], schema: dict[str, Any]) -> None:
    """Raise for the layout of another version before the types in it are judged, which may have other names."""
    try:
        header = schema["content"]
        version, package = (json.loads(header[name]["content"]) for name in ("version", "package"))
    except (KeyError, TypeError, ValueError):
        return  # something else, which is told when it is built
    check_layout(version, VERSION, f"`path` {str(path)!r}", package)


def _names(trusted: object) -> set[str]:
    """Return the names of what the user trusts."""
    if isinstance(trusted, (str, type)) or not isinstance(trusted, Iterable):
        raise ValueError(
            f"`trusted` must be a list of types or their names; got {trusted!r}. Put it in a list."
        )
    return {_name_of(item) for item in trusted}


def _name_of(item: object) -> str:
    if isinstance(item, str):
        return item
    module, name = getattr(item, "__module__", None), getattr(item, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError(
            f'`trusted` must be a list of types, functions or their names, such as "my_package.my_kernel"; it holds '
            f"{item!r}."
        )
    return f"{module}.{name}"


def _read(path: str | os.PathLike[str]) -> bytes:
    file = Path(path)
    if not file.is_file():  # nor a device or a pipe, which might never end
        raise FileNotFoundError(f"`path` must be a model file; there is none at {str(path)!r}.")
    _require(path, 2 * file.stat().st_size)
    return file.read_bytes()


def _require_memory(path: str | os.PathLike[str], contents: Contents) -> None:
    _require(path, contents.n_bytes)


def _require(path: str | os.PathLike[str], n_bytes: int) -> None:
    left = available_memory()
    if left is not None and n_bytes > left:
        raise MemoryError(
            f"`path`: reading {str(path)!r} takes {format_bytes(n_bytes)}, and {format_bytes(left)} are available. "
            "If it is your model, read it where there is more memory."
        )


def _untrusted(data: bytes, schema: dict[str, Any], named: set[str]) -> list[str]:
    """Return the names of what is neither known to this package or to skops, nor named by the user."""
    allowed = named | set(TRUSTED)
    unknown = untrusted_parts(schema, allowed)
    by_skops = set(skops.io.get_untrusted_types(data=data))
    return sorted(unknown | (by_skops - allowed - PARTS - FUNCTIONS - plain_by_kind(schema)))


def _content(data: bytes, named: set[str]) -> Any:
    """Build everything in a file whose types were judged."""
    with READING_ARRAYS:
        return skops.io.loads(data, trusted=sorted({*named, *TRUSTED, *PARTS, *FUNCTIONS}))


def _build(path: str | os.PathLike[str], data: bytes, named: set[str]) -> Any:
    """Build everything in a file whose types were judged, and warn once if another scikit-learn wrote it."""
    with recording_warnings() as caught:
        try:
            content = _content(data, named)
        except Exception as error:
            raise _unreadable(path, error) from error
    versions = [w.message for w in caught if isinstance(w.message, InconsistentVersionWarning)]
    if versions:
        first = versions[0]
        warn_user(
            f"{str(path)!r} holds parts of scikit-learn {first.original_sklearn_version}, and this is "
            f"{first.current_sklearn_version}: their results may differ. Fit the model again to be sure.",
            OtherScikitLearnWarning,
        )
    return content


class OtherScikitLearnWarning(InconsistentVersionWarning):
    """What scikit-learn warns of for each of its estimators, in one text for all."""

    def __init__(self, message: str) -> None:
        Warning.__init__(self, message)

    def __str__(self) -> str:
        return str(self.args[0])


def _checked(path: str | os.PathLike[str], content: object) -> Any:
    """Return the model of a file, once its parts fit together."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or "model" not in content:
        raise ValueError(
            f"`path` must be a file that `save_model` wrote; {str(path)!r} holds something else. "
            "Other skops files are read by skops.io.load."
        )
    check_layout(content.get("version"), VERSION, f"`path` {str(path)!r}", content.get("package"))
    try:
        check_consistent(content["model"])
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error
    return content["model"]


def _not_trusted(path: str | os.PathLike[str], names: list[str]) -> ValueError:
    return ValueError(
        f"`path` holds types that are not trusted, so nothing was loaded: {_listed(names)} in {str(path)!r}. "
        f"If you know them and where the file comes from: {_remedy('load_model(path', names)}."
    )


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _remedy(call: str, names: list[str]) -> str:
    return f"{call}, trusted={names!r})" if len(names) <= MOST_NAMES else "name them in `trusted`"


def _unreadable(path: str | os.PathLike[str], error: Exception) -> ValueError:
    return ValueError(
        f"`path` is not a readable model file: {str(path)!r} ({_reason(error)}). It is damaged, incomplete or "
        "something else; save the model again with `save_model`."
    )


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())[:300]
    if isinstance(error, (ValueError, zipfile.BadZipFile)) and reason:
        return reason
    return f"{type(error).__name__}: {reason}"
