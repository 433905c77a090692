"""Command `compare`: a short TOML file made into a comparison, every key checked; run what is left of it, and report.

Values in the file are texts, numbers, true or false, and lists of them: what takes an object of Python is for
`compare_models`, and so are groups, weights and times to events of a table.
"""

from __future__ import annotations

import importlib
import inspect
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import bemkl, discriminative, gp
from bayesmkl._utils.files import written_beside
from bayesmkl._utils.tables import read_table
from bayesmkl.cli.runs import check_parent
from bayesmkl.cli.tables import (
    check_features,
    check_target,
    did_you_mean,
    features_of,
    notes_of_warnings,
    say,
    show,
)
from bayesmkl.datasets._bundled import load_named
from bayesmkl.evaluation.compare import compare_models
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.metrics import task_of
from bayesmkl.evaluation.report import write_report
from bayesmkl.kernels import KernelBank

STUDY_KEYS = (
    *("cv", "scoring", "inner_cv", "inner_scoring", "random_state", "unavailable", "keep_predictions"),
    "n_jobs",
)
DATA_KEYS = ("file", "target", "drop")
BANK_KEYS = ("kernels", "views", "normalize")
KINDS: dict[type, str] = {str: "text", bool: "true or false", dict: "a table", list: "a list"}
METRICS_SHOWN = 3
REPORT, CONFIG = "report.html", "config.toml"


class Section(dict[str, Any]):
    """A table of a configuration file, which knows where it stands."""

    def __init__(self, values: Mapping[str, Any], path: str, file: Path) -> None:
        super().__init__(values)
        self.path, self.file = path, file

    def wrong(self, key: str, message: str) -> ValueError:
        """Make the error that says what is wrong with a key, or with the table itself."""
        return ValueError(f"{self.file}: `{'.'.join(part for part in (self.path, key) if part)}`{message}")

    @contextmanager
    def blamed(self, key: str = "") -> Iterator[None]:
        """Name the key in errors from elsewhere."""
        try:
            yield
        except (ValueError, TypeError, OSError) as error:
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(*self.wrong(key, f": {error}").args) from error

    def refuse_others(self, known: Collection[str], what: str) -> None:
        """Raise for keys beside the known ones of `what`."""
        for key in self:
            if key not in known:
                raise self.wrong(key, f" is not a key of {what}; {did_you_mean(key, known)}")

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        """Return a value of the given type, or the default where the key is absent."""
        if not isinstance(value := self.get(key, default), kind) and key in self:
            raise self.wrong(key, f" must be {KINDS[kind]}; got {value!r}.")
        return value

    def need(self, key: str, example: str) -> str:
        """Return a text that must be there; `example` shows how to give it."""
        if key not in self:
            raise self.wrong("", f" lacks `{key}`; give it, such as {example}.")
        return str(self.take(key, str))

    def section(self, key: str) -> Section:
        """Return the table under a key, an empty one where the key is absent."""
        return Section(self.take(key, dict, {}), f"{self.path}.{key}" if self.path else key, self.file)


