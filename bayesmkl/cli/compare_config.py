"""The configuration of `bayesmkl compare`: a TOML file made into a study, every key checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import model_selection
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target

from bayesmkl._estimator.gate_features import apart_from_gates
from bayesmkl._utils.given import check_weights
from bayesmkl.cli.config_models import BY_TYPES, Section, bank_of, did_you_mean, model_of, read_toml
from bayesmkl.cli.designs import design_columns
from bayesmkl.cli.report import say
from bayesmkl.cli.tables import words_among
from bayesmkl.datasets._bundled import look_up
from bayesmkl.datasets._tables import column_hint, named, read_table, unnamed_columns
from bayesmkl.evaluation.compare import check_weighted
from bayesmkl.evaluation.scoring import METRICS, resolve_scoring, task_of
from bayesmkl.evaluation.study import Data, ModelSpec, bundled
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.column_labels import column_labels
from bayesmkl.kernels.compose import check_entries
from bayesmkl.kernels.tables import TableBank, make_bank
from bayesmkl.kernels.views import positions_of, resolve_views

STUDY_KEYS = (
    "cv",
    "scoring",
    "inner_cv",
    "inner_scoring",
    "random_state",
    "unavailable",
    "keep_predictions",
    "n_jobs",
)
ABOUT = {"classification": "classes", "regression": "a quantity", "survival": "times to an event"}
OF_CLASSES = ("binary", "multiclass", "multilabel-indicator")  # what they may be; numbers may be quantities
KINDS = {"classification": "classifier", "regression": "regressor"}
FILE_KEYS = ("file", "target", "event", "drop", "group", "weight", "types")
SPLITTERS = {
    "kfold": model_selection.KFold,
    "stratified": model_selection.StratifiedKFold,
    "repeated": model_selection.RepeatedKFold,
    "repeated-stratified": model_selection.RepeatedStratifiedKFold,
    "shuffle": model_selection.ShuffleSplit,
    "stratified-shuffle": model_selection.StratifiedShuffleSplit,
    "group": model_selection.GroupKFold,
    "stratified-group": model_selection.StratifiedGroupKFold,
    "group-shuffle": model_selection.GroupShuffleSplit,
    "time": model_selection.TimeSeriesSplit,
}


class DataRef:
    """A function that loads data, and its options."""

    def __init__(self, load: Callable[..., Data], **options: Any) -> None:
        self.load, self.options = load, options

    def __call__(self) -> Data:
        """Load the data."""
        return self.load(**self.options)


class Study(NamedTuple):
    """Arguments of `compare_models`."""

    datasets: dict[str, DataRef]
    models: dict[str, ModelSpec]
    cv: Any
    scoring: Any
    inner_cv: Any
    inner_scoring: str | None
    random_state: int
    unavailable: str
    keep_predictions: bool | float


class Config(NamedTuple):
    """Contents of a configuration file."""

    study: Study
    n_jobs: int | None  # decides how long it takes, not what comes out


def read_config(path: Path) -> Config:
    """Read and check a configuration file; names of files in it are relative to its folder.

    Raises
    ------
    ValueError
        If anything in it is not understood; the message names the file, the key and the nearest valid one.
    OSError
        If there is no such file, or a table that it names is missing.
    """
    config = read_toml(path)
    config.refuse_others(
        ("study", "datasets", "kernels", "models"),
        "a comparison; its tables are [study], [datasets.NAME], [models.NAME] and [kernels.NAME]",
    )
    for table, example in (("datasets", '[datasets.wdbc] with name = "wdbc"'), ("models", "[models.NAME]")):
        if not config.section(table).values:
            raise config.wrong(table, f"holds nothing to compare; add a table, such as {example}.")
    tables = config.section("kernels")
    banks: dict[str, KernelBank] = {}
    for name in tables.values:
        banks[name] = bank_of(tables, name, tables.section(name).values, {})
    if BY_TYPES in banks:
        raise tables.wrong(BY_TYPES, "is the name of kernels by types of columns. Take another one.")
    encoded = _encoded(config.section("datasets").sections())
    models = {
        name: model_of(section, banks, encoded)
        for name, section in config.section("models").sections().items()
    }
    quantity = not any(is_classifier(spec.estimator) for spec in models.values())
    datasets = {
        name: _data(section, quantity) for name, section in config.section("datasets").sections().items()
    }
    load = cache(lambda name: datasets[name]())  # once for all checks
    _check_views(config, list(datasets), load, models)
    for name, section in config.section("datasets").sections().items():
        _check_task(section, datasets[name], partial(load, name), models)
    study = config.section("study")
    study.refuse_others(STUDY_KEYS, "[study]")
    _check_groups(config, study)
    seed = study.integer("random_state", 0, 0)
    return Config(
        Study(
            datasets,
            models,
            cv=_splitter(study, "cv", seed),
            scoring=_scoring(study),
            inner_cv=_splitter(study, "inner_cv", seed),
            inner_scoring=_scorer(
                study, "inner_scoring", study.take("inner_scoring", str), get_scorer_names()
            ),
            random_state=seed,
            unavailable=_choice(study, "unavailable", ("raise", "nan"), "raise"),
            keep_predictions=_kept(study),
        ),
        study.take("n_jobs", int),
    )


def _kept(study: Section) -> bool | float:
    """Return whether predictions are kept, or up to how many MiB."""
    value = study.values.get("keep_predictions", True)
    if not isinstance(value, bool | int | float) or not (isinstance(value, bool) or 0.0 < value < math.inf):
        raise study.wrong("keep_predictions", f"must be true, false or a number of MiB; got {value!r}.")
    return value


def _data(section: Section, quantity: bool) -> DataRef:
    """Make the reference to a data set; `quantity` says that no model is about classes."""
    if ("name" in section) == ("file" in section):
        raise section.wrong(
            None,
            'must have either `name`, of a data set of the package such as "wdbc", or `file` with `target`.',
        )
    if "file" in section:
        return _data_of_file(section, quantity)
    section.refuse_others(("name",), "a data set of the package")
    name = section.take("name", str)
    with section.blamed("name"):
        look_up(name)
    return DataRef(bundled, name=name)


def _encoded(sections: dict[str, Section]) -> Callable[[list[Any]], TableBank] | None:
    """Return what makes encoder and kernels by types of columns, but for some; None without data sets with `types`.

    Models are the same on all data sets, whose columns therefore must be of the same types.
    """
    typed = [name for name, section in sections.items() if "types" in section]
    if not typed:
        return None
    first, shown = typed[0], ""
    for name in [first, *(name for name in sections if name != first)]:
        section = sections[name]
        if name not in typed:
            raise section.wrong(
                None,
                f"must have `types`, as the data set {first!r} has: models encode the columns of all data sets. Give "
                "it to all of them, or compare them in runs of their own.",
            )
        if "file" not in section:
            raise section.wrong("types", "is for data sets in files. Leave it out.")
        table, roles = _table_of(section, False)
        others = [column for columns in roles.values() for column in columns]
        features, types = table.drop(columns=others), section.section("types").values
        with section.blamed("types"):
            made = make_bank(features, types=types)
        views = "; ".join(line for line in str(made).splitlines() if not line.startswith("left out"))
        if name == first:
            shown, of_first = views, (features, types)
        elif views != shown:
            raise section.wrong(
                "types",
                f"leads to {views}, and that of the data set {first!r} to {shown}: models are the same on all data "
                "sets. Compare these in runs of their own.",
            )

    def encoded(kept: list[Any]) -> TableBank:
        features, types = of_first
        seen = features.drop(
            columns=kept, errors="ignore"
        )  # what is not there is told where designs are checked
        return make_bank(seen, types={name: kind for name, kind in types.items() if name not in kept})

    return encoded


def _table_of(section: Section, quantity: bool) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Read the table of a data set, with the columns that are no features by key; every one of them is there."""
    section.refuse_others(FILE_KEYS, "a data set in a file")
    section.take("file", str)
    path = _beside(section, "file")
    targets = section.texts("target") or [section.need("target", str, 'target = "diagnosis"')]
    roles = {"target": list(targets), "drop": list(section.texts("drop", ()))}
    for key in ("event", "group", "weight"):
        column = section.take(key, str)
        roles[key] = [] if column is None else [column]
    with section.blamed("file"):
        table = read_table(path, label_columns(targets, section.take("group", str), quantity))
    for key, columns in roles.items():
        for k, column in enumerate(columns):
            if column not in table.columns:
                hint = column_hint(column, table)
                raise section.wrong(
                    key, f"names the column {column!r}, which {path.name} does not have; {hint}"
                )
            if column in columns[:k]:
                raise section.wrong(key, f"names the column {column!r} twice.")
            if key != "drop" and table[column].isna().any():
                empty = f"{table[column].isna().sum()} of {len(table)} rows"
                raise section.wrong(key, f"names the column {column!r}, which is empty in {empty}.")
    _check_columns(section, table, [column for columns in roles.values() for column in columns])
    return table, roles


