"""SAMKL as an estimator, against the algorithm and enumeration; its integer step against brute force."""

from __future__ import annotations

import copy
import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import load_iris, make_corrupted
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.folds import evenly_dealt
from bayesmkl.discriminative.localized.samkl import (
    SAMKLOptions,
    choose_switches,
    fit_samkl,
    infer_switches,
    initial_support,
)
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

SEPARATIONS = (1.5, 1.0, 1.0, 0.0)
OF_USE = 19  # a seed with which switches help in the folds


def stack_of(kernels):
    return DenseStack(np.ascontiguousarray(np.moveaxis(kernels, -1, 0)))


@pytest.fixture(scope="module")
def pair():
    """Training kernels, those of new samples with them, labels of both."""
    sample = make_corrupted(90, corruption="kernels", fraction=0.3, separations=SEPARATIONS, random_state=0)
    return sample.kernels[:60, :60], sample.kernels[60:, :60], sample.target[:60], sample.target[60:]


@pytest.fixture(scope="module")
def three():
    """Iris in thirds: kernels of single features, three classes."""
    X, y = load_iris(return_X_y=True)
    bank = KernelBank(Gaussian(width=1), views="each").fit(X[::2])
    return bank.evaluate(X[::2]).transpose(1, 2, 0), bank.evaluate(X[1::4]).transpose(1, 2, 0), y[::2]


@pytest.fixture(scope="module")
def binary(pair):
    return SAMKLClassifier("precomputed", C=10.0, max_switches=2, fallback=False).fit(pair[0], pair[2])


@pytest.fixture(scope="module")
def several(three):
    return SAMKLClassifier("precomputed", C=10.0, max_switches=2, fallback=False).fit(three[0], three[2])


# ------------------------------------------------------------------------------------ against the algorithm


def test_duality_and_budget_hold_for_every_class(three, several):
    assert several.kernel_switches_.shape == (3, 75, 4)
    assert several.kernel_weights_.shape == (3, 4)
    assert several.margins_.shape == (3, 75)
    assert [patterns.shape[1] for patterns in several.patterns_] == [4, 4, 4]
    assert ((~several.kernel_switches_).sum(axis=2) <= 2).all()
    np.testing.assert_allclose(several.kernel_weights_.sum(axis=1), 1.0)
    np.testing.assert_allclose(several.dual_coef_.sum(axis=1), 0.0, atol=1e-8)
    signs = np.where(three[2] == several.classes_[:, None], 1.0, -1.0)
    assert (several.dual_coef_ * signs >= 0.0).all()
    assert (several.dual_coef_ * signs <= 10.0 / several.margins_ * (1 + 1e-9)).all()
    best = np.array([history.min() for history in several.objective_history_])
    assert (several.duality_gap_ <= 1e-2 * best * (1 + 1e-9)).all()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("rule", ["auto", "surest", "one-versus-rest"])
def test_brute_force_scores_of_new_samples(pair, binary, rule, normalize):
    _, new, _, _ = pair
    model = copy.copy(binary).set_params(rule=rule, normalize=normalize)
    norms = binary.results_[0].norms
    scores = []
    for row in new:
        contributions = binary.kernel_weights_ * ((row.T * binary.kernel_switches_.T) @ binary.dual_coef_)
        each = np.array([contributions[h].sum() + binary.intercept_ for h in binary.patterns_])
        if normalize:
            each /= [max(1e-3, norms[h].sum() / norms.sum()) for h in binary.patterns_]
        scores.append(each.max() if rule == "one-versus-rest" else max(each, key=abs))
    np.testing.assert_allclose(model.decision_function(new), scores, atol=1e-10)
    np.testing.assert_array_equal(model.predict(new), np.where(np.array(scores) > 0, 1, -1))


def test_brute_force_of_several_classes_is_the_largest_score(three, several):
    train, new, y = three
    for c, label in enumerate(several.classes_):
        target = np.where(y == label, 1.0, -1.0)
        result = fit_samkl(stack_of(train), target, SAMKLOptions(10.0, 2, ties="smallest"))
        inference = infer_switches(stack_of(new), result, "one-versus-rest")
        np.testing.assert_allclose(several.decision_function(new)[:, c], inference.scores, atol=1e-9)
        np.testing.assert_array_equal(
            several.gates(new)[c] > 0, (inference.switches.T & (result.kernel_weights > 0))
        )
    expected = several.classes_[several.decision_function(new).argmax(axis=1)]
    np.testing.assert_array_equal(several.predict(new), expected)


