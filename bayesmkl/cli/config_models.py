"""Tables of a configuration file that know where they stand, and the models and kernel banks in them."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline

from bayesmkl import bemkl, discriminative, gp, kernels
from bayesmkl.cli.designs import beside_design, design_columns, listed, standardizer
from bayesmkl.datasets._tables import named
from bayesmkl.evaluation.study import ModelSpec
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.adapters import NAMED, as_kernels
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.compose import read_by_view
from bayesmkl.kernels.normalize import check_normalize
from bayesmkl.kernels.tables import TableBank

KEYS = ("estimator", "kernels", "standardize", "transductive", "parameters", "grid")
OF_BEMKL = ("Dirichlet", "Gamma", "SpikeSlab", "VB", "NUTS", "Gibbs", "Storage")
OF_MARGINAL = ("Design", "DirichletShares", "HalfT", "Horseshoe", "LogNormal", "Marginal", "SpikeSlabWeights")
GATINGS = ("GaussianGating", "GroupGating", "SigmoidGating", "SoftmaxGating")
VIEWS = ("all", "each", "all+each")
BY_TYPES = "types"  # name of the kernels by types of columns
NO_BANKS: Mapping[str, KernelBank] = MappingProxyType({})
STEP = "model"  # name of the estimator in the pipeline with the standardization
_KINDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


def model_of(
    section: Section,
    banks: dict[str, KernelBank],
    encoded: Callable[[list[Any]], TableBank] | None = None,
) -> ModelSpec:
    """Build a model from its table; `banks` are the kernel banks that it may name.

    `encoded` makes the encoder of columns by their types, but for some columns, and the kernels called "types".
    """
    constructor = _estimator(section, section.need("estimator", str, 'estimator = "SimpleMKLClassifier"'))
    known = inspect.signature(constructor).parameters
    section.refuse_others({*KEYS, *known}, f"a model with the estimator {section.values['estimator']}")
    parameters = {key: value for key, value in section.values.items() if key not in KEYS}
    further = section.section("parameters")
    further.refuse_others(known, f"the parameters of {section.values['estimator']}")
    values = Section(parameters | further.values, section.path, section.file)
    arguments = {key: _value(values, key, banks) for key in values.values}
    made = None if encoded is None else _encoder_of(section, encoded, arguments.get("design"))
    if made is not None:
        banks = banks | {BY_TYPES: made.bank}
        if "kernels" in known:
            arguments["kernels"] = made.bank
    if "kernels" in section:
        if "kernels" not in known:
            raise section.wrong("kernels", f"is no parameter of {section.values['estimator']}. Leave it out.")
        arguments["kernels"] = bank_of(section, "kernels", section.values["kernels"], banks)
    with section.blamed():
        estimator = constructor(**arguments)
    grid = _grid(section, known, banks)
    if section.take("standardize", bool, True):
        design = _design_by_name(section, arguments, grid)
        first = ("standardize", standardizer(design))
        if made is not None:
            first = ("encode", beside_design(made.encoder, design))
        estimator = Pipeline([first, (STEP, estimator)])
        grid = {f"{STEP}__{key}": values for key, values in grid.items()}
    transductive = section.take("transductive", bool, False)
    if transductive and "unlabeled_label" not in known:
        raise section.wrong(
            "transductive",
            f"is for estimators with an `unlabeled_label`, which {constructor.__name__} has not.",
        )
    return ModelSpec(estimator, grid or None)


def _encoder_of(
    section: Section, encoded: Callable[[list[Any]], TableBank], design: gp.Design | None
) -> TableBank:
    """Return the encoder and the kernels of all columns but those of a design."""
    if not section.take("standardize", bool, True):
        raise section.wrong(
            "standardize",
            "is false, and columns of data sets with `types` have to be encoded. Leave out one of them.",
        )
    columns = design_columns(design) if isinstance(design, gp.Design) else []
    with section.blamed():
        return encoded(columns)


def _design_by_name(section: Section, arguments: dict[str, Any], grid: dict[str, list[Any]]) -> Any:
    """Return the design of a model whose columns are standardized but for those of it, and so change places."""
    if "design" in grid:
        raise section.wrong(
            "grid.design",
            "is not for models that standardize; make a model of each, or set standardize = false.",
        )
    design = arguments.get("design")
    columns = design_columns(design) if isinstance(design, gp.Design) else []
    banks = [arguments.get("kernels"), *grid.get("kernels", [])]
    views = [bank.views for bank in banks if isinstance(bank, KernelBank) and isinstance(bank.views, dict)]
    placed = [column for column in columns if not isinstance(column, str)]
    placed += [
        c for own in views if columns for column in own.values() for c in listed(column) if type(c) is int
    ]
    if placed:
        raise section.wrong(
            "design",
            f"is of a model that standardizes all columns but those of its design, and needs their names; got the "
            f"position {placed[0]}. Name the columns, in views too, or set standardize = false.",
        )
    return design if columns else None


def _grid(section: Section, known: Collection[str], banks: dict[str, KernelBank]) -> dict[str, list[Any]]:
    """Read the values to choose from inside the training part."""
    grid = section.section("grid")
    grid.refuse_others(known, f"the grid of {section.values['estimator']}; it takes its parameters")
    found = {}
    for key, values in grid.values.items():
        if not isinstance(values, list) or not values:
            raise grid.wrong(
                key, f"must be a list of the values to try, such as [0.1, 1.0, 10.0]; got {values!r}."
            )
        if key == "kernels":
            found[key] = [bank_of(grid, key, value, banks) for value in values]
        else:
            found[key] = [_made(grid, key, value, banks) for value in values]
    return found


def bank_of(section: Section, key: str, value: object, banks: Mapping[str, KernelBank]) -> KernelBank:
    """Return the bank that `value` names or describes; "auto" and "paper" are there without a table."""
    if isinstance(value, str):
        known = {name: KernelBank(name) for name in NAMED} | dict(banks)
        if value not in known:
            hint = did_you_mean(value, known)
            if value == BY_TYPES:
                hint = "data sets that have `types = {}` make one."
            raise section.wrong(
                key, f"names the kernels {value!r}, for which there is no table [kernels.{value}]; {hint}"
            )
        return known[value]
    if not isinstance(value, dict):
        raise section.wrong(
            key, f'must be the name of a table [kernels.NAME], or {{kernels = "auto"}}; got {value!r}.'
        )
    table = Section(value, section.key_path(key), section.file)
    table.refuse_others(inspect.signature(KernelBank).parameters, "a bank of kernels")
    arguments = {name: _value(table, name) for name in value}
    given = arguments.get("kernels")
    if isinstance(given, dict):
        own = table.section("kernels")
        arguments["kernels"] = {view: _value(own, view) for view in given}
    given = arguments.get("normalize")
    if isinstance(given, dict):
        arguments["normalize"] = {view: None if one == "none" else one for view, one in given.items()}
    elif given == "none":
        arguments["normalize"] = None
    if "views" in table and not isinstance(value["views"], dict) and value["views"] not in VIEWS:
        raise table.wrong(
            "views",
            f"must be one of {', '.join(map(repr, VIEWS))} or a table {{view = [columns]}}; got {value['views']!r}.",
        )
    bank = KernelBank(**arguments)
    with table.blamed("kernels"):
        read_by_view("kernels", bank.kernels, as_kernels)
    with table.blamed("normalize"):
        read_by_view("normalize", bank.normalize, check_normalize)
    return bank


def _value(section: Section, key: str, banks: Mapping[str, KernelBank] = NO_BANKS) -> Any:
    return _made(section, key, section.values[key], banks)


def _made(section: Section, key: str, value: object, banks: Mapping[str, KernelBank] = NO_BANKS) -> Any:
    """Replace tables with a `type` by the objects they describe, also inside lists; models may name kernels."""
    if isinstance(value, list):
        return [_made(section, f"{key}[{i}]", item, banks) for i, item in enumerate(value)]
    if not isinstance(value, dict) or "type" not in value:
        return value
    table = Section(value, section.key_path(key), section.file)
    name = table.take("type", str)
    known = _objects() | _estimators()
    if "." in name:
        make: Callable[..., Any] = _scikit_learn(table, "type", name)
    elif name in known:
        make = known[name]
    else:
        raise table.wrong("type", f"is {name!r}; {did_you_mean(name, known)}")
    table.refuse_others({"type", *inspect.signature(make).parameters}, name)
    arguments = {k: _value(table, k, banks) for k in value if k != "type"}
    if name in _estimators() and "kernels" in value:
        arguments["kernels"] = bank_of(table, "kernels", value["kernels"], banks)
    with table.blamed():
        return make(**arguments)


def _estimator(section: Section, name: str) -> Callable[..., BaseEstimator]:
    """Find the class of an estimator by name."""
    if "." in name:
        return _scikit_learn(section, "estimator", name)
    known = _estimators()
    if name not in known:
        raise section.wrong(
            "estimator",
            f"is {name!r}; {did_you_mean(name, known, n=3)} Estimators of scikit-learn are given with their module, "
            'such as "sklearn.svm.SVC".',
        )
    return known[name]


def _scikit_learn(section: Section, key: str, name: str) -> Callable[..., BaseEstimator]:
    module_name, _, class_name = name.rpartition(".")
    if module_name.partition(".")[0] == "sklearn":
        try:
            found = getattr(importlib.import_module(module_name), class_name, None)
        except ImportError:
            found = None
        if inspect.isclass(found) and issubclass(found, BaseEstimator):
            return found
    from sklearn.utils import all_estimators

    known = {f"{_public(cls.__module__)}.{cls.__name__}" for _, cls in all_estimators()}
    by_class = {path.rpartition(".")[2]: path for path in sorted(known)}
    hint = (
        f"did you mean {by_class[class_name]!r}?"
        if class_name in by_class
        else did_you_mean(name, known, n=3)
    )
    raise section.wrong(key, f"is {name!r}, which is no estimator of scikit-learn; {hint}")


def _public(module: str) -> str:
    return ".".join(part for part in module.split(".") if not part.startswith("_"))


@cache
def _estimators() -> dict[str, Callable[..., BaseEstimator]]:
    """Return the classifiers, regressors and models of survival of this package that predict one target."""
    found: dict[str, Any] = {
        name: getattr(module, name) for module in (bemkl, gp, discriminative) for name in module.__all__
    }
    return {
        name: cls
        for name, cls in found.items()
        if inspect.isclass(cls)
        and (issubclass(cls, (ClassifierMixin, RegressorMixin)) or hasattr(cls, "predict_survival_function"))
        and "Multitask" not in name
    }


@cache
def _objects() -> dict[str, Callable[..., Any]]:
    """Return by name the classes that tables with a `type` may describe: kernels, priors, options and gatings."""
    return {
        **{
            name: cls
            for name, cls in vars(kernels).items()
            if inspect.isclass(cls) and issubclass(cls, Kernel)
        },
        **{name: getattr(bemkl, name) for name in OF_BEMKL},
        **{name: getattr(gp, name) for name in OF_MARGINAL},
        **{name: getattr(discriminative, name) for name in GATINGS},
    }


def read_toml(path: Path) -> Section:
    """Read a TOML file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no configuration file {str(path)!r}.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
