"""The registry of methods: it names what exists, all that exists, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from sklearn.base import BaseEstimator

import bayesmkl.discriminative
from bayesmkl.discriminative import estimators
from bayesmkl.discriminative.methods import ESTIMATORS, PACKAGE, find_types, public_names


def test_every_public_estimator_is_registered_once():
    """Found without the registry: defined in the modules with estimators."""
    found = []
    for module in pkgutil.iter_modules(estimators.__path__):
        loaded = importlib.import_module(f"{PACKAGE}.estimators.{module.name}")
        found += [
            name
            for name, cls in vars(loaded).items()
            if inspect.isclass(cls)
            and cls.__module__ == loaded.__name__
            and issubclass(cls, BaseEstimator)
            and name.endswith(("MKLClassifier", "MKLRegressor", "OneClass", "KernelClassifier"))
        ]
    registered = [name for names in ESTIMATORS.values() for name in names]
    assert len(found) >= 26
    assert sorted(registered) == sorted(found)


def test_types_in_files_are_the_estimators_and_what_they_hold_no_functions():
    found = [getattr(importlib.import_module(module), name) for module, name in find_types()]
    loaded = {getattr(bayesmkl.discriminative, name) for names in ESTIMATORS.values() for name in names}
    assert loaded < set(found)
    assert len(found) == len(set(found))
    assert all(inspect.isclass(cls) and cls.__module__.startswith(PACKAGE) for cls in found)


def test_names_are_loaded_on_first_use_and_unknown_ones_are_named():
    assert set(public_names()) == set(bayesmkl.discriminative.__all__) <= set(dir(bayesmkl.discriminative))
    for name, module in public_names().items():
        assert getattr(bayesmkl.discriminative, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(
        AttributeError, match=r"module 'bayesmkl\.discriminative' has no attribute 'SimplMKL'"
    ):
        _ = bayesmkl.discriminative.SimplMKL