def test_two_classes_one_versus_rest_with_both_svms_is_the_surest_rule(pair):
    train, new, y, _ = pair
    settings = {"C": 10.0, "max_switches": 2, "gap_tol": 1e-6, "rule": "one-versus-rest", "fallback": False}
    positive, negative = (SAMKLClassifier("precomputed", **settings).fit(train, target) for target in (y, -y))
    mine, theirs = positive.decision_function(new), negative.decision_function(new)
    surest = positive.set_params(rule="surest").decision_function(new)
    np.testing.assert_allclose(np.where(mine >= theirs, mine, -theirs), surest, atol=2e-3)
    assert (np.sign(mine) != np.sign(surest)).any()  # alone it favors its class


# ---------------------------------------------------------------------------------------- degenerate cases


def test_support_of_the_simplex_solution_is_where_samples_start(pair):
    train, _, y, _ = pair
    noise = np.repeat(np.eye(60)[:, :, None], 2, axis=2)  # says nothing about any other sample
    padded = np.concatenate([train, noise], axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels like the identity
        model = SAMKLClassifier("precomputed", initial_switches="support", fallback=False).fit(padded, y)
    support = initial_support(stack_of(padded), y.astype(float), SAMKLOptions())
    assert support.any()
    assert not support.all()
    assert ((model.kernel_switches_ != support).sum(axis=1) <= 1).all()
    assert not model.kernel_switches_[:, ~support].any()


def test_recovery_of_the_samples_that_a_kernel_takes_for_others():
    data = make_corrupted(120, corruption="kernels", fraction=0.3, separations=(2, 2, 2), random_state=1)
    model = SAMKLClassifier("precomputed", C=10.0, fallback=False).fit(data.kernels, data.target)
    off = ~model.kernel_switches_ & (model.kernel_weights_ > 0)
    assert off.sum() > 50
    assert data.corrupted[off].mean() > data.corrupted.mean() + 0.1


# ---------------------------------------------------------------------------------------- without switches


def by_hand(kernels, labels, budget):
    """Whether switches help in the folds of the estimator."""
    folds = evenly_dealt(np.arange(len(labels)), labels, 3, np.random.default_rng(0))
    wrong = []
    for train, new in folds:
        square, rows = kernels[np.ix_(train, train)], kernels[np.ix_(new, train)]
        models = [SAMKLClassifier("precomputed", max_switches=m, fallback=False) for m in (0, budget)]
        scores = [model.fit(square, labels[train]).decision_function(rows) for model in models]
        wrong.append(np.array([(f > 0.0) != (labels[new] > 0.0) for f in scores], dtype=float))
    none, some = np.hstack(wrong)
    gain = none - some
    return gain.mean() > gain.std() / np.sqrt(len(gain))


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "expected"), [(0, False), (OF_USE, True)])
def test_switches_are_kept_where_they_help_in_the_folds(seed, expected):
    data = make_corrupted(80, corruption="kernels", fraction=0.3, separations=SEPARATIONS, random_state=seed)
    K, y = data.kernels, data.target
    assert by_hand(K, y, 1) == expected
    model = SAMKLClassifier("precomputed").fit(K, y)
    same = SAMKLClassifier("precomputed", max_switches=int(expected), fallback=False).fit(K, y)
    assert model.is_local_ is expected
    assert model.fell_back_ is not expected
    np.testing.assert_array_equal(model.decision_function(K), same.decision_function(K))
    np.testing.assert_array_equal(model.kernel_switches_, same.kernel_switches_)
    if not expected:
        model, simple = (
            SAMKLClassifier("precomputed", gap_tol=1e-4),
            SimpleMKLClassifier("precomputed", tol=1e-4),
        )
        scores = [one.fit(K, y).decision_function(K) for one in (model, simple)]
        np.testing.assert_allclose(*scores, atol=0.02)


def test_classes_too_small_to_be_held_out_are_not_switched(pair):
    y = np.where(np.arange(60) == 7, 1, -1)
    assert SAMKLClassifier("precomputed", C=100.0).fit(pair[0], y).is_local_ is False


@pytest.mark.heavy
def test_classes_are_compared_together(three):
    K, _, y = three
    folds = evenly_dealt(np.arange(len(y)), np.searchsorted(np.unique(y), y), 3, np.random.default_rng(0))
    for C in (0.01, 10.0):
        gain = []
        for train, new in folds:
            square, rows = K[np.ix_(train, train)], K[np.ix_(new, train)]
            models = [SAMKLClassifier("precomputed", C=C, max_switches=m, fallback=False) for m in (0, 2)]
            none, some = (model.fit(square, y[train]).predict(rows) != y[new] for model in models)
            gain.append(none.astype(float) - some)
        gain = np.concatenate(gain)
        helps = gain.mean() > gain.std() / np.sqrt(len(gain))
        model = SAMKLClassifier("precomputed", C=C, max_switches=2).fit(K, y)
        assert model.fell_back_ == (not helps)
        several = (model.kernel_switches_ != model.kernel_switches_[:, :1]).any(axis=(1, 2))
        np.testing.assert_array_equal(model.is_local_, several)


