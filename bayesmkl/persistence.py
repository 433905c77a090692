"""Models in files, without pickle: a header, and a model as skops writes it, of known types alone."""

from __future__ import annotations

import copy
import functools
import importlib
import io
import json
import os
import re
import types
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import skops.io

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.files import READING_ARRAYS, check_layout, written_beside
from bayesmkl._utils.tables import LONGEST_LIST, listed

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FORMAT = "bayesmkl-model"
VERSION = 13  # of what a file says about a model; files of another one are refused
PROTOCOL = 2  # of skops. Parts of older ones check less, and a file could ask for them.

# Where classes are that models hold. Every class there is trusted. Others of this package, which write files, lock
# folders and run comparisons, are not, nor is what compiled code of scikit-learn believes without a look, such as
# trees and splines.
OF_MODELS = re.compile(
    r"bayesmkl\.((_estimator|_numerics|bemkl|discriminative|gp|kernels|outcomes)(\..+)?|_utils\.options|persistence)"
    r"|sklearn\.(calibration|gaussian_process\.kernels|impute\._iterative|model_selection\._split)"
    r"|sklearn\.utils\._metadata_requests"
)
# Data, and Python code that computes with them, which skops leaves to the user.
UNIVARIATE = "sklearn.feature_selection._univariate_selection"
KNOWN = frozenset((
    "builtins.object",
    "functools.partial",  # of a function that is judged itself
    *(f"numpy.{name}" for name in ("dtype", "max", "mean", "median", "min")),
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.compose._column_transformer.make_column_selector",
    *(f"{UNIVARIATE}.{name}" for name in ("chi2", "f_classif", "f_regression", "r_regression")),
    "sklearn.feature_selection._mutual_info.mutual_info_classif",
    "sklearn.feature_selection._mutual_info.mutual_info_regression",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.utils._bunch.Bunch",
))  # fmt: skip


class SavedOutcome:
    """An `Outcome` on its way into a file, by name: skops keeps no enumerations.

    Loading calls the class with the name, which gives the member itself.
    """

    name: str

    def __new__(cls, name: str) -> Any:
        """Return the outcome itself."""
        return Outcome[name]

    @classmethod
    def of(cls, outcome: Outcome) -> SavedOutcome:
        """Stand in for `outcome`."""
        saved = object.__new__(cls)
        saved.name = outcome.name
        return saved

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.name,)


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
        :func:`load_model` would refuse it, for types that are neither known nor in `trusted`.
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
    remedy = "Pass parameters as numbers, strings, NumPy arrays and scikit-learn objects"
    with _refusing("`model` cannot be saved: skops fails", remedy):
        data = skops.io.dumps(_header() | {"model": _savable(model)})
    unlisted, unknown = _judged(data, named)
    if unknown:
        raise ValueError(
            f"`model` holds types that are not trusted, so nothing was saved: {listed(unknown)}. If you know them: "
            f"{_remedy('save_model(model, path', sorted({*named, *unknown}))}, and the same for `load_model`."
        )
    with _refusing("`model` cannot be saved, since `load_model` would refuse it", "Fit it again"):
        _built(data, unlisted)
    with written_beside(path) as beside:
        beside.write_bytes(data)


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
        layout, or holds types that are not trusted; then nothing is built from it.

    Warns
    -----
    InconsistentVersionWarning
        Of scikit-learn, if another version of it wrote estimators of its own in the file.

    See Also
    --------
    save_model : Writes the file.

    Notes
    -----
    Every type and function that the file names is judged before anything is built. A name in `trusted` means that the
    file may build this type from any values, or call this function: list what you know. Numbers are not judged: keep
    a checksum of files that leave your hands.

    Files of another layout, such as those of 0.2, are refused with the version that wrote them. Fit the model again.

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
    if not Path(path).is_file():  # nor a device or a pipe, which might never end
        raise FileNotFoundError(f"`path` must be a model file; there is none at {str(path)!r}.")
    data = Path(path).read_bytes()
    damaged = f"`path` is not a readable model file: {str(path)!r}"
    with _refusing(damaged, "It is damaged or something else; save the model again with `save_model`"):
        header = _read_header(data)
        if header.get("format") == FORMAT and header.get("version") == VERSION:
            unlisted, unknown = _judged(data, named)
            model = None if unknown else _built(data, unlisted)
    if header.get("format") != FORMAT:
        raise ValueError(
            f"`path` must be a file that `save_model` wrote; {str(path)!r} holds something else. "
            "Other skops files are read by skops.io.load."
        )
    by = header.get("bayesmkl", header.get("package"))  # the name of the key in 0.2
    check_layout(header.get("version"), VERSION, f"`path` {str(path)!r}", by)
    if unknown:
        raise ValueError(
            f"`path` holds types that are not trusted, so nothing was loaded: {listed(unknown)} in {str(path)!r}. "
            f"If you know them and where the file comes from: {_remedy('load_model(path', unknown)}."
        )
    return model


