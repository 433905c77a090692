"""The registry of discriminative methods: one entry per method. Nothing here imports a method.

Public names of the package, types that may be loaded from files, the list in the API reference and the estimators of
the command line are taken from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PACKAGE = "bayesmkl.discriminative"
GATINGS = ("SoftmaxGating", "SigmoidGating", "GaussianGating", "GroupGating", "FixedGating")


class Method(NamedTuple):
    """One method.

    Parameters
    ----------
    algorithm : str
        Its module, below `PACKAGE`; that of its estimators has the same name.
    estimators : tuple of str
        In the order of the API reference.
    others : mapping of str to tuple of str
        Further public names, by module.
    saved : mapping of str to tuple of str
        Further types that fitted models hold, by module.
    """

    algorithm: str
    estimators: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]] = {}
    saved: Mapping[str, tuple[str, ...]] = {}

    @property
    def module(self) -> str:
        """Module of its estimators, below `PACKAGE`."""
        return f"estimators.{self.algorithm.rpartition('.')[2]}"


METHODS: tuple[Method, ...] = (
    Method("global_weights.uniform", ("UniformMKLClassifier", "UniformMKLRegressor")),
    Method("global_weights.best_kernel", ("BestKernelClassifier",)),
    Method("global_weights.lpboostmkl", ("LPBoostMKLClassifier",)),
    Method("global_weights.alignment", ("AlignmentMKLClassifier", "AlignmentMKLRegressor")),
    Method("global_weights.obmkl", ("OBMKLClassifier",)),
    Method("global_weights.easymkl", ("EasyMKLClassifier",)),
    Method("global_weights.simplemkl", ("SimpleMKLClassifier", "SimpleMKLRegressor")),
    Method("global_weights.silpmkl", ("SILPMKLClassifier",)),
    Method("global_weights.lpmkl", ("LpMKLClassifier", "LpMKLRegressor")),
    Method("global_weights.gmkl", ("GMKLClassifier",)),
    Method("global_weights.smomkl", ("SMOMKLClassifier",)),
    Method("global_weights.mwumkl", ("MWUMKLClassifier",)),
    Method("primal.primalmkl", ("PrimalMKLClassifier", "PrimalMKLRegressor", "PrimalMKLOneClass")),
    Method("primal.lapmkl", ("LapMKLClassifier",), others={"graph": ("knn_laplacian",)}),
    Method(
        "global_weights.glks",
        (),
        others={"global_weights.glks": ("glks_transduce", "GLKSOptions", "GLKSResult")},
    ),
    Method(
        "localized.lmkl",
        ("LMKLClassifier", "LMKLRegressor"),
        others={
            "gating": ("Gating", "KernelGating", "check_gating"),
            "localized.gatings": GATINGS,
        },
        saved={
            "localized.lmkl": ("LMKLResult",),
            "localized.success": ("Voters",),
            "estimators.lmkl": ("ModelGates",),
            "localized.gatings": GATINGS,
        },
    ),
    Method("localized.clmkl", ("CLMKLClassifier",), saved={"localized.clustering": ("Clusters",)}),
    Method(
        "localized.swmkl",
        ("SwMKLClassifier",),
        saved={
            "localized.swmkl": ("SwMKLResult",),
            "localized.success": ("Success",),
            "svm.one_kernel": ("SVM",),
        },
    ),
    Method(
        "localized.ldmkl",
        ("LDMKLClassifier",),
        saved={
            "localized.ldmkl": ("LDMKLResult",),
            "localized.success": ("Success",),
            "svm.one_kernel": ("SVM",),
        },
    ),
    Method("localized.samkl", ("SAMKLClassifier",), saved={"localized.samkl": ("SAMKLResult",)}),
)


def public_names() -> dict[str, str]:
    """Return the module of every public name of a method, in the order of the API reference.

    Examples
    --------
    >>> public_names()["SimpleMKLClassifier"]
    'bayesmkl.discriminative.estimators.simplemkl'
    """
    estimators = {name: f"{PACKAGE}.{method.module}" for method in METHODS for name in method.estimators}
    others = {
        name: f"{PACKAGE}.{module}"
        for method in METHODS
        for module, names in method.others.items()
        for name in names
    }
    return estimators | others


def find_types() -> list[tuple[str, str]]:
    """Return module and name of every type that fitted models of all methods are made of, the estimators first."""
    found = [(f"{PACKAGE}.{method.module}", name) for method in METHODS for name in method.estimators]
    for method in METHODS:
        found += [(f"{PACKAGE}.{module}", name) for module, names in method.saved.items() for name in names]
    return list(dict.fromkeys(found))