# ---------------------------------------------------------------------------------------------- refusals


def test_one_warning_says_which_limit_was_met_and_what_to_do(pair):
    train, _, y, _ = pair
    model = SAMKLClassifier("precomputed", max_switches=2, ties="largest", max_iter=2, fallback=False)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 alternations .* Increase `max_iter`") as caught:
        model.fit(train, y)
    assert len(caught) == 1
    assert model.outcome_ is Outcome.MAX_ITER
    model.set_params(tol=0.0).fit(train, y)  # all alternations were asked for
    assert model.n_iter_ == 2
    hard = {"C": 1000.0, "ties": "largest", "tol": 1e6}  # no SVM is solved to the last digit
    with pytest.warns(
        ConvergenceWarning, match=r"duality gap of .* above gap_tol=1e-15. Normalize"
    ) as caught:
        SAMKLClassifier("precomputed", **hard, gap_tol=1e-15, fallback=False).fit(train, y)
    assert len(caught) == 1


def random_instances(rng, n_kernels, n_samples, kind):
    """Contributions, requirements, h0, budget and h0 again as previous switches, a third of them infeasible."""
    if kind == "ties":  # exact in floating point, many equal sums and equalities in the constraint
        contributions = rng.integers(-3, 5, size=(n_kernels, n_samples)).astype(float)
        requirements = rng.integers(-6, 3 * n_kernels, size=n_samples).astype(float)
    else:
        contributions = rng.normal(0.2, 1.0, size=(n_kernels, n_samples))
        requirements = rng.normal(0.4 * n_kernels, 0.5 * n_kernels, size=n_samples)
    initial = rng.random(n_kernels) < rng.choice([0.3, 0.7, 1.0])
    max_switches = int(rng.integers(0, n_kernels + 1))
    previous = np.repeat(initial[:, None], n_samples, axis=1)
    return contributions, requirements, initial, max_switches, previous


def enumerate_best(contributions, requirement, initial, max_switches):
    """The fewest switches, then the largest sum, by trying all; None if nothing is feasible."""
    best = None
    for h in product([False, True], repeat=len(contributions)):
        h = np.array(h)
        total = contributions[h].sum()
        if np.sum(h != initial) <= max_switches and total >= requirement - 1e-9:
            key = (h.sum(), -round(total, 9))
            best = key if best is None else min(best, key)
    return best


def solve_milp(contributions, requirement, initial, max_switches):
    """Objective of eq. 15 by HiGHS; None if it is infeasible."""
    n_kernels = len(contributions)
    result = milp(
        np.ones(n_kernels),
        integrality=np.ones(n_kernels),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(contributions[None], requirement - 1e-9),
            LinearConstraint(1.0 - 2.0 * initial[None], ub=max_switches - initial.sum()),
        ],
    )
    return round(result.fun) if result.status == 0 else None


def assert_feasible(switches, contributions, requirements, initial, max_switches):
    assert ((switches != initial[:, None]).sum(axis=0) <= max_switches).all()
    slack = (contributions * switches).sum(axis=0) - requirements
    assert (slack >= -1e-8 * np.maximum(1.0, np.abs(requirements))).all()


@pytest.mark.parametrize("kind", ["smooth", "ties"])
@pytest.mark.parametrize("n_kernels", [1, 2, 5, 7])
def test_brute_force_fewest_kernels_then_largest_sum(rng, kind, n_kernels):
    n_found = 0
    for _ in range(8):
        instance = random_instances(rng, n_kernels, 10, kind)
        contributions, requirements, initial, max_switches, previous = instance
        marked = ~previous  # kept exactly where nothing is feasible
        switches = choose_switches(contributions, requirements, initial, max_switches, marked)
        for i in range(10):
            expected = enumerate_best(contributions[:, i], requirements[i], initial, max_switches)
            if expected is None:
                np.testing.assert_array_equal(switches[:, i], marked[:, i])
                continue
            n_found += 1
            chosen = switches[:, i]
            assert (chosen.sum(), -round(contributions[chosen, i].sum(), 9)) == expected
            assert (chosen != initial).sum() <= max_switches
    assert n_found > 20


def compare_with_milp(rng, n_instances, sizes):
    n_feasible = 0
    for number in range(n_instances):
        kind = ("smooth", "ties")[number % 2]
        contributions, requirements, initial, max_switches, previous = random_instances(
            rng, int(rng.choice(sizes)), 1, kind
        )
        nothing = np.zeros_like(previous)
        switches = choose_switches(contributions, requirements, initial, max_switches, nothing)
        expected = solve_milp(contributions[:, 0], requirements[0], initial, max_switches)
        if expected is None:
            assert not switches.any()
            continue
        n_feasible += 1
        assert switches.sum() == expected
        assert_feasible(switches, contributions, requirements, initial, max_switches)
    assert 0.3 * n_instances < n_feasible < 0.97 * n_instances


