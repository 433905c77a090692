"""Identity of a study: hashes of its data, models, splits and metrics, and versions of what computes."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bayesmkl import __version__
from bayesmkl._utils.content import ContentHasher
from bayesmkl.evaluation.named_metrics import Metric
from bayesmkl.evaluation.study import ModelSpec, Study

__all__ = ["Identity", "Splits", "check_same", "environment", "identify", "with_packages"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "numpyro", "pandas", "joblib")
COMPUTE_NOTHING = ("joblib", "platform")  # in the environment
IMPORTED_AS = {"sklearn": "scikit-learn"}
KEEPS = "Nothing was changed; choose another folder"

Splits = dict[str, list[tuple[np.ndarray, np.ndarray]]]  # by data set: rows to train on and to test on


class Identity(NamedTuple):
    """Identity of a study, for ``about.json``.

    Parameters
    ----------
    content : dict of str to any
        Hashes by name: of ``datasets``, ``models`` and splits (``cv``) those of their parts.
    packages : dict of str to str
        Versions of the packages that its objects come from.
    """

    content: dict[str, Any]
    packages: dict[str, str]


def environment() -> dict[str, str]:
    """Return the versions of numerical libraries, and the system."""
    return {
        "bayesmkl": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
    }


def identify(
    study: Study, data: dict[str, dict[str, str]], splits: Splits, metrics: dict[str, Metric]
) -> Identity:
    """Hash all that decides the results of a study.

    Parameters
    ----------
    study : Study
    data : dict of str to dict
        By data set: hashes as :func:`content_of` returns them.
    splits : dict of str to list of (ndarray, ndarray)
        By data set: rows to train on and to test on.
    metrics : dict of str to Metric

    Returns
    -------
    Identity

    Raises
    ------
    NoContentError
        If something has no content that tells it from others; the message says where it is.
    """
    hashed = ContentHasher()
    content = {
        "random_state": int(study.random_state),
        "datasets": data,
        "models": {name: _model(hashed, name, spec) for name, spec in study.models.items()},
        "cv": {name: hashed(pairs) for name, pairs in splits.items()},
        "scoring": {name: hashed(metric, f"scoring[{name!r}]") for name, metric in metrics.items()},
        "order of metrics": list(metrics),
        "inner_cv": hashed(study.inner_cv, "inner_cv"),
        "inner_scoring": hashed(study.inner_scoring, "inner_scoring"),
        "unavailable": study.unavailable,
    }
    return Identity(content, hashed.packages)


def _model(hashed: ContentHasher, name: str, spec: ModelSpec) -> dict[str, str]:
    """Hash a model as it will be fitted, and each of its parameters, to find which of them differ."""
    estimator, parameters = spec.estimator, {}
    with suppress(Exception):  # its own code; the cells will say what is wrong with it
        estimator = clone(estimator)
        parameters = estimator.get_params()
    parts = {"": hashed((estimator, spec.param_grid, spec.transductive), f"models[{name!r}]")}
    held = {p: value for p, value in parameters.items() if not hasattr(value, "get_params")}
    parts |= {p: hashed(value, f"models[{name!r}].{p}") for p, value in held.items()}
    return parts | {"param_grid": hashed(spec.param_grid)}


def check_same(earlier: dict[str, Any], about: dict[str, Any], folder: Path) -> None:
    """Raise ValueError unless the run that is known by `earlier` may be continued as one known by `about`."""
    if "identity" not in earlier:
        raise ValueError(
            f"{str(folder)!r} was written by an earlier bayesmkl, which did not keep what tells its models and data "
            f"from others. Comparison.load reads it. {KEEPS} to compute."
        )
    if earlier["identity"] is None:
        raise ValueError(
            f"{str(folder)!r} holds a comparison that cannot be recognized: something in it has no content. "
            f"Comparison.load reads it. {KEEPS} to compute."
        )
    was, now = earlier["environment"], about["environment"]
    for name in now:
        if name not in COMPUTE_NOTHING and was.get(name, now[name]) != now[name]:
            raise ValueError(
                f"since the run in {str(folder)!r} was begun, {name} was {was[name]} and is {now[name]}; results "
                f"would not belong together. {KEEPS}, or install what it was begun with."
            )
    if earlier["identity"] != about["identity"]:
        raise ValueError(
            f"{str(folder)!r} holds another comparison: {_difference(earlier['identity'], about['identity'])}. "
            f"{KEEPS}, or repeat the study that it holds."
        )


def with_packages(known: dict[str, str], packages: dict[str, str]) -> dict[str, str]:
    """Add to an environment the versions of further packages."""
    further = {name: v for name, v in sorted(packages.items()) if IMPORTED_AS.get(name, name) not in known}
    return known | further


def _difference(earlier: object, now: list[dict[str, Any]]) -> str:
    """Return the names of parts of a study that differ."""
    if not isinstance(earlier, list) or len(earlier) != len(now):
        return "of other studies"
    pairs = list(zip(earlier, now, strict=True))
    found = {
        part: _places(old.get(part), new[part])
        for old, new in pairs
        for part in new
        if old.get(part) != new[part]
    }
    return "with other " + ", ".join(f"{part}{places}" for part, places in found.items())


def _places(old: object, new: object) -> str:
    """Describe differences within a part of a study: names of models with parameters, of data sets, of metrics."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return ""
    shown = []
    for name in dict.fromkeys([*new, *old]):
        one, two = old.get(name), new.get(name)
        if one == two:
            continue
        if one is None or two is None:
            shown.append(f"{name!r} {'new' if one is None else 'gone'}")
        elif isinstance(one, dict):
            parts = [part for part in dict.fromkeys([*two, *one]) if part and one.get(part) != two.get(part)]
            shown.append(f"{name!r}: {', '.join(parts) or 'its class'}")
        else:
            shown.append(repr(name))
    return f" ({'; '.join(shown)})"
