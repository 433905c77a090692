"""Models and kernel banks of a configuration file."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import bemkl, discriminative, kernels
from bayesmkl.cli.config_section import Section, did_you_mean
from bayesmkl.evaluation.study import ModelSpec
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.adapters import as_kernels
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.normalize import check_normalize

__all__ = ["bank_of", "model_of"]

KEYS = ("estimator", "kernels", "standardize", "transductive", "parameters", "grid")
OF_BEMKL = ("Dirichlet", "Gamma", "SpikeSlab", "VB", "NUTS", "Gibbs", "SVI", "Storage")
GATINGS = ("GaussianGating", "GroupGating", "SigmoidGating", "SoftmaxGating")
VIEWS = ("all", "each", "all+each")
STEP = "model"  # name of the estimator in the pipeline with the standardization


def model_of(section: Section, banks: dict[str, KernelBank]) -> ModelSpec:
    """Build a model from its table; `banks` are the kernel banks that it may name."""
    constructor = _estimator(section, section.need("estimator", str, 'estimator = "SimpleMKLClassifier"'))
    known = inspect.signature(constructor).parameters
    section.refuse_others({*KEYS, *known}, f"a model with the estimator {section.values['estimator']}")
    parameters = {key: value for key, value in section.values.items() if key not in KEYS}
    further = section.section("parameters")
    further.refuse_others(known, f"the parameters of {section.values['estimator']}")
    values = Section(parameters | further.values, section.path, section.file)
    arguments = {key: _value(values, key) for key in values.values}
    if "kernels" in section:
        if "kernels" not in known:
            raise section.wrong("kernels", f"is no parameter of {section.values['estimator']}. Leave it out.")
        arguments["kernels"] = bank_of(section, "kernels", section.values["kernels"], banks)
    with section.blamed():
        estimator = constructor(**arguments)
    grid = _grid(section, known, banks)
    if section.take("standardize", bool, True):
        scaler = StandardScaler().set_output(transform="pandas")  # views may name columns
        estimator = Pipeline([("standardize", scaler), (STEP, estimator)])
        grid = {f"{STEP}__{key}": values for key, values in grid.items()}
    transductive = section.take("transductive", bool, False)
    if transductive and "unlabeled_label" not in known:
        raise section.wrong(
            "transductive",
            f"is for estimators with an `unlabeled_label`, which {constructor.__name__} has not.",
        )
    return ModelSpec(estimator, grid or None, transductive)


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
            found[key] = [_made(grid, key, value) for value in values]
    return found


def bank_of(section: Section, key: str, value: object, banks: dict[str, KernelBank]) -> KernelBank:
    """Return the bank that `value` names or describes; "paper" is there without a table."""
    if isinstance(value, str):
        known = {"paper": KernelBank()} | banks
        if value not in known:
            hint = did_you_mean(value, known)
            raise section.wrong(
                key, f"names the kernels {value!r}, for which there is no table [kernels.{value}]; {hint}"
            )
        return known[value]
    if not isinstance(value, dict):
        raise section.wrong(
            key, f'must be the name of a table [kernels.NAME], or {{kernels = "paper"}}; got {value!r}.'
        )
    table = Section(value, section.key_path(key), section.file)
    table.refuse_others(inspect.signature(KernelBank).parameters, "a bank of kernels")
    arguments = {name: _value(table, name) for name in value}
    if arguments.get("normalize") == "none":
        arguments["normalize"] = None
    if "views" in table and not isinstance(value["views"], dict) and value["views"] not in VIEWS:
        raise table.wrong(
            "views",
            f"must be one of {', '.join(map(repr, VIEWS))} or a table {{view = [columns]}}; got {value['views']!r}.",
        )
    bank = KernelBank(**arguments)
    with table.blamed("kernels"):
        as_kernels(bank.kernels)
    with table.blamed("normalize"):
        check_normalize(bank.normalize)
    return bank


def _value(section: Section, key: str) -> Any:
    return _made(section, key, section.values[key])


def _made(section: Section, key: str, value: object) -> Any:
    """Replace tables with a `type` by the objects they describe, also inside lists."""
    if isinstance(value, list):
        return [_made(section, f"{key}[{i}]", item) for i, item in enumerate(value)]
    if not isinstance(value, dict) or "type" not in value:
        return value
    table = Section(value, section.key_path(key), section.file)
    name = table.take("type", str)
    known = _objects()
    if "." in name:
        make: Callable[..., Any] = _scikit_learn(table, "type", name)
    elif name in known:
        make = known[name]
    else:
        raise table.wrong("type", f"is {name!r}; {did_you_mean(name, known)}")
    table.refuse_others({"type", *inspect.signature(make).parameters}, name)
    with table.blamed():
        return make(**{k: _value(table, k) for k in value if k != "type"})


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
    """Return the classifiers and regressors of this package that predict one target."""
    found: dict[str, Any] = {
        name: getattr(module, name) for module in (bemkl, discriminative) for name in module.__all__
    }
    return {
        name: cls
        for name, cls in found.items()
        if inspect.isclass(cls)
        and issubclass(cls, (ClassifierMixin, RegressorMixin))
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
        **{name: getattr(discriminative, name) for name in GATINGS},
    }