@pytest.mark.heavy
def test_other_solver_agrees_on_objective_and_feasibility(rng):
    compare_with_milp(rng, 300, sizes=[3, 8, 12])


@pytest.mark.slow
def test_other_solver_agrees_on_objective_and_feasibility_up_to_69_kernels(rng):
    compare_with_milp(rng, 1000, sizes=[3, 8, 12, 25, 69])


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_previous_switches_are_feasible_in_spite_of_rounding(rng, scale):
    contributions = scale * rng.normal(0.3, 1.0, size=(30, 400))
    only_feasible = contributions > 0.0
    # the same sums in another order: some come out larger by a unit in the last place
    requirements = np.array([sum(c[c > 0.0][::-1]) for c in contributions.T])
    assert (requirements > np.where(only_feasible, contributions, 0.0).sum(axis=0)).any()
    refused = np.zeros_like(only_feasible)
    switches = choose_switches(contributions, requirements, np.ones(30, dtype=bool), 30, refused)
    np.testing.assert_array_equal(switches, only_feasible)


def test_of_equally_good_choices_the_one_with_the_fewest_changes_is_taken():
    contributions = np.array([[1.0, 1.0], [1.0, 2.0]])
    initial = np.array([True, False])
    switches = choose_switches(contributions, np.array([0.5, 0.5]), initial, 2, np.ones((2, 2), dtype=bool))
    np.testing.assert_array_equal(switches, [[1, 0], [0, 1]])  # no exchange of equals


@pytest.mark.parametrize("requirement", [25.0, 10.0, 1.0])
def test_of_equal_kernels_those_that_come_first_are_switched(requirement):
    n_kernels, n_samples = 60, 3  # more than any sort takes in the order in which they come by itself
    contributions, budget = np.ones((n_kernels, n_samples)), n_kernels
    previous = np.zeros((n_kernels, n_samples), dtype=bool)
    required = np.full(n_samples, requirement)
    leaving = choose_switches(contributions, required, np.ones(n_kernels, dtype=bool), budget, previous)
    expected = np.arange(n_kernels) >= n_kernels - requirement  # the first ones left
    np.testing.assert_array_equal(leaving, np.repeat(expected[:, None], n_samples, axis=1))
    first = np.arange(n_kernels) == n_kernels - 1
    contributions[-1] = 0.0  # on at first, and of no use
    entering = choose_switches(contributions, required, first, budget, previous)
    np.testing.assert_array_equal(
        entering, np.repeat(np.arange(n_kernels)[:, None] < requirement, n_samples, 1)
    )


@pytest.mark.parametrize("kind", ["normal", "ties"])
@pytest.mark.parametrize("ties", ["smallest", "random"])
def test_ties_need_as_many_kernels_and_keep_the_slack(rng, kind, ties):
    for n_kernels in (3, 6, 9):
        given = random_instances(rng, n_kernels, 40, kind)
        contributions, requirements, initial, max_switches, _ = given
        largest, other = choose_switches(*given), choose_switches(*given, ties, rng)
        np.testing.assert_array_equal(other.sum(axis=0), largest.sum(axis=0))
        sums = [(contributions * h).sum(axis=0) for h in (largest, other)]
        assert (sums[1] <= sums[0] + 1e-12).all()
        met = sums[0] >= requirements - 1e-8
        assert_feasible(other[:, met], contributions[:, met], requirements[met], initial, max_switches)


def test_smallest_is_the_smallest_sum_of_one_switch(rng):
    for kind in ("normal", "ties"):
        contributions, requirements, *_ = random_instances(rng, 7, 60, kind)
        on = np.ones(7, dtype=bool)
        found = choose_switches(
            contributions, requirements, on, 1, np.ones(contributions.shape, bool), "smallest"
        )
        without = contributions.sum(axis=0) - contributions
        possible = np.where(without >= requirements - 1e-9, without, np.inf).min(axis=0)
        off = ~found.all(axis=0)
        np.testing.assert_array_equal(off, np.isfinite(possible))
        np.testing.assert_allclose((contributions * found).sum(axis=0)[off], possible[off], atol=1e-12)


def test_random_ties_follow_the_seed(rng):
    contributions, on = rng.random((8, 50)), np.ones(8, dtype=bool)
    given = (contributions, np.full(50, 1.0), on, 3, np.ones((8, 50), dtype=bool), "random")
    one, same, other = (choose_switches(*given, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
