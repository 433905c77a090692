"""Chains: what is drawn are the model's draws, and the titles say what ArviZ's statistics say."""

from __future__ import annotations

import re

import numpy as np
import pytest
from arviz_base import from_dict
from arviz_stats.base import array_stats
from figure_checks import assert_readable, untouched_globals, without_warning  # noqa: F401
from scipy.stats import rankdata

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import Gibbs
from bayesmkl.posterior import chain_plots, to_datatree
from bayesmkl.posterior.chain_plots import plot_rank, plot_trace


@pytest.fixture(scope="module")
def chains(features, bank):
    sampler = {"inference": Gibbs(n_chains=3, n_draws=40, n_warmup=10)}
    y = np.where(features["größe"] > 0, "big", "small")
    return without_warning(BEMKLClassifier(bank, **sampler, intermediate_scale=1.0), features, y)


@pytest.fixture(scope="module")
def chains_tree(chains):
    return to_datatree(chains)


def tree_of(shares, diverging=None, names=None, classes=None):
    names = [f"kernel {m}" for m in range(shares.shape[-1])] if names is None else names
    several = [] if classes is None else ["class"]
    groups = {"posterior": {"kernel_shares": shares}}
    if diverging is not None:
        groups["sample_stats"] = {"diverging": diverging}
    dims = {"kernel_shares": [*several, "kernel"], "diverging": several}
    return from_dict(
        groups, dims=dims, coords={"kernel": names, "class": classes} if classes else {"kernel": names}
    )


def axes_of(collection, variable="kernel_shares"):
    return collection.viz["plot"][variable].values


def titles(axes):
    return [ax.get_title(loc="left") for ax in axes]


def finding(collection):
    return collection.viz["figure"].item().get_suptitle()


@pytest.mark.parametrize("kind", ["shares", "weights"])
def test_traces_are_the_draws_of_the_most_important_kernels(kind, chains, chains_tree):
    collection = plot_trace(chains, kind=kind, max_kernels=4)
    posterior = chains_tree["posterior"]
    order = np.argsort(-chains.kernel_shares_, kind="stable")[:4]
    axes = axes_of(collection, f"kernel_{kind}")
    assert titles(axes[:, 0]) == chains.kernel_names_[order].tolist()
    for row, kernel in enumerate(order):
        lines = axes[row, 1].lines
        assert len(lines) == 3
        for line, draws in zip(lines, posterior[f"kernel_{kind}"].values[:, :, kernel], strict=True):
            np.testing.assert_array_equal(line.get_xdata(), np.arange(40))
            np.testing.assert_array_equal(line.get_ydata(), draws)
        assert len(axes[row, 0].lines) == 3
    unit = {"shares": "share of the score", "weights": "kernel weight"}[kind]
    assert axes[-1, 0].get_xlabel() == f"{unit}, a line per chain"


def test_title_says_what_the_statistics_say(chains, chains_tree):
    draws = chains_tree["posterior/kernel_shares"].values
    rhat = array_stats.rhat(draws, chain_axis=0, draw_axis=1).max()
    ess = array_stats.ess(draws, chain_axis=0, draw_axis=1).min()
    verdict = "agree" if rhat <= 1.01 else "do not agree"
    expected = f"The chains {verdict} (R-hat {rhat:.3f}), {ess:.0f} of 120 draws are effective"
    for collection in (plot_trace(chains, max_kernels=1), plot_rank(chains_tree, max_kernels=2)):
        assert finding(collection) == expected  # of all kernels, also those that are not shown


def test_independent_chains_agree_and_divided_ones_do_not(rng):
    shares = rng.dirichlet([8.0, 4.0, 2.0], size=(4, 200))
    assert finding(plot_trace(tree_of(shares))).startswith("The chains agree (R-hat 1.00")
    shares[3] = shares[3][:, ::-1]
    assert finding(plot_trace(tree_of(shares))).startswith("The chains do not agree (R-hat ")


def test_divergent_draws_are_marked_and_counted(rng):
    shares, diverging = rng.dirichlet([8.0, 4.0], size=(2, 60)), np.zeros((2, 60), dtype=bool)
    diverging[0, [3, 50]] = diverging[1, 7] = True
    collection = plot_trace(tree_of(shares, diverging))
    assert finding(collection).endswith("draws are effective, 3 diverged")
    offsets = np.concatenate([marks.get_offsets() for marks in axes_of(collection)[0, 1].collections])
    assert sorted(offsets[:, 0]) == [3, 7, 50]


