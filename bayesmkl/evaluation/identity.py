"""Identity of cells: the hash of all that decides a fit, with the versions of what computes it."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone

from bayesmkl import __version__
from bayesmkl._utils.content import ContentHasher, NoContentError, hash_of_modules
from bayesmkl._utils.definitions import SITES
from bayesmkl.evaluation.named_metrics import Metric
from bayesmkl.evaluation.study import ModelSpec, Study

__all__ = ["NONE", "Code", "Identity", "Splits", "environment", "identify", "seed_of", "settings", "versions"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "jax", "numpyro", "pandas", "joblib")
COMPUTE_NOTHING = ("joblib", "platform")  # in the environment
IMPORTED_AS = {"sklearn": "scikit-learn"}
# of scikit-learn, that decide what comes out
SETTINGS = ("transform_output", "enable_metadata_routing", "array_api_dispatch")
FITTED = ("X", "y", "weights")  # of data, in every fit
NONE = "no-"  # start of keys that stand for what has no content; no hash has an n

Splits = dict[str, list[tuple[np.ndarray, np.ndarray]]]  # by data set: rows to train on and to test on


class Code(NamedTuple):
    """Names in modules of the user, and the hash of what this process has there; None where it has no content."""

    names: tuple[tuple[str, str], ...]
    digest: str | None


class Identity(NamedTuple):
    """Hashes of a study.

    Parameters
    ----------
    keys : dict of (str, str, int) to str
        Of cells, by data set, model and split.
    splits : dict of str to list of str
        Of the rows of each split.
    contents : dict of str to str
        Of what fits depend on in data sets; groups are in the splits, and in the keys of cells with a grid.
    scorers : dict of str to str
        Of metrics.
    packages : dict of str to dict
        Versions of further packages that each model comes from.
    code : Code
        What they all use of modules of the user.
    """

    keys: dict[tuple[str, str, int], str]
    splits: dict[str, list[str]]
    contents: dict[str, str]
    scorers: dict[str, str]
    packages: dict[str, dict[str, str]]
    code: Code


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    return {
        "bayesmkl": __version__ + SOURCE,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
    }


def _own_source() -> str:
    """Return the hash of this package where it is no installed one, but is being written."""
    folder = Path(__file__).parents[1]
    if SITES & set(folder.parts):
        return ""
    found = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return f"+source.{found.hexdigest()}"


SOURCE = _own_source()  # as it was loaded


def environment(packages: dict[str, str] | None = None) -> dict[str, str]:
    """Return the versions of numerical libraries and of further packages, and the system."""
    known, further = _environment(), packages or {}
    return known | {
        name: v for name, v in sorted(further.items()) if IMPORTED_AS.get(name, name) not in known
    }


def versions(known: dict[str, str]) -> dict[str, str]:
    """Return what computes in an environment."""
    return {name: v for name, v in known.items() if name not in COMPUTE_NOTHING}


def settings() -> dict[str, Any]:
    """Return the settings of scikit-learn by which the same models are other ones."""
    known = get_config()
    return {name: known[name] for name in SETTINGS if name in known}


def seed_of(random_state: int, split: int) -> int:
    """Return the seed of open random states in a split."""
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0] % 2**31)


def identify(
    study: Study,
    data: dict[str, dict[str, str] | None],
    splits: Splits,
    metrics: dict[str, Metric],
    group_columns: dict[str, tuple[int, ...]],
    task: str,
    strict: bool,
) -> Identity:
    """Hash all that decides the cells of a study.

    A fit is decided by the samples and labels, the rows of the split, the model, its seed, versions, and settings of
    scikit-learn. The names of data sets and models are not among this; groups and inner splits are for models with a
    grid. `data` has what :func:`content_of` returns of each data set, `group_columns` the columns of designs whose
    groups stay together; `task` decides how a number of inner folds splits. If `strict`, NoContentError is raised for
    what has no content that tells it from others; keys of its cells otherwise are those of no other study.
    """
    hashed = _Hashes(study, strict)
    models = {name: hashed.model(name, spec) for name, spec in study.models.items()}
    scorers = {name: hashed.metric(name, metric) for name, metric in metrics.items()}
    of_splits = {name: [hashed(pair, "cv") or "" for pair in pairs] for name, pairs in splits.items()}
    inner_cv, of_cv = hashed.packages_of(study.inner_cv, "inner_cv")
    inner_scoring, of_scoring = hashed.packages_of(study.inner_scoring, "inner_scoring")
    inner = inner_cv, inner_scoring
    contents = {name: None if own is None else _decides(own) for name, own in data.items()}
    keys = {}
    for dataset, digests in of_splits.items():
        parts, groups = contents[dataset], (data[dataset] or {}).get("groups")
        for model, (digest, packages) in models.items():
            tuned = study.models[model].param_grid is not None
            further = (*inner, task, groups, group_columns[dataset]) if tuned else ()
            if tuned:
                packages |= of_cv | of_scoring
            known = parts, digest, further, versions(environment(packages)), settings()
            unknown = parts is None or digest is None or (tuned and None in inner)
            for split, rows in enumerate(digests):
                cell = dataset, model, split
                seed = seed_of(study.random_state, split)
                keys[cell] = NONE * unknown + str(
                    hashed(cell if unknown else ("cell", *known, rows, seed), "cell")
                )
    return Identity(
        keys,
        of_splits,
        {n: NONE * (own is None) + str(hashed(own or n, "datasets")) for n, own in contents.items()},
        scorers,
        {name: packages for name, (_, packages) in models.items()},
        Code(names := tuple(sorted(hashed.hasher.of_modules)), hash_of_modules(names) if names else None),
    )


def _decides(content: dict[str, str]) -> tuple[str, ...]:
    """Return the hashes of what every fit depends on: by them data are the same, for cells and when folders merge."""
    return tuple(content[name] for name in FITTED if name in content)


class _Hashes:
    """Hashes that know whether nothing may be without one; arrays are hashed once."""

    def __init__(self, study: Study, strict: bool) -> None:
        self.given, self.strict = study.keys, strict
        self.hasher = ContentHasher()

    def __call__(self, value: object, what: str) -> str | None:
        try:
            return self.hasher(value, what)
        except NoContentError:
            if self.strict:
                raise
            return None

    def packages_of(self, value: object, what: str) -> tuple[str | None, dict[str, str]]:
        """Hash a value, and return the versions of packages that are in it."""
        self.hasher.packages = {}
        return self(value, what), self.hasher.packages

    def model(self, name: str, spec: ModelSpec) -> tuple[str | None, dict[str, str]]:
        """Hash a model as it will be fitted."""
        estimator = spec.estimator
        with suppress(Exception):  # its own code; the cells will say what is wrong with it
            estimator = clone(estimator)
        value: Any = (estimator, spec.param_grid, spec.transductive)
        if name in self.given:
            value = ("given", self.given[name], spec.transductive)
        return self.packages_of(value, f"models[{name!r}]")

    def metric(self, name: str, metric: Metric) -> str:
        """Hash what a metric computes, with the versions of what it comes from; its name does not matter."""
        value: Any = metric.needs, metric.compute
        if name in self.given:
            value = ("given", self.given[name])
        digest, packages = self.packages_of(value, f"scoring[{name!r}]")
        if digest is None:
            return NONE + str(self(name, "scoring"))
        return str(self((digest, versions(environment(packages))), "scoring"))
