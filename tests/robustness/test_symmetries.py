"""What must not matter does not: orders, names, signs, units, copies of kernels, what is left over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from methods_tried import TRIED
from strategies import (
    BAYESIAN_VARIANTS,
    LOCAL_VARIANTS,
    SIMILAR,
    VARIANTS,
    WEIGHTED_VARIANTS,
    Problem,
    Variant,
    assert_close,
    explore,
    few_or_many,
    problems,
    row_scores,
)

from bayesmkl.bemkl import Gamma
from bayesmkl.bemkl.moments import Gaussian
from bayesmkl.discriminative import GMKL, SMO

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("properties"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),  # kernels are random
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # sweeps are few
    pytest.mark.filterwarnings("ignore:.*clusters are not the nearest of any training sample:UserWarning"),
]
TOLERANCE = 2e-3  # of the largest score, at machines' tolerances of 1e-7
SETTINGS = {"tol": 1e-7, "max_iter": 2000, "epsilon": 0.02, "gap_tol": 1e-6}
SWEEPS = {"tol": 0.0, "max_iter": 15}


class Symmetry(NamedTuple):
    """A change of a problem after which the same is learned."""

    samples: bool  # another order of the training samples
    kernels: bool  # another order of the kernels
    flip: bool  # classes renamed, targets mirrored
    scale: float  # kernels in other units, and parameters with them
    seed: int

    def of(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        rng = np.random.default_rng(self.seed)
        n, n_kernels = problem.train.shape[0], problem.train.shape[-1]
        samples = rng.permutation(n) if self.samples else np.arange(n)
        kernels = rng.permutation(n_kernels) if self.kernels else np.arange(n_kernels)
        changed = problem.reordered(samples, kernels).scaled(self.scale)
        if not self.flip:
            return changed
        return changed._replace(targets={sort: FLIPPED[sort](y) for sort, y in changed.targets.items()})


RENAMED = {"a": "b", "b": "c", "c": "a"}
FLIPPED: dict[str, Any] = {
    "binary": lambda y: -y,
    "partial": lambda y: -y,
    "classes": lambda y: np.array([RENAMED[label] for label in y]),
    "labels": lambda y: np.stack([1 - y[:, 0], y[:, 1]], axis=1),
    "tasks": lambda y: np.stack([-y[:, 0], y[:, 1]], axis=1),
    "real": lambda y: 3.0 - y,
    "targets": lambda y: np.stack([3.0 - y[:, 0], y[:, 1]], axis=1),
    "none": lambda y: y,
}
FLIPPED_SCORES: dict[str, Any] = {
    **FLIPPED,
    "classes": lambda scores: scores[:, [2, 0, 1]],
    "labels": lambda scores: np.stack([-scores[:, 0], scores[:, 1]], axis=1),
}


def settings_for(variant: Variant, scale: float = 1.0) -> dict[str, Any]:
    """Return accurate settings that have the same effect on kernels times `scale` as on those times one."""
    if variant.name in ("BEMKLClassifier", "BEMKLOrdinalClassifier"):
        return SWEEPS | {"intermediate_scale": 1.0}  # folds would choose another one for other units
    if variant.is_bayesian:
        return SWEEPS
    more = {"C": 2.0 / scale, "gate_C": 1.0 / scale, "reg": 0.5 * scale, "gamma_ambient": 0.1 * scale}
    if "scales kernels" in variant.traits:
        more |= {"C": 2.0, "reg": 0.1}
    elif variant.name == "GMKLClassifier" or isinstance(variant.rule, GMKL):
        more["C"] = 2.0 / np.sqrt(
            scale
        )  # weights become 1 / sqrt(scale) times as large, and cost so much less
    elif is_smo(variant):  # weights take the inverse unit of the kernels
        more |= {"C": 2.0, "reg_weights": scale**2, "weights__reg_weights": scale**2}
    if variant.name.startswith("LMKL"):
        more["max_iter"] = 10
    if (
        variant.name == "SAMKLClassifier"
    ):  # later ones may end elsewhere, as rounding decides between patterns
        more["max_iter"] = 1
    if variant.parameters.get("method") in (
        "aqp",
        "aqp-paper",
    ):  # alternates without an objective, and may not come to an end
        more["max_iter"] = 20
    if variant.parameters.get("weights") == "paper":  # takes thousands of steps to more
        more["tol"] = 1e-4
    return SETTINGS | more


def is_smo(variant: Variant) -> bool:
    return variant.name == "SMOMKLClassifier" or isinstance(variant.rule, SMO)


def regularizer_of(variant: Variant) -> Any:
    return variant.parameters.get("regularizer", getattr(variant.rule, "regularizer", None))


def breaks(variant: Variant) -> str:
    """Return the symmetries that a method does not have: s(amples), k(ernels), f(lip), u(nits)."""
    values = variant.parameters
    if variant.is_bayesian:
        # Sample weights start at one, whatever the kernels: see below. Nonnegative weights are updated in turn.
        return "uk" if values.get("nonnegative") else "u"
    if variant.name.startswith(
        "LMKL"
    ):  # a random start for each kernel in turn, Gaussian gates at a random sample
        return "ks" if values.get("gating") == "gaussian" else "k"
    if variant.name == "CLMKLClassifier":
        return "s"  # clusters start at random samples
    if hasattr(variant.make(), "cv") or values.get("gate_targets") == "cv":
        return "sf"  # folds are made of positions, class after class
    if variant.name == "AlignmentMKLRegressor" and values["method"] in ("ratio", "convex"):
        return "fu"  # not centered: where the target is zero matters
    if values.get("method") == "convex" or regularizer_of(variant) == "uniform":
        return "u"  # compares kernels with a matrix of ones, weights with a number
    return ""


def symmetry_holds(variant: Variant, problem: Problem, symmetry: Symmetry) -> None:
    """The changed problem gives the scores of the other one, changed."""
    broken = breaks(variant)
    symmetry = symmetry._replace(
        samples=symmetry.samples and "s" not in broken,
        kernels=symmetry.kernels and "k" not in broken,
        flip=symmetry.flip and "f" not in broken,
        scale=1.0 if "u" in broken else symmetry.scale,
    )
    changed = symmetry.of(problem)
    one = row_scores(variant, variant.fit(problem, **settings_for(variant)), problem)
    other = row_scores(variant, variant.fit(changed, **settings_for(variant, symmetry.scale)), changed)
    expected = FLIPPED_SCORES[variant.target](one) if symmetry.flip else one
    if variant.target == "none":
        expected = expected * symmetry.scale  # scores are in units of the kernels
    assert_close(other, expected, tolerance_of(variant), "score")


def tolerance_of(variant: Variant) -> float:
    if variant.is_bayesian:
        return 1e-6
    return 0.1 if "rough" in variant.traits else TOLERANCE


yes_or_no = st.sampled_from([True, False])  # the first example has all of them


symmetries = st.builds(
    Symmetry, yes_or_no, yes_or_no, yes_or_no, st.sampled_from([50.0, 0.02, 1.0]), st.integers(0, 99)
)


# Machines by multiplicative weights are rough, and gates that follow them end elsewhere.
EXACT = [variant for variant in VARIANTS if "mwu" not in variant.parameters.values()]


# Of these, `tests/discriminative/test_identities.py` tries one symmetry after the other, weights included.
ALONE = [
    Variant(form.estimator, form.target, dict(form.parameters))
    for tried in TRIED.values()
    for form in tried.identities
]


@few_or_many(1, 15, [variant for variant in EXACT if variant not in ALONE])
def test_symmetries(variants, n_examples):
    kinds = (*SIMILAR, "low rank")
    explore(symmetry_holds, variants, n_examples, problem=problems(kinds, 3), symmetry=symmetries)


# ------------------------------------------------------------------------------------------- units of BEMKL models


def in_other_units(posterior: Any, scale: float) -> Any:
    """Return a posterior whose sample weights are divided by `scale`."""
    if isinstance(posterior, Gaussian) or not isinstance(posterior, tuple):
        return posterior
    if not hasattr(posterior, "_fields"):
        return tuple(in_other_units(part, scale) for part in posterior)
    changed = {
        name: Gaussian(part.mean / scale, part.cov / scale**2, part.log_det)
        if name == "dual"
        else in_other_units(part, scale)
        for name, part in posterior._asdict().items()
    }
    return type(posterior)(**changed)


def units_do_not_matter(variant: Variant, problem: Problem, scale: float) -> None:
    """Kernels in other units have sample weights in the inverse unit: the same bound and scores, sweep by sweep."""
    start = variant.fit(problem, **settings_for(variant)).posterior_
    own = 1e-10 if variant.make().sample_prior == "sparse" else 1.0
    found = [
        variant.fit(
            problem.scaled(s),
            **settings_for(variant)
            | {"max_iter": 4, "init": in_other_units(start, s), "sample_prior": Gamma(own, own / s**2)},
        )
        for s in (1.0, scale)
    ]
    one, other = (np.hstack(model.elbo_history_) for model in found)
    assert_close(other, one, 1e-8, "ELBO")
    one, other = (
        row_scores(variant, model, problem.scaled(s)) for model, s in zip(found, (1.0, scale), strict=True)
    )
    assert_close(other, one, 1e-6, "score")


@few_or_many(1, 30, BAYESIAN_VARIANTS)
def test_symmetry_of_units(variants, n_examples):
    kinds = (*SIMILAR, "low rank")
    scales = st.sampled_from([20.0, 0.01])
    explore(units_do_not_matter, variants, n_examples, problem=problems(kinds, 2), scale=scales)


# --------------------------------------------------------------------------------------- copies of every kernel

N_COPIES = 3


def copies_share(variant: Variant, problem: Problem) -> None:
    """Copies of every kernel, `N_COPIES` of each, share what one of them had.

    With weights bounded by a p-norm they have more in all: c copies of one kernel with weight d / c each have the
    norm c^(1/p - 1) d, so that their sum may be t = c^(1 - 1/p) times as large, and a kernel times t with the price C
    is that kernel with the price t C. Where weights cost λ/2 ||d||_p² instead, that becomes λ / (2 t²) ||d||_p².
    """
    copied = problem.of_each(np.repeat(np.arange(problem.train.shape[-1]), N_COPIES))
    p_norm = getattr(variant.rule or variant.make(), "p_norm", 1.0)
    radius = N_COPIES ** (1.0 - 1.0 / p_norm)
    plain = settings_for(variant)
    if is_smo(variant):
        larger = plain | dict.fromkeys(
            ("reg_weights", "weights__reg_weights"), plain["reg_weights"] / radius**2
        )
    else:
        prices = {"C": plain["C"] * radius, "reg": plain["reg"] / radius}
        larger = plain | prices | {"gamma_ambient": 0.1 / radius, "gamma_intrinsic": 0.01 / radius}
        larger = larger if radius > 1.0 else plain
    many, one = variant.fit(copied, **plain), variant.fit(problem, **larger)
    expected = row_scores(variant, one, problem) * (radius if variant.target == "none" else 1.0)
    assert_close(row_scores(variant, many, copied), expected, tolerance_of(variant), "score")


def shares_among_copies(variant: Variant) -> bool:
    if variant.name.startswith(("LMKL", "SAMKL")):
        return False  # gates and switches of every copy are its own
    if variant.target == "classes" and variant.name != "CLMKLClassifier":
        return False  # nothing but one machine per class
    if variant.parameters.get("sv_gate") == "paper":
        return False  # votes are multiplied by gates twice, outside and inside of a nonlinear function
    return regularizer_of(variant) != "uniform"  # prices distances from 1 / n_kernels


@few_or_many(1, 40, list(filter(shares_among_copies, WEIGHTED_VARIANTS + LOCAL_VARIANTS)))
def test_copies_of_all_kernels_share_what_one_had(variants, n_examples):
    explore(copies_share, variants, n_examples, problem=problems((*SIMILAR, "low rank"), 2))


def copies_are_equal(variant: Variant, problem: Problem) -> None:
    """Copies of a kernel have the same weights, standard deviations and prior precisions."""
    n_kernels = problem.train.shape[-1]
    model = variant.fit(problem.of_each([*range(n_kernels), 0]), **settings_for(variant))
    for values in (model.kernel_weights_, model.kernel_weights_std_):
        assert_close(values[..., 0], values[..., -1], 1e-6, "weight of the copy")


@few_or_many(1, 30, [v for v in BAYESIAN_VARIANTS if not v.parameters.get("nonnegative")])
def test_copies_of_a_kernel_have_equal_weights(variants, n_examples):
    explore(copies_are_equal, variants, n_examples, problem=problems((*SIMILAR, "low rank"), 1))


# ---------------------------------------------------------------------------------- kernels and samples without use


def leftovers_do_not_matter(variant: Variant, problem: Problem) -> None:
    """Where the problem is convex, kernels without weight and samples without a dual can be left out."""
    settings = settings_for(variant)
    model = variant.fit(problem, **settings)
    expected = row_scores(variant, model, problem)
    every = np.arange(problem.train.shape[-1])
    used = np.flatnonzero(model.kernel_weights_ > 1e-9 * model.kernel_weights_.max())
    for samples, kernels in ((model.support_, every), (np.arange(len(problem.train)), used)):
        less = problem.reordered(samples, kernels)
        found = row_scores(variant, variant.fit(less, **settings), less)
        assert_close(found, expected, tolerance_of(variant), "score")


CONVEX = [
    variant
    for variant in WEIGHTED_VARIANTS
    if variant.target in ("binary", "real")
    and "leftovers" in variant.traits
    and regularizer_of(variant) != "uniform"  # knows the number of kernels
]


@few_or_many(1, 40, CONVEX)
def test_kernels_and_samples_without_use_can_be_left_out(variants, n_examples):
    explore(leftovers_do_not_matter, variants, n_examples, problem=problems((*SIMILAR, "low rank"), 2))