def test_saved_figure_is_readable(rng, tmp_path):
    names = ["gaussian(width=0.125) · a very long name of a view", *(f"kernel {m}" for m in range(4))]
    tree = tree_of(rng.dirichlet(np.ones(5), size=(2, 30)), names=names)
    for plot in (plot_trace, plot_rank):
        collection = plot(tree)
        assert_readable(*axes_of(collection).ravel())
        collection.savefig(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_ranks_are_those_of_the_draws(rng):
    first = rng.uniform(size=(3, 60))
    first[:, 1::2] = 1.0 - first[:, ::2]  # antithetic: more than as many effective draws, none is left out
    first[0] *= 0.5  # this chain holds the lowest ranks
    collection = plot_rank(tree_of(np.stack([first, 0.1 * first], axis=-1)))
    assert titles(axes_of(collection)) == ["kernel 0", "kernel 1"]
    lines = axes_of(collection)[0].lines
    relative = rankdata(first).reshape(3, 60) / 180
    for line, own in zip(lines, relative, strict=True):
        at, difference = line.get_data()
        expected = (own <= at[:, None]).mean(axis=1) - at
        np.testing.assert_allclose(difference, expected, atol=2 / 60)
    assert np.max(lines[0].get_ydata()) > 0.3
    assert len({line.get_linestyle() for line in lines}) == 3
    assert len({line.get_color() for line in lines}) == 3


def test_shaded_ranks_are_those_of_independent_draws(rng):
    slow = np.repeat(rng.dirichlet([8.0, 4.0], size=(2, 20)), 10, axis=1)
    chains = chain_plots._chains(tree_of(slow), "shares", 2, None, None)
    assert 5 <= chains.step <= 20
    np.testing.assert_array_equal(
        chains.thinned()["posterior/kernel_shares"][0, :, 0], slow[0, :: chains.step, 0]
    )


def test_more_chains_than_colors(rng):
    tree = tree_of(rng.dirichlet([8.0, 4.0], size=(8, 20)))
    assert len(axes_of(plot_trace(tree))[0, 1].lines) == 8
    assert len(axes_of(plot_rank(tree))[0].lines) == 8


def test_kernels_that_never_move_are_left_out(rng):
    shares = np.concatenate([rng.dirichlet([8.0, 4.0], size=(2, 30)), np.zeros((2, 30, 1))], axis=2)
    assert titles(axes_of(plot_trace(tree_of(shares)))[:, 0]) == ["kernel 0", "kernel 1"]
    with pytest.raises(
        ValueError, match=r'the share of the only kernel is one in every draw. Use kind="weights"'
    ):
        plot_trace(tree_of(np.ones((2, 30, 1))))


def test_the_class_that_agrees_least_is_shown(rng):
    shares = rng.dirichlet([8.0, 4.0], size=(3, 400, 2))
    shares[0, :, 1] = shares[0, :, 1, ::-1]
    diverging = np.zeros((3, 400, 2), dtype=bool)
    diverging[0, :5, 1] = True
    tree = tree_of(shares, diverging, classes=["a", "b"])
    collection = plot_trace(tree)
    assert re.match(r"Class b: the chains do not agree .* 5 diverged", finding(collection))
    np.testing.assert_array_equal(axes_of(collection)[0, 1].lines[2].get_ydata(), shares[2, :, 1, 0])
    assert re.match(r"Class a: the chains agree .* 0 diverged", finding(plot_trace(tree, label="a")))
    with pytest.raises(ValueError, match="`label` must be one of 'a', 'b'; got 'c'"):
        plot_trace(tree, label="c")


def test_given_collection_is_drawn_into(rng):
    tree = tree_of(rng.dirichlet([8.0, 4.0], size=(2, 30)))
    first = plot_trace(tree)
    assert plot_trace(tree, plot_collection=first) is first
    assert len(axes_of(first)[0, 1].lines) == 4


def test_models_without_chains_are_refused(binary_model, features, bank):
    for model in (binary_model, to_datatree(binary_model, 10, 0)):
        with pytest.raises(
            ValueError, match=r'fitted by inference="vb", whose draws are independent.*`plot_elbo`'
        ):
            plot_trace(model)
    alone = BEMKLClassifier(bank, inference=Gibbs(n_chains=1, n_draws=20, n_warmup=2), intermediate_scale=1.0)
    sampled = without_warning(alone, features, features["größe"] > 0)
    with pytest.raises(ValueError, match="`model` has one chain only"):
        plot_rank(sampled)
    assert len(axes_of(plot_trace(sampled))[0, 1].lines) == 1


def test_errors_name_the_argument(chains, chains_tree):
    with pytest.raises(ValueError, match="`kind` must be one of 'shares', 'weights'; got 'scores'"):
        plot_trace(chains_tree, kind="scores")
    with pytest.raises(ValueError, match="`max_kernels` must be a whole number >= 1"):
        plot_rank(chains_tree, max_kernels=0)
    with pytest.raises(ValueError, match="`ci_prob` must be between 0 and 1"):
        plot_rank(chains_tree, ci_prob=94)
    with pytest.raises(
        ValueError, match="`label` chooses between classes that have kernel weights of their own"
    ):
        plot_trace(chains_tree, label="big")
    with pytest.raises(ValueError, match="DataTree without posterior/kernel_shares"):
        plot_trace(to_datatree(chains, pointwise=False))