# ------------------------------------------------------------------------------------------------ header and types


def _header() -> dict[str, Any]:
    """Return what a file says about itself beside the model."""
    from bayesmkl import __version__

    written_with = {package: version(package) for package in ("numpy", "scipy", "skops", "scikit-learn")}
    return {"format": FORMAT, "version": VERSION, "bayesmkl": __version__} | written_with


def _read_header(data: bytes) -> dict[str, Any]:
    """Read what a file says about itself; nothing is built."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > len(data):
            raise ValueError("it unpacks to more than its size, which no file of `save_model` does")
        schema = json.loads(archive.read("schema.json"))
    if schema["protocol"] not in range(PROTOCOL, 1000):
        raise ValueError(f"it has protocol {schema['protocol']!r} of skops, and at least {PROTOCOL} is read")
    return {
        key: json.loads(part["content"])
        for key, part in schema["content"].items()
        if isinstance(part, dict) and part.get("__loader__") == "JsonNode"
    }


def _judged(data: bytes, named: set[str]) -> tuple[list[str], list[str]]:
    """Return the names that skops does not trust by itself, and those of them that nobody else does."""
    with READING_ARRAYS:
        unlisted = skops.io.get_untrusted_types(data=data)
    return unlisted, [name for name in unlisted if name not in named and not _is_known(name)]


def _is_known(name: str) -> bool:
    """Return whether a name is that of a class of this package or of a kind of number, or is listed."""
    if name in KNOWN:
        return True
    module, _, last = name.rpartition(".")
    if module == "numpy":
        kind = getattr(np, last, None)
        return isinstance(kind, type) and issubclass(kind, np.generic)
    if OF_MODELS.fullmatch(module) is None:
        return False
    try:
        found = getattr(importlib.import_module(module), last, None)
    except ImportError:
        return False
    return isinstance(found, type) and (found.__module__, found.__name__) == (module, last)


def _built(data: bytes, unlisted: list[str]) -> Any:
    """Build the model of a file whose types were judged."""
    with READING_ARRAYS:
        return skops.io.loads(data, trusted=unlisted)["model"]


def _names(trusted: Any) -> set[str]:
    """Return the names of what the user trusts."""
    is_list = isinstance(trusted, Iterable) and not isinstance(trusted, (str, type))
    names = {
        one if isinstance(one, str) else f"{getattr(one, '__module__', '')}.{getattr(one, '__name__', '')}"
        for one in (trusted if is_list else [None])
    }
    if "." in names:
        raise ValueError(
            '`trusted` must be a list of types, functions or their names, such as "my_package.my_kernel"; got '
            f"{trusted!r}. Put it in a list."
        )
    return names


def _remedy(call: str, names: list[str]) -> str:
    return f"{call}, trusted={names!r})" if len(names) <= LONGEST_LIST else "name them in `trusted`"


@contextmanager
def _refusing(what: str, remedy: str) -> Iterator[None]:
    """Say what cannot be done, why, and what to do, whatever the parser of a file stumbles over."""
    try:
        yield
    except (MemoryError, _CannotBeKept):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        is_told = isinstance(error, (ValueError, zipfile.BadZipFile)) and reason
        raise ValueError(
            f"{what} ({reason if is_told else f'{type(error).__name__}: {reason}'}). {remedy}."
        ) from error


# ------------------------------------------------------------------------------------------- parts of a model


class _CannotBeKept(ValueError):
    """Something in a model that a file could name but not restore."""


def _savable(model: BaseEstimator) -> Any:
    """Return a copy of a model in which skops can keep everything.

    Raises
    ------
    ValueError
        For what it cannot, with the place.
    """
    instead: dict[int, Any] = {id(outcome): SavedOutcome.of(outcome) for outcome in Outcome}
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("model", model)]
    while left:
        place, part = left.pop()
        if id(part) in seen or part is None or isinstance(part, (str, bytes, int, float, np.generic)):
            continue
        seen.add(id(part))
        if isinstance(part, slice):  # whose ends may be NumPy's, which JSON has not
            ends = (part.start, part.stop, part.step)
            instead[id(part)] = slice(*(int(e) if isinstance(e, np.integer) else e for e in ends))
        elif isinstance(part, np.ndarray) and _has_columns_apart(part):
            instead[id(part)] = np.asfortranarray(part)
        elif (labels := _labels_of_index(part)) is not None:
            instead[id(part)] = labels
        elif (fault := _fault(part)) is not None:
            raise _CannotBeKept(f"`model` cannot be saved: {place} is {fault}")
        else:
            left.extend(reversed(list(_parts(part, place))))
    return copy.deepcopy(model, instead)


def _has_columns_apart(part: np.ndarray) -> bool:
    """Return whether an array is some rows of one that is stored by columns.

    Files hold such an array row by row, and products of what is read back would differ in the last digit.
    """
    if part.dtype.kind not in "biufc" or part.flags.c_contiguous or part.flags.f_contiguous:
        return False
    return list(part.strides) == sorted(part.strides)


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, and where."""
    if isinstance(value, Mapping):
        yield from ((f"{place}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            yield from ((f"{place}[{i}]", part) for i, part in enumerate(value.ravel()))
    elif isinstance(value, (list, tuple, set)):
        names = getattr(value, "_fields", None)
        for i, part in enumerate(value):
            yield f"{place}.{names[i]}" if names else f"{place}[{i}]", part
    elif isinstance(value, functools.partial):
        held = {"func": value.func, "args": value.args, "keywords": value.keywords}
        yield from ((f"{place}.{name}", part) for name, part in held.items())
    elif isinstance(value, types.MethodType):
        yield f"{place}.__self__", value.__self__
    elif hasattr(value, "__dict__") and not isinstance(value, (types.FunctionType, type)):
        state = value.__getstate__()  # what files hold of it
        kept = state if isinstance(state, dict) else vars(value)
        yield from ((f"{place}.{name}", part) for name, part in kept.items())


def _labels_of_index(part: object) -> np.ndarray | None:
    """Return the labels of an index of pandas as an array, if they are text or numbers; None of anything else.

    Transformers of scikit-learn hold the names of columns so, where they give frames.
    """
    if not _is_of_pandas(part) or type(part).__name__ not in ("Index", "RangeIndex"):
        return None
    labels = part.tolist()  # type: ignore[attr-defined]
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=object)
    return np.array(labels) if all(type(label) in (bool, int, float) for label in labels) else None


def _is_of_pandas(part: object) -> bool:
    return type(part).__module__.partition(".")[0] == "pandas"


def _fault(part: object) -> str | None:
    """Return what is wrong with an object that a file could name but not restore, and what to do."""
    if isinstance(part, types.ModuleType):
        return f"the module {part.__name__!r}, which no file keeps. Leave out what holds it."
    if _is_of_pandas(part):
        return f"a pandas {type(part).__name__}, which skops cannot keep. Pass a NumPy array or a list."
    is_named = isinstance(part, (types.FunctionType, type))
    named: Any = part if is_named else type(part)
    kind, name = "class" if isinstance(named, type) else "function", named.__qualname__
    remedy = "Define it at the top level of a module that can be imported where the model is loaded."
    if named.__name__ == "<lambda>":
        return f"a lambda, which has no name to be found by. Give it one with `def`. {remedy}"
    of = "" if is_named else "an object of "
    if "." in name:
        return f"{of}the {kind} {name!r}, which is defined inside another one. {remedy}"
    if named.__module__ in ("__main__", "__mp_main__"):
        return f"{of}the {kind} {name!r} of a script or notebook. {remedy}"
    return None