def _data_of_file(section: Section, quantity: bool) -> DataRef:
    quantity = quantity or "event" in section
    table, roles = _table_of(section, quantity)
    path, targets = _beside(section, "file"), roles["target"]
    single = {key: roles[key][0] for key in ("event", "group", "weight") if roles[key]}
    words = words_among(table[targets[0]].to_numpy())
    if words and len(targets) == 1:
        say(
            f"{path.name}: {named(words)} in {targets[0]!r} is a class here. If it is no label, remove these rows."
        )
    with section.blamed("weight"):
        check_weights(table[single["weight"]] if "weight" in single else None, len(table), "weight")
    if len(targets) > 1:
        if "event" in single:
            raise section.wrong(
                "target", f"must name one column, the times, where `event` is given; got {targets}."
            )
        with section.blamed("target"):
            several_of(table, targets)
    elif "event" in single:
        with section.blamed("event"):
            times_of(table, targets[0], single["event"])
    options: dict[str, Any] = {"target": targets if len(targets) > 1 else targets[0], "drop": roles["drop"]}
    options |= {"group": None} | single | ({"quantity": True} if quantity else {})
    return DataRef(from_file, path=str(path), **options)


def _check_columns(section: Section, table: pd.DataFrame, others: list[str]) -> None:
    """Raise for tables without anything to learn from, or with text in it that no types encode."""
    features = table.drop(columns=others)
    if features.shape[1] == 0:
        raise section.wrong("drop", "leaves no column to learn from.")
    nameless = unnamed_columns(features.columns)
    if nameless:
        quoted = ", ".join(f'"{name}"' for name in nameless)
        raise section.wrong(
            "file",
            f"has columns without a name, as row numbers have that were saved with a table: {named(nameless)}. Give "
            f"them names, or leave them out: drop = [{quoted}].",
        )
    text = [str(name) for name, kind in features.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
    if text and "types" not in section:
        quoted = ", ".join(f'"{name}"' for name in text)
        raise section.wrong(
            "file",
            f"has columns that hold no numbers: {named(text)}. Encode them, `types = {{}}`, or leave them out: "
            f"drop = [{quoted}].",
        )


def _beside(section: Section, key: str) -> Path:
    """Return a path that is given relative to the configuration file."""
    return (section.file.parent / section.need(key, str, 'file = "cells.csv"')).absolute()


def _check_views(
    config: Section, datasets: list[str], load: Callable[[str], Data], models: dict[str, ModelSpec]
) -> None:
    """Raise for views, gates and designs of columns that a data set does not have."""
    for model, spec in models.items():
        estimator = spec.estimator[-1] if isinstance(spec.estimator, Pipeline) else spec.estimator
        bank, gates = getattr(estimator, "kernels", None), getattr(estimator, "gate_columns", None)
        bank = KernelBank() if bank is None else bank
        if not isinstance(bank, KernelBank):
            continue
        checks: dict[str, Callable[[Any], Any]] = {}
        design = design_columns(getattr(estimator, "design", None))
        by_view = any(isinstance(given, dict) for given in (bank.kernels, bank.normalize))
        all_there = not design and gates is None  # which leave their columns out of views that name none
        if isinstance(bank.views, dict) or (by_view and all_there):
            checks["kernels"] = partial(_resolve, bank)
        if gates is not None:
            checks["gate_columns"] = partial(_resolve_gates, bank, gates)
        if design:
            checks["design"] = partial(_resolve_design, design)
        for key, name in product(checks, datasets):
            with config.blamed(f"models.{model}.{key}"):
                data = load(name)
                try:
                    checks[key](data.X)
                except ValueError as error:
                    raise ValueError(f"data set {name!r}: {error}") from error


def _resolve(bank: KernelBank, X: pd.DataFrame) -> None:
    check_entries(bank, resolve_views(bank.views, X.shape[1], column_labels(X)))


def _resolve_gates(bank: KernelBank, gate_columns: Sequence[str | int] | None, X: pd.DataFrame) -> None:
    apart_from_gates(clone(bank), X, gate_columns, X.shape[1])


def _resolve_design(columns: list[Any], X: pd.DataFrame) -> None:
    positions_of("design", columns, X.shape[1], column_labels(X))


def _check_task(
    section: Section, ref: DataRef, load: Callable[[], Data], models: dict[str, ModelSpec]
) -> None:
    """Raise for models of another task than the target's: classes, a quantity or times to an event."""
    if "event" in section:
        kinds = {"survival"}
    elif ref.load is bundled:
        entry = look_up(ref.options["name"])
        kinds = {"classification" if entry.classes else "survival" if entry.n_events else "regression"}
    else:
        target = load().y
        kinds = {"classification"}
        if pd.api.types.is_numeric_dtype(target):
            kinds = (
                {"classification", "regression"} if type_of_target(target) in OF_CLASSES else {"regression"}
            )
    for model, spec in models.items():
        task = task_of({model: spec.estimator}, load().y if "survival" in kinds else None)
        if task in kinds:
            continue
        if task == "survival":
            raise section.wrong(
                None,
                f"lacks `event`, the column that says whether the event was seen, and the model {model!r} is about "
                "times to an event. Give it, or leave out one of them.",
            )
        about = " or ".join(sorted(ABOUT[kind] for kind in kinds))
        raise section.wrong(
            None, f"is about {about}, and the model {model!r} is a {KINDS[task]}. Leave out one of them."
        )
    if "weight" in section:
        with section.blamed("weight"):
            check_weighted(models)
    if ref.load is from_file and np.ndim(load().y) == 2:
        with section.blamed("target"):
            resolve_scoring(None, {model: spec.estimator for model, spec in models.items()}, load().y)


def _splitter(study: Section, key: str, seed: int) -> Any:
    """Return a number of folds, or the splitter that a table describes."""
    if not isinstance(study.values.get(key, 5), dict):
        return study.integer(key, 2, 5)
    table = study.section(key)
    kind = _choice(table, "kind", tuple(SPLITTERS), None)
    parameters = inspect.signature(SPLITTERS[kind]).parameters
    options = [name for name in parameters if name not in ("shuffle", "random_state")]
    table.refuse_others(("kind", *options), f"the splits of kind {kind!r}")
    given = {name: table.values[name] for name in options if name in table}
    shuffled = {"shuffle": True} if "shuffle" in parameters else {}
    with table.blamed():
        seeded = {"random_state": seed} if "random_state" in parameters else {}
        return SPLITTERS[kind](**given, **shuffled, **seeded)


def _check_groups(config: Section, study: Section) -> None:
    """Raise for splits that would tear groups apart, and splits by groups that are not there."""
    if not isinstance(study.values.get("cv"), dict):
        return  # a number of folds keeps groups together
    kind = study.values["cv"].get("kind")
    by_group = "group" in str(kind)
    for name, section in config.section("datasets").sections().items():
        if by_group and "group" not in section:
            raise study.wrong("cv", f"has the kind {kind!r}, and the data set {name!r} has no `group`.")
        if not by_group and "group" in section:
            raise section.wrong(
                "group",
                f"would be torn apart by the splits of kind {kind!r}. Use a number of folds, or a kind with groups.",
            )


def _choice(section: Section, key: str, known: tuple[str, ...], default: str | None) -> str:
    if key not in section and default is None:
        raise section.wrong(None, f"lacks `{key}`; known: {named(known)}.")
    value = section.take(key, str, default)
    if value not in known:
        raise section.wrong(key, f"is {value!r}; {did_you_mean(value, known)}")
    return value


def _scoring(study: Section) -> tuple[str, ...] | None:
    names = study.texts("scoring")
    for name in names or ():
        _scorer(study, "scoring", name, [*METRICS, *get_scorer_names()])
    if names is not None and len(set(names)) < len(names):
        raise study.wrong("scoring", f"names a metric twice: {named(names)}.")
    return names


def _scorer(study: Section, key: str, name: str | None, known: list[str]) -> str | None:
    if name is not None and name not in known:
        raise study.wrong(key, f"names the metric {name!r}; {did_you_mean(name, known, n=3)}")
    return name


def from_file(
    path: str,
    target: str | Sequence[str],
    drop: Iterable[str] = (),
    group: str | None = None,
    quantity: bool = False,
    event: str | None = None,
    weight: str | None = None,
) -> Data:
    """Read a table.

    `group` names a column whose samples stay together in every split, `weight` that of their weights in fits. With
    `quantity`, the target is one, however its numbers are written. With `event`, a column of 0 and 1 or of true and
    false, it is the time to the event or to censoring. Several targets are columns of numbers.
    """
    targets = [target] if isinstance(target, str) else list(target)
    table = read_table(Path(path), label_columns(targets, group, quantity or event is not None))
    roles = {"target": targets, "drop": list(drop)}
    roles |= {
        role: [c for c in [column] if c]
        for role, column in (("group", group), ("event", event), ("weight", weight))
    }
    for role, columns in roles.items():
        absent = [column for column in columns if column not in table.columns]
        if absent:
            raise ValueError(
                f"`{role}` must name a column of {str(path)!r}; got {absent[0]!r}. Its columns are "
                f"{', '.join(map(repr, table.columns[:8]))}{', ...' if len(table.columns) > 8 else ''}."
            )
    X = table.drop(columns=[column for columns in roles.values() for column in columns])
    groups = None if group is None else table[group].to_numpy()
    weights = None if weight is None else check_weights(table[weight], len(table), "weight")
    if event is not None:
        return Data(X, times_of(table, targets[0], event), groups, weights=weights)
    if len(targets) == 1:
        return Data(X, table[targets[0]].to_numpy(), groups, weights=weights)
    return Data(X, several_of(table, targets), groups, weights=weights)


def several_of(table: pd.DataFrame, targets: Sequence[str]) -> np.ndarray:
    """Return several targets of each sample as columns of numbers."""
    for target in targets:
        if not pd.api.types.is_numeric_dtype(table[target]):  # truth values are
            raise ValueError(
                "`target` must name columns of numbers where it names several, quantities or labels that are 0 or 1; "
                f"got {target!r}, which holds {table[target].dtype}."
            )
    whole = all(kind.kind in "biu" for kind in table[list(targets)].dtypes)
    return table[list(targets)].to_numpy().astype(int if whole else float)


def times_of(table: pd.DataFrame, target: str, event: str) -> np.ndarray:
    """Return events and times as a structured array."""
    seen, time = table[event], table[target]
    if seen.isna().any() or not set(seen.tolist()) <= {0, 1}:
        other = next(value for value in seen.tolist() if value not in (0, 1))
        raise ValueError(
            f"`event` must name a column of 0 and 1, or of true and false: whether the event was seen; got {other!r} "
            f"in {event!r}. Code it so."
        )
    if not pd.api.types.is_numeric_dtype(time):
        raise ValueError(
            f"`target` must name a column of numbers, the times, where `event` is given; got {target!r}, which holds "
            f"{time.dtype}."
        )
    found = np.empty(len(table), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = seen.astype(bool), time
    return found


def label_columns(targets: Sequence[str], group: str | None, quantity: bool = False) -> list[str]:
    """Return the columns of a table that hold labels; several targets are numbers."""
    return (list(targets) if len(targets) == 1 and not quantity else []) + ([] if group is None else [group])
