"""Spike-and-slab priors and their chains: enumeration of all models, the prior without data, gains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from bayesmkl.gp import SpikeSlabWeights, selection
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.effects import Effects
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate
from bayesmkl.gp.hyperpriors import HalfT, LogNormal, ParameterPriors, WithDesign
from bayesmkl.gp.selection import Chosen, SpikeSlabOfKernels, draw_selections
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian, Probit

N = 24


def stack_of(rng, n_kernels):
    X = rng.normal(size=(N, n_kernels, 2))
    X[:, 1] = 0.9 * X[:, 0] + np.sqrt(1 - 0.81) * X[:, 1]  # two that can stand for each other
    return X, DenseStack(np.einsum("imk,jmk->mij", X, X))


def model_of(stack, y, prior, group, labels=False):
    covariance = Additive(stack, kernel_units(stack), 3.0)
    likelihood, evidence = (Probit(), ep_evidence) if labels else (Gaussian(), exact_evidence)
    parameters = ParameterPriors(() if labels else (LogNormal(),))
    weights = SpikeSlabOfKernels(prior, np.asarray(group))
    return Hypermodel(covariance, likelihood, y[None], weights, parameters, evidence)


def enumerated(model, n_points):
    """Probabilities of all sets of kernels, each by a quadrature over its continuous coordinates."""
    prior, found = model.weight_prior, {}
    n_kernels = len(prior.group)
    for mask in itertools.product([False, True], repeat=n_kernels):
        included = np.array(mask)
        given = model._replace(weight_prior=Chosen(prior.prior, np.flatnonzero(included), n_kernels))
        cube = qmc.Sobol(given.n_coordinates, seed=0).random(n_points)
        values, sites = [], None
        for u in ndtri(np.clip(cube, 1e-9, 1 - 1e-9)):
            point, _ = evaluate(given, u, sites)
            sites = point.sites
            values.append(point.log_evidence)
        found[mask] = logsumexp(values) - np.log(n_points) + log_prior(prior, included)
    total = logsumexp(list(found.values()))
    return {mask: np.exp(value - total) for mask, value in found.items()}


def log_prior(prior, included):
    """By the definition: a Beta-binomial of groups, and kernels within them, one at random where none is."""
    counts, sizes = np.bincount(prior.group, weights=included), np.bincount(prior.group)
    a, b = prior.inclusion
    n_in, p = (counts > 0).sum(), prior.prior.within
    found = stats.betabinom(len(sizes), a, b).logpmf(n_in) - np.log(
        stats.binom(len(sizes), 0.5).pmf(n_in) * 2 ** len(sizes)
    )
    for count, size in zip(counts, sizes, strict=True):
        if count:
            each = p**count * (1 - p) ** (size - count)
            found += np.log(each + (count == 1) * (1 - p) ** size / size)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(
    "labels", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["numbers", "labels"]
)
def test_chains_visit_models_as_often_as_their_probability(labels, rng):
    X, stack = stack_of(rng, 3)
    score = 0.7 * X[:, 0, 0] + 0.5 * X[:, 2, 1]
    y = score + 0.5 * rng.normal(size=N)
    y = np.sign(y - np.median(y)) if labels else (y - y.mean()) / y.std()
    group = [0, 1, 1]
    prior = SpikeSlabWeights(concentration=2.0, inclusion=(1.0, 2.0), within=0.4)
    model = model_of(stack, y, prior, group, labels)
    expected = enumerated(model, 2**6 if labels else 2**8)
    n_draws = 400 if labels else 800
    draws = draw_selections(model, n_draws, 4 if labels else 2, 60, rng)
    included = np.array([model.weight_prior.included(u[: model.n_weights]) for u in draws.coordinates])
    for m in range(3):
        exact = sum(p for mask, p in expected.items() if mask[m])
        assert included[:, m].mean() == pytest.approx(exact, abs=0.08 if labels else 0.05), m
    seen = {mask: np.mean((included == mask).all(axis=1)) for mask in expected}
    assert max(abs(seen[mask] - p) for mask, p in expected.items()) < (0.08 if labels else 0.05)
    assert max(expected.values()) < 0.9  # there is something to visit
    assert draws.rhat < 1.1


@pytest.mark.heavy
def test_chains_without_data_draw_from_the_prior(rng, monkeypatch):
    """An evidence that is the same everywhere, and proposals that think otherwise: the prior must be left alone."""
    _, stack = stack_of(rng, 5)
    y, prior = np.zeros(N), SpikeSlabWeights(concentration=1.5, inclusion=(1.0, 1.5), within=0.3)
    model = model_of(stack, y, prior, [0, 0, 0, 1, 2])

    everywhere = exact_evidence(Gaussian(), y, np.eye(N), np.ones(1))._replace(log_evidence=0.0)
    monkeypatch.setattr(selection, "_gains", lambda selector, base, m: 0.3 * m - np.linspace(0.0, 1.0, 8))
    draws = draw_selections(model._replace(evidence=lambda *_, **__: everywhere), 1500, 2, 20, rng)
    n_weights = model.n_weights
    included = np.array([model.weight_prior.included(u[:n_weights]) for u in draws.coordinates])
    by_prior = np.array([model.weight_prior.included(u) for u in rng.standard_normal((5000, n_weights))])
    np.testing.assert_allclose(included.mean(axis=0), by_prior.mean(axis=0), atol=0.06)
    counts, expected = (np.bincount(own.sum(axis=1), minlength=6) / len(own) for own in (included, by_prior))
    np.testing.assert_allclose(counts, expected, atol=0.06)
    for column in range(draws.coordinates.shape[1]):  # all coordinates are standard normal
        own = draws.coordinates[:, column]
        assert abs(own.mean()) < 0.25, column
        assert own.std() == pytest.approx(1.0, abs=0.2), column


@pytest.mark.heavy
def test_prior_probabilities_are_those_of_the_definition(rng):
    prior = SpikeSlabOfKernels(SpikeSlabWeights(inclusion=(2.0, 3.0), within=0.3), np.array([0, 0, 0, 1, 2]))
    u = rng.standard_normal((20000, prior.n_coordinates(5)))
    masks, counts = np.unique([prior.included(one) for one in u], axis=0, return_counts=True)
    expected = np.exp([log_prior(prior, mask) for mask in masks])
    assert expected.sum() == pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose(counts / len(u), expected, atol=0.015)
    for mask in masks:  # odds of every kernel given the others
        for m in range(5):
            on, off = mask.copy(), mask.copy()
            on[m], off[m] = True, False
            assert prior.log_odds(mask, m) == pytest.approx(log_prior(prior, on) - log_prior(prior, off))


def test_weights_have_a_size_in_common(rng):
    prior = SpikeSlabWeights(concentration=3.0, df=5.0, scale=0.7)
    every = Chosen(prior, np.array([0, 2]), 3)
    w = np.array([every.weights(u).values for u in rng.standard_normal((4000, 3))])
    assert (w[:, 1] == 0.0).all()
    ratio = w[:, 0] ** 2 / (w[:, 0] ** 2 + w[:, 2] ** 2)
    assert stats.kstest(ratio, stats.beta(3.0, 3.0).cdf).pvalue > 1e-3
    u, gradient, h = rng.standard_normal(3), rng.normal(size=3), 1e-6
    slope = [
        (every.weights(u + h * e).values - every.weights(u - h * e).values) @ gradient / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(every.weights(u).pull(gradient), slope, rtol=1e-6)
    whole = SpikeSlabOfKernels(prior, np.arange(3))
    at = rng.standard_normal(whole.n_coordinates(3))
    differences = [
        (whole.weights(at + h * e).values - whole.weights(at - h * e).values) @ gradient / (2 * h)
        for e in np.eye(len(at))
    ]
    np.testing.assert_allclose(whole.weights(at).pull(gradient), differences, rtol=1e-5, atol=1e-8)


def test_gains_are_differences_of_evidences(rng):
    """Of normal noise, whose sites do not move; columns hold all of a kernel of rank two but its mean."""
    X, stack = stack_of(rng, 3)
    y = X[:, 0, 0] + rng.normal(size=N)
    centered = DenseStack(np.array([k - k.mean(0) - k.mean(1)[:, None] + k.mean() for k in stack.kernels]))
    model = model_of(centered, (y - y.mean()) / y.std(), SpikeSlabWeights(), [0, 1, 2])
    selector = selection._selector(model)
    base = selection._with(selector, selection._start(selector, 0, rng), 2, 0.4)
    gains = selection._gains(selector, base, 0)
    for gain, coordinate in zip(gains, selection.MIDDLES, strict=True):
        with_it = selection._with(selector, base, 0, coordinate)
        assert gain == pytest.approx(with_it.point.log_evidence - base.point.log_evidence, abs=1e-6)


def smooth_model(rng, n=60, n_outputs=1):
    """Gaussian kernels of single features, one of all features whose rank is full, and a covariate."""
    X = rng.normal(size=(n, 4))
    squares = [np.subtract.outer(x, x) ** 2 for x in X.T]
    stack = DenseStack(np.exp(-0.5 * np.array([*squares, 50.0 * sum(squares)])))
    effects = Effects.of(rng.normal(size=(n, 1)), 2.0, np.array([-1]))
    y = np.sin(2.0 * X[:, :1]) + effects.basis + 0.3 * rng.normal(size=(n, n_outputs))
    weights = SpikeSlabOfKernels(SpikeSlabWeights(), np.arange(5))
    covariance = Additive(stack, kernel_units(stack), 3.0, effects)
    return Hypermodel(covariance, Gaussian(), y.T, weights, ParameterPriors((LogNormal(),)), exact_evidence)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_evidence_and_gains_by_columns_are_those_of_matrices(n_outputs, rng):
    selector = selection._selector(smooth_model(rng, n_outputs=n_outputs))
    assert selector.low.is_exact.tolist() == [True] * 4 + [False]
    dense = selector._replace(low=None)
    rest = np.array([-1.5, 0.7])[:n_outputs]
    for _ in range(20):
        included, of_weights = rng.random(5) < 0.4, rng.standard_normal(6)
        first, second = (selection._at(one, included, of_weights, rest, None) for one in (selector, dense))
        assert first.point.log_evidence == pytest.approx(second.point.log_evidence, rel=1e-7, abs=1e-5)
        assert (first.matrix is None) == (not included[4])
        for m in np.flatnonzero(~included):
            by_columns, by_matrix = (
                selection._gains(one, own, int(m)) for one, own in ((selector, first), (dense, second))
            )
            np.testing.assert_allclose(by_columns, by_matrix, atol=0.35 if first.matrix is None else 1e-6)


@pytest.mark.heavy
def test_sweeps_by_columns_visit_what_those_by_matrices_do(rng, monkeypatch):
    model = smooth_model(rng)
    by_columns = draw_selections(model, 300, 2, 40, rng)
    monkeypatch.setattr(selection, "_low_rank", lambda *_: None)
    by_matrices = draw_selections(model, 400, 2, 40, rng)
    assert by_columns.included.shape[0] == 2
    assert len(by_columns.coordinates) == 300
    found, expected = (own.included.mean(axis=(0, 1)) for own in (by_columns, by_matrices))
    np.testing.assert_allclose(found, expected, atol=0.1)
    assert expected[0] > 0.9 > expected[1]
    levels = [np.mean([point.log_evidence for point in own.points]) for own in (by_columns, by_matrices)]
    assert levels[0] == pytest.approx(levels[1], abs=0.5)


def test_chains_go_on_until_probabilities_are_known(rng, monkeypatch):
    model = smooth_model(rng)
    monkeypatch.setattr(selection, "MCSE", 1.0)
    assert draw_selections(model, 80, 2, 4, rng).included.shape == (2, 40, 5)
    monkeypatch.setattr(selection, "MCSE", -1.0)
    monkeypatch.setattr(selection, "MOST_ROUNDS", 3)
    told = []
    draws = draw_selections(model, 20, 2, 4, rng, lambda done, _: told.append(done))
    assert draws.included.shape == (2, 30, 5)
    assert len(draws.points) == 20
    assert told == list(range(1, selection.most_sweeps(20, 2, 4) + 1))
    inside = np.array([model.weight_prior.included(u[: model.n_weights]) for u in draws.coordinates]).reshape(
        2, 10, 5
    )
    np.testing.assert_array_equal(inside, draws.included[:, 2::3])


@pytest.mark.parametrize("size", [0.3, 2.0])
def test_covariances_of_a_sweep_are_those_of_all_kernels(size, rng):
    X, stack = stack_of(rng, 5)
    model = model_of(stack, X[:, 0, 0] + 0.3 * rng.normal(size=N), SpikeSlabWeights(), range(5))
    selector = selection._selector(model)._replace(low=None)
    state = selection._start(selector, 2, rng)
    state = selection._at(selector, state.included, np.full(6, size), state.rest, state)
    for m in [*range(5), *rng.permutation(5), 2, 4]:
        change = selection._without if state.included[m] else selection._with
        new = change(selector, state, m, *([] if state.included[m] else [rng.normal()]))
        anew = selection._at(selector, new.included, new.of_weights, new.rest, state)
        np.testing.assert_allclose(new.matrix, anew.matrix, rtol=1e-12, atol=1e-12 * new.matrix.max())
        assert new.point.log_evidence == pytest.approx(anew.point.log_evidence, rel=1e-10, abs=1e-10)
        state = new


def test_standard_deviations_of_a_design_move_with_the_rest(rng):
    prior = SpikeSlabOfKernels(SpikeSlabWeights(), np.arange(3))
    _, stack = stack_of(rng, 3)
    model = model_of(stack, rng.normal(size=N), SpikeSlabWeights(), [0, 1, 2])
    with_design = WithDesign(prior, HalfT(4.0, 1.0), 2)
    assert model._replace(weight_prior=with_design).kernel_prior is prior
    given = selection._given(model._replace(weight_prior=with_design), np.array([1]))
    weights, _ = given.values(np.zeros(given.n_coordinates))
    assert given.n_coordinates == 2 + 2 + 1
    np.testing.assert_array_equal(weights > 0.0, [False, True, False, True, True])