def read_config(path: Path) -> dict[str, Any]:
    """Read and check a configuration file, into arguments of `compare_models`; files are relative to its folder.

    Raises
    ------
    ValueError
        If anything in it is not understood; the message names the file, the key and the nearest valid one.
    OSError
        If there is no such file, or a table that it names is missing.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no configuration file {str(path)!r}.")
    try:
        config = Section(tomllib.loads(path.read_text(encoding="utf-8-sig")), "", path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: this is not valid TOML: {error}. Strings need quotes.") from error
    config.refuse_others(
        ("study", "datasets", "models"),
        "a comparison; its tables are [study], [datasets.NAME] and [models.NAME]",
    )
    tables = {}
    for name, example in (("datasets", '[datasets.wdbc] with name = "wdbc"'), ("models", "[models.NAME]")):
        whole = config.section(name)
        if not whole:
            raise config.wrong(name, f" holds nothing to compare; add a table, such as {example}.")
        tables[name] = {key: whole.section(key) for key in whole}
    models = {name: _model(section) for name, section in tables["models"].items()}
    estimators = {name: model[0] if isinstance(model, tuple) else model for name, model in models.items()}
    with config.blamed("models"):
        task = task_of(estimators)
    datasets = {name: _data(section, task) for name, section in tables["datasets"].items()}
    _check_views(config, estimators, datasets)
    study = config.section("study")
    study.refuse_others(STUDY_KEYS, "[study]")
    return study | {"datasets": datasets, "models": models}


# ----------------------------------------------------------------------------------------------------------- data


def _data(section: Section, task: str) -> Any:
    """Return a name of a data set of the package, or features and target of a file."""
    if ("name" in section) == ("file" in section):
        raise section.wrong(
            "",
            ' must have either `name`, of a data set of the package such as "wdbc", or `file` with `target`.',
        )
    if "name" in section:
        section.refuse_others(("name",), "a data set of the package")
        name = section.take("name", str)
        with section.blamed("name"):
            y = load_named(name)[1]
        of = {"V": "survival", "f": "regression", "i": "classification"}[y.dtype.kind]  # V: structured
        if of != task:
            raise section.wrong("", f" is for {of}, and the models are for {task}. Leave out one of them.")
        return name
    section.refuse_others(DATA_KEYS, "a data set in a file")
    if task == "survival":
        raise section.wrong("file", " is for labels and numbers. Compare times to events in Python.")
    target = section.need("target", 'target = "diagnosis"')
    with section.blamed("file"):
        table = read_table(
            section.file.parent / section.need("file", ""), [target] * (task == "classification")
        )
    with section.blamed():
        features = features_of(table, {"`target`": [target], "`drop`": section.take("drop", list, [])})
        features = check_features(features)
    with section.blamed("target"):
        return features, check_target(table[target], task)[0]


# --------------------------------------------------------------------------------------------------------- models


def _model(section: Section) -> Any:
    """Return an estimator, or one with the values of a grid to choose from inside the training part."""
    name = section.need("estimator", 'estimator = "SimpleMKLClassifier"')
    constructor = _constructor(section, name)
    known = inspect.signature(constructor).parameters
    section.refuse_others({"estimator", "standardize", "grid", *known}, f"a model with the estimator {name}")
    values = {key: _value(section, key, section[key]) for key in section if key in known}
    with section.blamed():
        estimator = constructor(**values)
    grid = section.section("grid")
    grid.refuse_others(known, f"the grid of {name}; it takes its parameters")
    tried: dict[str, list[Any]] = {}
    for key in grid:
        if not grid.take(key, list):
            raise grid.wrong(key, " must be a list of the values to try, such as [0.1, 1.0, 10.0]; got [].")
        tried[key] = [_value(grid, key, one) for one in grid[key]]
    if section.take("standardize", bool, True):
        scaler = StandardScaler().set_output(transform="pandas")  # views may name columns
        estimator = Pipeline([("standardize", scaler), ("model", estimator)])
        tried = {f"model__{key}": values for key, values in tried.items()}
    return (estimator, tried) if tried else estimator


def _value(section: Section, key: str, value: Any) -> Any:
    """Return a value of a parameter; kernels are named, or described by names, views and normalizations."""
    if isinstance(value, dict) and key == "kernels":
        Section(value, f"{section.path}.{key}", section.file).refuse_others(BANK_KEYS, "kernels")
        return KernelBank(**value)
    if isinstance(value, dict):
        raise section.wrong(
            key,
            " holds a table; only strings, numbers, true, false and lists of them are allowed. For Python "
            "objects, use `compare_models` in Python.",
        )
    return KernelBank(value) if key == "kernels" else value


def _check_views(config: Section, models: dict[str, BaseEstimator], datasets: dict[str, Any]) -> None:
    """Raise for kernels that are not known, and views of columns that a data set does not have."""
    for model, estimator in models.items():
        bank = getattr(estimator[-1] if isinstance(estimator, Pipeline) else estimator, "kernels", None)
        for name, data in datasets.items():
            if isinstance(bank, KernelBank) and not isinstance(data, str):
                with config.blamed(f"models.{model}.kernels"):
                    try:
                        bank.training_shape(data[0])
                    except ValueError as error:
                        raise ValueError(f"data set {name!r}: {error}") from error


def _constructor(section: Section, name: str) -> Callable[..., BaseEstimator]:
    """Find the class of an estimator of this package by name, or of scikit-learn by module and name."""
    ends = ("Classifier", "Regressor", "Survival")
    names = [(module, own) for module in (bemkl, gp, discriminative) for own in module.__all__]
    known = {
        own: getattr(module, own) for module, own in names if own.endswith(ends) and "Multitask" not in own
    }
    if name in known:
        return known[name]
    module, _, last = name.rpartition(".")
    if module.partition(".")[0] == "sklearn":
        try:
            found = getattr(importlib.import_module(module), last, None)
        except ImportError:
            found = None
        if inspect.isclass(found) and issubclass(found, BaseEstimator):
            return found
    raise section.wrong(
        "estimator",
        f" is {name!r}; {did_you_mean(name, known, n=3)} Estimators of scikit-learn are given with their module, "
        'such as "sklearn.svm.SVC".',
    )


# -------------------------------------------------------------------------------------------------------- command


def run_compare(config_file: Path, out: Path, retry_failed: bool = False) -> bool:
    """Run a comparison into a folder, or continue it there; return whether any model got through.

    Raises
    ------
    KeyboardInterrupt
        With a note on what is kept.
    """
    arguments = read_config(config_file)
    text = config_file.read_text(encoding="utf-8")
    check_parent(out)
    there = len(list((out / "cells").glob("*.json")))
    if there:
        say(f"Continuing in {out}{os.sep}: {there} cells are already finished.")
    try:
        with notes_of_warnings():
            comparison = compare_models(**arguments, folder=out, retry_failed=retry_failed, verbose=1)
    except KeyboardInterrupt as stop:
        n_cells = len(list((out / "cells").glob("*.json")))
        stop.add_note(
            f"{n_cells} finished cells are kept in {out}{os.sep}. The same command continues there."
        )
        raise
    comparison.about["config"] = text
    write_report(comparison, out / REPORT)
    with written_beside(out / CONFIG) as beside:
        beside.write_text(text, encoding="utf-8")
    _print_scores(comparison)
    say(f"Written to {out}{os.sep}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    say(f"Tables, plots and tests: {out / REPORT}")
    return bool((comparison.cells["error"] == "").any())


def _print_scores(comparison: Comparison) -> None:
    """Print the first metrics of every model on every data set."""
    for metric in comparison.metrics[:METRICS_SHOWN]:
        better = "higher" if comparison.about["metrics"][metric] else "lower"
        found = comparison.summary(metric)[["dataset", "model", "mean", "std", "failed"]]
        show(f"{metric}, {better} is better: mean and standard deviation over the splits", found)
    if len(comparison.metrics) > METRICS_SHOWN:
        say(f"The report also has {', '.join(comparison.metrics[METRICS_SHOWN:])}.")
