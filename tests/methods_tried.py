"""What tests know of the discriminative methods: forms to try, identities, traits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bayesmkl.discriminative import GMKL, SILP, SMO

TRAITS = {  # what sets a method apart in tests that run over all of them
    "counts samples": "samples that come twice are samples of twice the penalty",
    "leftovers": "kernels without weight and samples without a coefficient can be left out before fitting",
    "rough": "as accurate as its `epsilon`: to a tenth in tests, not to 2e-3",
    "scales kernels": "kernels are divided by a mean of their diagonal inside, so that penalties need no change",
    "svm per kernel": "time grows with the number of kernels times that of an SVM",
    "penalizes weights": "weights find their own scale, unless the regularizer keeps them on the simplex",
    "votes": "every kernel has coefficients of its own: scores are no function of the combined kernel",
}


class Form(NamedTuple):
    """An estimator with some of its parameters.

    Parameters
    ----------
    estimator : str
    target : str
        Sort of target: "binary", "classes", "partial" (with unlabeled samples), "real" or "none".
    parameters : mapping
    """

    estimator: str
    target: str = "binary"
    parameters: Mapping[str, Any] = {}


class Tried(NamedTuple):
    """How one method is tested.

    Parameters
    ----------
    traits : frozenset of str
        Of `TRAITS`.
    identities : tuple of Form
        Forms that are the usual SVM on the kernel where there is only one.
    losses : mapping of str to str
        Loss of that SVM by estimator, where it is not "hinge" for classifiers and "tube" for regressors: "squared
        hinge" or "ridge".
    forms : tuple of Form
        Forms whose properties and symmetries are tested, at least one per estimator.
    """

    traits: frozenset[str] = frozenset()
    identities: tuple[Form, ...] = ()
    losses: Mapping[str, str] = {}
    forms: tuple[Form, ...] = ()

    def loss(self, estimator: str) -> str:
        """Return the loss of the SVM that an estimator is on one kernel."""
        return self.losses.get(estimator, "tube" if estimator.endswith("Regressor") else "hinge")


def _forms(estimator: str, target: str = "binary", **parameters: tuple[Any, ...]) -> tuple[Form, ...]:
    """Return one form per value of a parameter."""
    return tuple(Form(estimator, target, {key: v}) for key, values in parameters.items() for v in values)


RULES_FOR_NUMBERS = (SILP(tol=1e-6), GMKL(regularizer="uniform", tol=1e-6), SMO(tol=1e-6))

TRIED: dict[str, Tried] = {
    "mkl": Tried(
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(
            Form("MKLClassifier"),
            *_forms("MKLRegressor", "real", weights=RULES_FOR_NUMBERS[:1]),
        ),
        forms=(
            Form("MKLClassifier"),
            *_forms("MKLRegressor", "real", weights=RULES_FOR_NUMBERS),
            Form("MKLOneClass", "none"),
        ),
    ),
    "uniform": Tried(
        traits=frozenset({"counts samples"}),
        identities=(Form("UniformMKLClassifier"), Form("UniformMKLRegressor", "real")),
        forms=(
            Form("UniformMKLClassifier"),
            Form("UniformMKLClassifier", "classes"),
            Form("UniformMKLRegressor", "real"),
        ),
    ),
    "best_kernel": Tried(
        traits=frozenset({"svm per kernel"}),
        identities=_forms("BestKernelClassifier", cv=(3,)),
        forms=(
            Form("BestKernelClassifier", "binary", {"cv": 2}),
            Form("BestKernelClassifier", "classes", {"cv": 2, "multiclass": "shared"}),
        ),
    ),
    "lpboostmkl": Tried(
        traits=frozenset({"svm per kernel", "votes"}),
        identities=_forms("LPBoostMKLClassifier", cv=(3,)),
        forms=(
            Form("LPBoostMKLClassifier", "binary", {"cv": 2}),
            Form("LPBoostMKLClassifier", "classes", {"cv": 2, "nu": 0.2}),
        ),
    ),
    "alignment": Tried(
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
    ),
    "obmkl": Tried(
        traits=frozenset({"counts samples"}),
        identities=_forms("OBMKLClassifier", method=("ratio", "qp", "aqp")),
        forms=(
            *_forms("OBMKLClassifier", method=("ratio", "qp", "aqp")),
            Form("OBMKLClassifier", "classes", {"multiclass": "shared"}),
        ),
    ),
    "easymkl": Tried(
        traits=frozenset({"scales kernels"}),
        identities=(Form("EasyMKLClassifier"),),
        forms=(
            Form("EasyMKLClassifier"),
            Form("EasyMKLClassifier", "binary", {"final": "komd"}),
            Form("EasyMKLClassifier", "classes"),
        ),
    ),
    "simplemkl": Tried(
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
    ),
    "silpmkl": Tried(
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(Form("SILPMKLClassifier"),),
        forms=(
            Form("SILPMKLClassifier"),
            Form("SILPMKLClassifier", "classes", {"multiclass": "shared"}),
        ),
    ),
    "lpmkl": Tried(
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
    "gmkl": Tried(
        traits=frozenset({"counts samples", "leftovers", "penalizes weights"}),
        identities=(Form("GMKLClassifier", "binary", {"regularizer": "uniform"}), Form("GMKLClassifier")),
        forms=(
            *_forms("GMKLClassifier", regularizer=("l1", "uniform")),
            Form("GMKLClassifier", "classes"),
        ),
    ),
    "smomkl": Tried(
        traits=frozenset({"counts samples", "leftovers", "penalizes weights"}),
        identities=(Form("SMOMKLClassifier"),),
        forms=(
            Form("SMOMKLClassifier"),
            Form("SMOMKLClassifier", "classes", {"p_norm": 1.5}),
        ),
    ),
    "mwumkl": Tried(
        traits=frozenset({"rough", "scales kernels"}),
        identities=(Form("MWUMKLClassifier"),),
        losses={"MWUMKLClassifier": "squared hinge"},
        forms=(
            Form("MWUMKLClassifier"),
            Form("MWUMKLClassifier", "classes", {"epsilon": 0.2}),
        ),
    ),
    "primalmkl": Tried(
        traits=frozenset({"counts samples", "leftovers"}),
        identities=(
            *_forms("PrimalMKLClassifier", weights=("spg", "closed")),
            Form("PrimalMKLRegressor", "real"),
        ),
        losses={"PrimalMKLClassifier": "squared hinge", "PrimalMKLRegressor": "ridge"},
        forms=(
            *_forms("PrimalMKLClassifier", weights=("spg", "closed", "paper")),
            *_forms("PrimalMKLClassifier", solver=("libsvm", "truncated", "pcg")),
            Form("PrimalMKLClassifier", "classes", {"p_norm": 2.0}),
            Form("PrimalMKLRegressor", "real"),
            Form("PrimalMKLRegressor", "real", {"loss": "huber"}),
            Form("PrimalMKLOneClass", "none"),
            Form("PrimalMKLOneClass", "none", {"contamination": 0.2, "p_norm": 1.0}),
        ),
    ),
    "lapmkl": Tried(
        identities=(Form("LapMKLClassifier", "binary", {"gamma_intrinsic": 0.0}),),
        losses={"LapMKLClassifier": "squared hinge"},
        forms=(
            *_forms("LapMKLClassifier", solver=("deformed", "paper")),
            Form("LapMKLClassifier", "partial", {"unlabeled_label": 0}),
            Form("LapMKLClassifier", "classes", {"p_norm": 2.0}),
        ),
    ),
    "lmkl": Tried(
        forms=(
            *_forms("LMKLClassifier", gating=("softmax", "sigmoid", "gaussian")),
            Form("LMKLClassifier", "classes"),
            Form("LMKLClassifier", "binary", {"readout": "vote", "max_iter": 5}),
            Form("LMKLClassifier", "binary", {"svm": "mwu", "max_iter": 5}),
            Form("LMKLRegressor", "real"),
        )
    ),
    "clmkl": Tried(
        forms=(
            Form("CLMKLClassifier", "binary", {"n_clusters": 2}),
            Form("CLMKLClassifier", "binary", {"n_clusters": 2, "p_norm": 1.0}),
            Form("CLMKLClassifier", "classes", {"n_clusters": 2, "multiclass": "shared"}),
        )
    ),
    "swmkl": Tried(
        traits=frozenset({"svm per kernel"}),
        forms=(
            *_forms("SwMKLClassifier", psd=("unit-norm", "paper")),
            Form("SwMKLClassifier", "classes", {"gate_targets": "cv"}),
        ),
    ),
    "ldmkl": Tried(
        traits=frozenset({"svm per kernel", "votes"}),
        forms=(
            Form("LDMKLClassifier"),
            Form("LDMKLClassifier", "classes", {"sv_gate": "paper", "bias": "keep"}),
        ),
    ),
    "samkl": Tried(
        forms=(
            Form("SAMKLClassifier"),
            Form("SAMKLClassifier", "binary", {"initial_switches": "support", "fallback": False}),
            Form("SAMKLClassifier", "classes"),
        )
    ),
}


def traits_of(estimator: str) -> frozenset[str]:
    """Return what sets the method of an estimator apart."""
    found = (
        tried.traits for tried in TRIED.values() if any(form.estimator == estimator for form in tried.forms)
    )
    return next(found, frozenset())


def estimators_with(trait: str) -> list[str]:
    """Return the estimators of the methods that have one of `TRAITS`."""
    every = [form.estimator for tried in TRIED.values() if trait in tried.traits for form in tried.forms]
    return list(dict.fromkeys(every))
