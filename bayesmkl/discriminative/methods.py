"""The registry of discriminative methods: names, files and what tests need to know, one entry per method.

Public names of the package, types that may be loaded from files, the list in the API reference, the estimators of the
command line, soak runs and the contract tests are all taken from here. Nothing here imports a method.
"""

from __future__ import annotations

from typing import Any

from bayesmkl.discriminative.method import PACKAGE, Between, Form, Method, Power

__all__ = ["METHODS", "estimators_with", "find_types", "public_names"]


def _forms(estimator: str, target: str = "binary", **parameters: tuple[Any, ...]) -> tuple[Form, ...]:
    """Return one form per value of a parameter."""
    return tuple(Form(estimator, target, {key: v}) for key, values in parameters.items() for v in values)


METHODS: tuple[Method, ...] = (
    Method(
        "global_weights.uniform",
        ("UniformMKLClassifier", "UniformMKLRegressor"),
        traits=frozenset({"counts samples"}),
        identities=(Form("UniformMKLClassifier"), Form("UniformMKLRegressor", "real")),
        forms=(
            Form("UniformMKLClassifier"),
            Form("UniformMKLClassifier", "classes"),
            Form("UniformMKLRegressor", "real"),
        ),
    ),
    Method(
        "global_weights.best_kernel",
        ("BestKernelClassifier",),
        traits=frozenset({"svm per kernel"}),
        identities=_forms("BestKernelClassifier", cv=(3,)),
        forms=(
            Form("BestKernelClassifier", "binary", {"cv": 2}),
            Form("BestKernelClassifier", "classes", {"cv": 2, "multiclass": "shared"}),
        ),
        settings={"BestKernelClassifier": {"cv": (2, 3)}},
    ),
    Method(
        "global_weights.lpboostmkl",
        ("LPBoostMKLClassifier",),
        traits=frozenset({"svm per kernel", "votes"}),
        identities=_forms("LPBoostMKLClassifier", cv=(3,)),
        forms=(
            Form("LPBoostMKLClassifier", "binary", {"cv": 2}),
            Form("LPBoostMKLClassifier", "classes", {"cv": 2, "nu": 0.2}),
        ),
        settings={
            "LPBoostMKLClassifier": {
                "C_values": (None, (0.1, 1.0, 10.0)),
                "cv": (2, 3),
                "nu": Between(0.05, 0.95),
            }
        },
    ),
    Method(
        "global_weights.alignment",
        ("AlignmentMKLClassifier", "AlignmentMKLRegressor"),
        traits=frozenset({"counts samples"}),
        identities=(
            *_forms("AlignmentMKLClassifier", method=("ratio", "convex", "align", "alignf")),
            *_forms("AlignmentMKLRegressor", "real", method=("align", "alignf")),
        ),
        forms=(
            *_forms("AlignmentMKLClassifier", method=("ratio", "convex", "align", "alignf")),
            Form("AlignmentMKLClassifier", "classes"),
            *_forms("AlignmentMKLRegressor", "real", method=("ratio", "convex", "align", "alignf")),
        ),
        settings={
            "AlignmentMKLClassifier": {"method": ("ratio", "convex", "align", "alignf")},
            "AlignmentMKLRegressor": {"method": ("ratio", "convex", "align", "alignf")},
        },
    ),
    Method(
        "global_weights.obmkl",
        ("OBMKLClassifier",),
        traits=frozenset({"counts samples"}),
        identities=_forms("OBMKLClassifier", method=("ratio", "qp", "aqp")),
        forms=(
            *_forms("OBMKLClassifier", method=("ratio", "qp", "aqp")),
            Form("OBMKLClassifier", "classes", {"multiclass": "shared"}),
        ),
        settings={"OBMKLClassifier": {"method": ("ratio", "qp", "aqp", "aqp-paper")}},
    ),
    Method(
        "global_weights.easymkl",
        ("EasyMKLClassifier",),
        traits=frozenset({"scales kernels"}),
        identities=(Form("EasyMKLClassifier"),),
        forms=(
            Form("EasyMKLClassifier"),
            Form("EasyMKLClassifier", "binary", {"final": "komd"}),
            Form("EasyMKLClassifier", "classes"),
        ),
        settings={"EasyMKLClassifier": {"reg": Between(0.0, 1.0), "final": ("svm", "komd")}},
    ),
    Method(
        "global_weights.simplemkl",
        ("SimpleMKLClassifier", "SimpleMKLRegressor"),
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(
            *_forms("SimpleMKLClassifier", solver=("spg", "reduced-gradient")),
            Form("SimpleMKLRegressor", "real"),
        ),
        forms=(
            *_forms("SimpleMKLClassifier", solver=("spg", "reduced-gradient")),
            Form("SimpleMKLClassifier", "classes"),
            Form("SimpleMKLClassifier", "classes", {"multiclass": "shared"}),
            Form("SimpleMKLRegressor", "real"),
        ),
        settings={"SimpleMKLClassifier": {"solver": ("spg", "reduced-gradient")}},
    ),
    Method(
        "global_weights.silpmkl",
        ("SILPMKLClassifier",),
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(Form("SILPMKLClassifier"),),
        forms=(
            Form("SILPMKLClassifier"),
            Form("SILPMKLClassifier", "classes", {"multiclass": "shared"}),
        ),
    ),
    Method(
        "global_weights.lpmkl",
        ("LpMKLClassifier", "LpMKLRegressor"),
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(
            *_forms("LpMKLClassifier", p_norm=(1.0, 2.0)),
            *_forms("LpMKLRegressor", "real", p_norm=(2.0,)),
        ),
        forms=(
            *_forms("LpMKLClassifier", p_norm=(1.0, 1.5, 4.0)),
            Form("LpMKLClassifier", "classes", {"multiclass": "shared"}),
            Form("LpMKLRegressor", "real"),
        ),
    ),
    Method(
        "global_weights.gmkl",
        ("GMKLClassifier",),
        traits=frozenset({"counts samples", "leftovers", "penalizes weights"}),
        identities=(Form("GMKLClassifier", "binary", {"regularizer": "uniform"}), Form("GMKLClassifier")),
        forms=(
            *_forms("GMKLClassifier", regularizer=("l1", "uniform")),
            Form("GMKLClassifier", "classes"),
        ),
        settings={"GMKLClassifier": {"regularizer": ("l1", "uniform"), "solver": ("spg", "pg")}},
    ),
    Method(
        "global_weights.smomkl",
        ("SMOMKLClassifier",),
        traits=frozenset({"counts samples", "leftovers", "penalizes weights"}),
        identities=(Form("SMOMKLClassifier"),),
        forms=(
            Form("SMOMKLClassifier"),
            Form("SMOMKLClassifier", "classes", {"p_norm": 1.5}),
        ),
        settings={
            "SMOMKLClassifier": {
                "p_norm": Between(1.1, 4.0),
                "reg_weights": Power(-1, 1),
                "regularizer": ("norm", "divergence"),
            }
        },
    ),
    Method(
        "global_weights.mwumkl",
        ("MWUMKLClassifier",),
        traits=frozenset({"rough", "scales kernels"}),
        identities=(Form("MWUMKLClassifier"),),
        losses={"MWUMKLClassifier": "squared hinge"},
        forms=(
            Form("MWUMKLClassifier"),
            Form("MWUMKLClassifier", "classes", {"epsilon": 0.2}),
        ),
        settings={"MWUMKLClassifier": {"epsilon": (0.1, 0.3), "stopping": ("gap", "paper")}},
    ),
    Method(
        "primal.primalmkl",
        ("PrimalMKLClassifier", "PrimalMKLRegressor", "PrimalMKLOneClass"),
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(
            *_forms("PrimalMKLClassifier", weights=("spg", "closed")),
            Form("PrimalMKLRegressor", "real"),
        ),
        losses={"PrimalMKLClassifier": "squared hinge", "PrimalMKLRegressor": "ridge"},
        forms=(
            *_forms("PrimalMKLClassifier", weights=("spg", "closed", "paper")),
            *_forms("PrimalMKLClassifier", solver=("libsvm", "truncated", "pcg"), max_basis=(5,)),
            Form("PrimalMKLClassifier", "classes", {"p_norm": 2.0}),
            Form("PrimalMKLRegressor", "real"),
            Form("PrimalMKLRegressor", "real", {"loss": "huber"}),
            Form("PrimalMKLOneClass", "none"),
            Form("PrimalMKLOneClass", "none", {"contamination": 0.2, "p_norm": 1.0}),
        ),
        settings={
            "PrimalMKLClassifier": {
                "weights": ("spg", "closed", "paper"),
                "solver": ("auto", "libsvm", "newton", "truncated", "pcg"),
            },
            "PrimalMKLOneClass": {"contamination": ("auto", 0.1), "weights": ("spg", "closed")},
            "PrimalMKLRegressor": {"loss": ("squared", "huber"), "weights": ("spg", "closed")},
        },
    ),
    Method(
        "primal.lapmkl",
        ("LapMKLClassifier",),
        others={"graph": ("knn_laplacian",)},
        identities=(Form("LapMKLClassifier", "binary", {"gamma_intrinsic": 0.0}),),
        losses={"LapMKLClassifier": "squared hinge"},
        forms=(
            *_forms("LapMKLClassifier", solver=("deformed", "paper")),
            Form("LapMKLClassifier", "partial", {"unlabeled_label": 0}),
            Form("LapMKLClassifier", "classes", {"p_norm": 2.0}),
        ),
        settings={
            "LapMKLClassifier": {
                "gamma_ambient": Power(-3, 1),
                "gamma_intrinsic": Power(-3, 1),
                "n_neighbors": (3, 10),
                "solver": ("deformed", "paper"),
                "unlabeled_label": (None, -1),
            }
        },
    ),
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
            "localized.gatings": ("SoftmaxGating", "SigmoidGating", "GaussianGating", "GroupGating"),
            "localized.fixed_gating": ("FixedGating",),
            "jax_gating": ("JaxGating",),
        },
        saved={
            "localized.lmkl": ("LMKLResult",),
            "localized.voters": ("Voters",),
            "estimators.learned_gates": ("ModelGates",),
            "localized.gatings": ("SoftmaxGating", "SigmoidGating", "GaussianGating", "GroupGating"),
            "localized.fixed_gating": ("FixedGating",),
        },
        kind="localized",
        forms=(
            *_forms("LMKLClassifier", gating=("softmax", "sigmoid", "gaussian")),
            Form("LMKLClassifier", "classes"),
            Form("LMKLClassifier", "binary", {"readout": "vote", "max_iter": 5}),
            Form("LMKLClassifier", "binary", {"svm": "mwu", "max_iter": 5}),
            Form("LMKLRegressor", "real"),
        ),
        settings={
            "LMKLClassifier": {
                "gating": ("softmax", "sigmoid", "gaussian"),
                "max_iter": (20,),
                "solver": ("lbfgs", "armijo", "paper"),
            },
            "LMKLRegressor": {"gating": ("softmax", "sigmoid", "gaussian"), "max_iter": (20,)},
        },
    ),
    Method(
        "localized.clmkl",
        ("CLMKLClassifier",),
        saved={"localized.clustering": ("Clusters",)},
        kind="localized",
        forms=(
            Form("CLMKLClassifier", "binary", {"n_clusters": 2}),
            Form("CLMKLClassifier", "binary", {"n_clusters": 2, "p_norm": 1.0}),
            Form("CLMKLClassifier", "classes", {"n_clusters": 2, "multiclass": "shared"}),
        ),
        settings={
            "CLMKLClassifier": {"n_clusters": (1, 2, 3), "n_restarts": (2,), "evenness": Between(0.2, 0.8)}
        },
    ),
    Method(
        "localized.swmkl",
        ("SwMKLClassifier",),
        saved={
            "localized.swmkl": ("SwMKLResult",),
            "localized.success": ("Success",),
            "svm.one_kernel": ("SVM",),
        },
        kind="localized",
        traits=frozenset({"svm per kernel"}),
        forms=(
            *_forms("SwMKLClassifier", psd=("unit-norm", "paper")),
            Form("SwMKLClassifier", "classes", {"gate_targets": "cv"}),
        ),
        settings={"SwMKLClassifier": {"psd": ("unit-norm", "paper")}},
    ),
    Method(
        "localized.ldmkl",
        ("LDMKLClassifier",),
        saved={
            "localized.ldmkl": ("LDMKLResult",),
            "localized.success": ("Success",),
            "svm.one_kernel": ("SVM",),
        },
        kind="localized",
        traits=frozenset({"svm per kernel", "votes"}),
        forms=(
            Form("LDMKLClassifier"),
            Form("LDMKLClassifier", "classes", {"sv_gate": "paper", "bias": "keep"}),
        ),
        settings={
            "LDMKLClassifier": {
                "sv_gate": ("none", "paper"),
                "bias": ("refit", "keep", "drop"),
                "threshold": (0.0, 0.2, "paper"),
            }
        },
    ),
    Method(
        "localized.samkl",
        ("SAMKLClassifier",),
        saved={"localized.patterns": ("SAMKLResult",)},
        kind="localized",
        forms=(
            Form("SAMKLClassifier"),
            Form("SAMKLClassifier", "binary", {"initial_switches": "support", "fallback": False}),
            Form("SAMKLClassifier", "classes"),
        ),
        settings={
            "SAMKLClassifier": {
                "initial_switches": ("ones", "support"),
                "fallback": (True, False),
                "rule": ("auto", "surest", "one-versus-rest"),
                "normalize": (False, True),
            }
        },
    ),
)


def estimators_with(trait: str) -> list[str]:
    """Return the estimators of the methods that have one of `TRAITS`.

    Examples
    --------
    >>> estimators_with("rough")
    ['MWUMKLClassifier']
    """
    return [name for method in METHODS if trait in method.traits for name in method.estimators]


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
