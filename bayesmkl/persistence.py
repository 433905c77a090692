"""Models in files, without pickle: a file holds data and type names, and only known types are ever built from it."""

from __future__ import annotations

import copy
import functools
import os
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import skops.io
from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.files import written_beside
from bayesmkl._numerics.truncated_normal import TruncatedMoments
from bayesmkl.bemkl import (
    BEMKLClassifier,
    BEMKLMultitaskClassifier,
    BEMKLMultitaskRegressor,
    BEMKLRegressor,
    _moments,
)
from bayesmkl.bemkl._absent_views import AbsentViews, CompletedOutputs, ViewMoments
from bayesmkl.bemkl._task_parts import LabelState, MultitaskState, TargetState
from bayesmkl.bemkl._tasks import TaskReadouts
from bayesmkl.bemkl.binary import BinaryState
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.multiclass import MulticlassState
from bayesmkl.bemkl.multinomial import MultinomialState
from bayesmkl.bemkl.multioutput import MultioutputState
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.bemkl.regression import RegressionState
from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    AlignmentMKLRegressor,
    BestKernelClassifier,
    CLMKLClassifier,
    EasyMKLClassifier,
    GaussianGating,
    GMKLClassifier,
    GroupGating,
    LapMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    LMKLRegressor,
    LpMKLClassifier,
    LpMKLRegressor,
    MWUMKLClassifier,
    OBMKLClassifier,
    PrimalMKLClassifier,
    PrimalMKLOneClass,
    PrimalMKLRegressor,
    SAMKLClassifier,
    SigmoidGating,
    SimpleMKLClassifier,
    SimpleMKLRegressor,
    SMOMKLClassifier,
    SoftmaxGating,
    SwMKLClassifier,
    UniformMKLClassifier,
    UniformMKLRegressor,
)
from bayesmkl.discriminative._clustering import Clusters
from bayesmkl.discriminative._machines import Machine
from bayesmkl.discriminative._outer import MKLResult
from bayesmkl.discriminative._patterns import SAMKLResult
from bayesmkl.discriminative._success import Success
from bayesmkl.discriminative.ldmkl import LDMKLResult
from bayesmkl.discriminative.lmkl import LMKLResult
from bayesmkl.discriminative.swmkl import SwMKLResult
from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    Polynomial,
    Tanimoto,
)
from bayesmkl.kernels.adapters import CallableKernel, GaussianProcess, SklearnPairwise
from bayesmkl.kernels.clip import Clipping
from bayesmkl.kernels.lowrank import LowRankStack
from bayesmkl.kernels.normalize import Center, Spherical, Trace
from bayesmkl.kernels.views import View

__all__ = ["load_model", "save_model"]

FORMAT = "bayesmkl-model"
VERSION = 1  # of the file's layout; raise it when older code could not read what newer code writes


class SavedOutcome:
    """An `Outcome` on its way into a file, by name: skops keeps no enumerations.

    Loading calls the class with the name, which gives the member itself.
    """

    name: str

    def __new__(cls, name: str) -> Any:
        return Outcome[name]

    @classmethod
    def of(cls, outcome: Outcome) -> SavedOutcome:
        """Stand in for `outcome`."""
        saved = object.__new__(cls)
        saved.name = outcome.name
        return saved

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.name,)


