"""The registry of discriminative methods: names and modules. Nothing here imports a method.

Public names of the package and the estimators of the command line are taken
from here. Modules are those below `PACKAGE`.
"""

from __future__ import annotations

PACKAGE = "bayesmkl.discriminative"

ESTIMATORS = {  # in the order of the API reference
    "estimators.mkl": ("MKLClassifier", "MKLRegressor", "MKLOneClass"),
    "estimators.two_stage": (
        *("UniformMKLClassifier", "UniformMKLRegressor", "BestKernelClassifier"),
        *("AlignmentMKLClassifier", "AlignmentMKLRegressor", "OBMKLClassifier", "EasyMKLClassifier"),
        "LPBoostMKLClassifier",
    ),
    "estimators.joint": (
        *("SimpleMKLClassifier", "SimpleMKLRegressor", "SILPMKLClassifier"),
        *("LpMKLClassifier", "LpMKLRegressor", "GMKLClassifier", "SMOMKLClassifier"),
        "MWUMKLClassifier",
    ),
    "estimators.primalmkl": (
        *("PrimalMKLClassifier", "PrimalMKLRegressor", "PrimalMKLOneClass"),
        "LapMKLClassifier",
    ),
    "estimators.lmkl": ("LMKLClassifier", "LMKLRegressor"),
    "estimators.clmkl": ("CLMKLClassifier",),
    "estimators.by_success": ("SwMKLClassifier", "LDMKLClassifier"),
    "estimators.samkl": ("SAMKLClassifier",),
}
RULES = {  # for `weights` of the first ones
    "global_weights.two_stage": ("Uniform", "BestKernel", "Alignment", "OptimalKernel"),
    "global_weights.easymkl": ("Easy",),
    "global_weights.joint": ("Simple", "SILP", "Lp", "SMO"),
    "global_weights.gmkl": ("GMKL",),
}
OTHERS = {
    "graph": ("knn_laplacian",),
    "global_weights.glks": ("glks_transduce", "GLKSResult"),
    "gating": (
        *("Gating", "check_gating", "SoftmaxGating", "SigmoidGating"),
        *("GaussianGating", "GroupGating", "FixedGating"),
    ),
    "estimators.base": ("RegularizationPath",),
    "plots": ("plot_decision", "plot_gates"),
}


def public_names() -> dict[str, str]:
    """Return the module of every public name of the package, in the order of the API reference.

    Examples
    --------
    >>> public_names()["SimpleMKLClassifier"]
    'bayesmkl.discriminative.estimators.joint'
    """
    tables = ESTIMATORS | RULES | OTHERS
    return {name: f"{PACKAGE}.{module}" for module, names in tables.items() for name in names}