# All that this package's fitted models are made of, beside what skops itself knows (NumPy, scikit-learn's
# estimators). Nothing else is built from a file unless the user trusts it by name.
OWN_TYPES: tuple[type, ...] = (
    BEMKLClassifier, BEMKLRegressor, BinaryState, RegressionState, MulticlassState, MultinomialState,
    MultioutputState, AbsentViews, CompletedOutputs, ViewMoments, NonnegativeReadout, CutOffNormals, CutOffPair,
    BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, MultitaskState, LabelState, TargetState, TaskReadouts,
    PosteriorDraws, Dirichlet, SpikeSlab,
    _moments.Gamma, _moments.Gaussian, _moments.PrecisionMoments, _moments.IntermediateOutputs, TruncatedMoments,
    SavedOutcome, KernelBank,
    View, Center, Spherical, Trace, CallableKernel, GaussianProcess, SklearnPairwise, Cosine, FromDistance,
    Gaussian, Laplacian, Linear, Polynomial, Tanimoto, Clipping, UniformMKLClassifier, UniformMKLRegressor,
    BestKernelClassifier, AlignmentMKLClassifier, AlignmentMKLRegressor, OBMKLClassifier, EasyMKLClassifier,
    SimpleMKLClassifier, SimpleMKLRegressor, LpMKLClassifier, LpMKLRegressor, GMKLClassifier, SMOMKLClassifier,
    MWUMKLClassifier, PrimalMKLClassifier, PrimalMKLRegressor, PrimalMKLOneClass, LapMKLClassifier, LMKLClassifier,
    LMKLRegressor, CLMKLClassifier, SwMKLClassifier, LDMKLClassifier, SAMKLClassifier, LMKLResult, SoftmaxGating,
    SigmoidGating, GaussianGating, GroupGating, MKLResult, Clusters, SwMKLResult, LDMKLResult, Machine, Success,
    SAMKLResult, LowRankStack,
)  # fmt: skip
# scikit-learn's Gaussian process kernels, which a KernelBank takes and skops does not list.
GP_TYPES: tuple[type, ...] = (
    gp.CompoundKernel, gp.ConstantKernel, gp.DotProduct, gp.Exponentiation, gp.ExpSineSquared, gp.Matern,
    gp.PairwiseKernel, gp.Product, gp.RationalQuadratic, gp.RBF, gp.Sum, gp.WhiteKernel,
)  # fmt: skip
# Graphs of semi-supervised models. skops keeps them in SciPy's own format, which holds arrays only.
SPARSE_TYPES: tuple[type, ...] = (sparse.csr_array, sparse.csr_matrix)
TRUSTED = tuple(f"{known.__module__}.{known.__name__}" for known in OWN_TYPES + GP_TYPES + SPARSE_TYPES)


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file that :func:`load_model` reads.

    Parameters
    ----------
    model : estimator
        An estimator of this package, or a Pipeline that holds one (of a search, ``best_estimator_``).
    path : path-like
        File to write, usually with the ending ``.skops``. It appears, or replaces an older one, only when it is
        complete and has been read back.

    Raises
    ------
    ValueError
        If `model` holds something that no file can keep: a lambda, a function or class that is defined inside a
        function or in a script, a pandas object as a parameter. The message says where it is.

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
    from bayesmkl import __version__

    for place, fault in _faults(model, "model", set()):
        raise ValueError(f"`model` cannot be saved: {place} is {fault}")
    outcomes = {id(outcome): SavedOutcome.of(outcome) for outcome in Outcome}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "model": copy.deepcopy(model, outcomes),
    }
    try:
        data = skops.io.dumps(content)
        skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))
    except Exception as error:
        raise ValueError(
            f"`model` cannot be saved: skops fails with {type(error).__name__}: {error}. Pass parameters as numbers, "
            "strings, NumPy arrays and scikit-learn objects."
        ) from error
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
        This package's own types and what skops trusts (NumPy and scikit-learn) need no mention.

    Returns
    -------
    estimator
        The model; its predictions are the same to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, is no model file, comes from a newer version, or holds types that are not trusted.
        Nothing is built from it then.

    See Also
    --------
    save_model : Writes the file; has an example.
    """
    if isinstance(trusted, (str, type)):
        raise ValueError(
            f"`trusted` must be a list of types or their names; got {trusted!r}. Put it in a list."
        )
    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` must be a model file; there is none at {str(path)!r}.")
    data = Path(path).read_bytes()
    allowed = {name if isinstance(name, str) else f"{name.__module__}.{name.__name__}" for name in trusted}
    allowed.update(TRUSTED)
    try:
        unknown = sorted(set(skops.io.get_untrusted_types(data=data)) - allowed)
    except Exception as error:  # whatever the parser of a damaged file stumbles over
        raise _unreadable(path, error) from error
    if unknown:
        raise ValueError(
            f"`path` holds types that are not trusted, so nothing was loaded: {', '.join(unknown)} in {str(path)!r}. "
            f"If you know them and where the file comes from: load_model(path, trusted={unknown!r})."
        )
    try:
        content = skops.io.loads(data, trusted=sorted(allowed))
    except Exception as error:
        raise _unreadable(path, error) from error
    return _checked_content(path, content)


def _unreadable(path: Any, error: Exception) -> ValueError:
    return ValueError(
        f"`path` is not a readable model file: {str(path)!r} ({type(error).__name__}: {error}). It is damaged, "
        "incomplete or something else; save the model again with `save_model`."
    )


def _checked_content(path: Any, content: Any) -> Any:
    if not isinstance(content, dict) or content.get("format") != FORMAT or "model" not in content:
        raise ValueError(
            f"`path` must be a file that `save_model` wrote; {str(path)!r} holds something else. "
            "Other skops files are read by skops.io.load."
        )
    if content["version"] > VERSION:
        raise ValueError(
            f"`path` was written by bayesmkl {content['package']} in a newer layout (version {content['version']}, "
            f"this package reads up to {VERSION}): {str(path)!r}. Update bayesmkl."
        )
    return content["model"]


def _faults(value: Any, place: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Find what a file could name but nobody find again: (where it is, what it is and what to do)."""
    if id(value) in seen or value is None or isinstance(value, (str, bytes, int, float, np.generic)):
        return
    seen.add(id(value))
    if isinstance(value, (types.FunctionType, type)):
        if (fault := _not_importable(value)) is not None:
            yield place, fault
        return
    if type(value).__module__.partition(".")[0] == "pandas":
        yield (
            place,
            f"a pandas {type(value).__name__}, which skops cannot keep. Pass a NumPy array or a list.",
        )
        return
    if (fault := _not_importable(type(value))) is not None:
        yield place, f"an object of {fault}"
    for where, part in _parts(value, place):
        yield from _faults(part, where, seen)


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{place}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        names = getattr(value, "_fields", None)
        for i, part in enumerate(value):
            yield f"{place}.{names[i]}" if names else f"{place}[{i}]", part
    elif isinstance(value, functools.partial):
        yield from (
            (f"{place}.func", value.func),
            (f"{place}.args", value.args),
            (f"{place}.keywords", value.keywords),
        )
    elif isinstance(value, types.MethodType):
        yield f"{place}.__self__", value.__self__
    elif hasattr(value, "__dict__"):
        yield from ((f"{place}.{name}", part) for name, part in vars(value).items())


def _not_importable(named: Any) -> str | None:
    kind, name = "class" if isinstance(named, type) else "function", named.__qualname__
    remedy = "Define it at the top level of a module that can be imported where the model is loaded."
    if named.__name__ == "<lambda>":
        return f"a lambda, which has no name to be found by. Give it one with `def`. {remedy}"
    if "." in name:
        return f"the {kind} {name!r}, which is defined inside another one. {remedy}"
    if named.__module__ in ("__main__", "__mp_main__"):
        return f"the {kind} {name!r} of a script or notebook. {remedy}"
    return None
