"""Two models over data sets and splits: closed form, integrals by brute force, simulation, tables and plots of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayesmkl.evaluation.plots import plot_pairwise
from bayesmkl.evaluation.significance import bayesian_mixed_effects, pairwise

RATIO = 0.25


def splits_of(means, spreads, n, rng, ratio=RATIO):
    """Return differences of splits that overlap: the noise of a data set has the correlation r / (1 + r)."""
    rho = ratio / (1.0 + ratio)
    shared, own = rng.normal(size=(len(means), 1)), rng.normal(size=(len(means), n))
    noise = np.sqrt(rho) * shared + np.sqrt(1.0 - rho) * own
    return np.asarray(means)[:, None] + np.asarray(spreads)[:, None] * noise


def compared(differences, **options):
    """Compare scores of such differences, (n_datasets, n_splits)."""
    names = np.repeat(np.arange(len(differences)), differences.shape[1])
    second = np.linspace(0.6, 0.8, differences.size)
    return bayesian_mixed_effects(second + differences.ravel(), second, names, RATIO, **options)


def test_without_noise_the_mean_has_a_student_posterior(rng):
    r"""Flat priors of mu and tau and normal effects: mu is Student with q - 2 degrees of freedom."""
    means = rng.normal(0.02, 0.01, size=8)
    found = compared(np.repeat(means[:, None], 3, axis=1) + 1e-9 * rng.normal(size=(8, 3)), confidence=0.9)
    squares = ((means - means.mean()) ** 2).sum()
    expected = stats.t(6, means.mean(), np.sqrt(squares / (8 * 6)))
    assert found.n == 8
    np.testing.assert_allclose(
        (found.difference, found.lower, found.upper), expected.ppf([0.5, 0.05, 0.95]), atol=5e-5
    )
    # tau^2 given the data: S / tau^2 is chi-squared with q - 2 degrees of freedom
    assert found.between == pytest.approx(np.sqrt(squares / stats.chi2(6).median()), rel=5e-3)


@pytest.mark.heavy
def test_posterior_is_that_of_integrals_by_brute_force(rng):
    """Effects of data sets explicit: Student times normal density, summed over a fine grid of every effect."""
    differences = splits_of(
        [0.01, 0.03, -0.01, 0.05, 0.02, 0.06], [0.03, 0.02, 0.04, 0.03, 0.02, 0.03], 4, rng
    )
    found = compared(differences, rope=0.01)
    scale = np.sqrt((0.25 + RATIO) * differences.var(axis=1, ddof=1))
    effect = np.linspace(-1.2, 1.2, 2401)
    mu, tau = np.linspace(-0.3, 0.35, 131), 0.5 * np.linspace(0.02, 1.0, 50) ** 2
    log_p = np.zeros((len(tau), len(mu)))
    for mean, own in zip(differences.mean(axis=1), scale, strict=True):
        said = stats.t(3, mean, own).pdf(effect)
        for i, t in enumerate(tau):
            near = stats.norm.pdf(effect, mu[:, None], max(t, 1e-3))
            log_p[i] += np.log(near @ said * 1e-3)
    p = np.exp(log_p - log_p.max()) * np.gradient(tau)[:, None]
    p /= p.sum()
    below = p.sum(axis=0).cumsum() - 0.5 * p.sum(axis=0)
    expected = np.interp([0.5, 0.025, 0.975], below, mu)
    np.testing.assert_allclose((found.difference, found.lower, found.upper), expected, atol=1.5e-3)
    another = stats.norm.sf(0.01, mu, tau[:, None]), stats.norm.cdf(-0.01, mu, tau[:, None])
    np.testing.assert_allclose((found.p_first, found.p_second), [(p * q).sum() for q in another], atol=5e-3)
    assert found.p_first + found.p_equivalent + found.p_second == pytest.approx(1.0)


@pytest.mark.heavy
def test_intervals_hold_the_mean_as_often_as_they_say():
    """Where a t-test over all splits, which overlap and come from few data sets, is far too sure."""
    rng = np.random.default_rng(3)
    inside, naive = 0, 0
    for _ in range(150):
        effects = 0.02 + 0.02 * rng.standard_normal(6)
        differences = splits_of(effects, rng.uniform(0.01, 0.05, size=6), 10, rng)
        found = compared(differences, confidence=0.8)
        inside += found.lower < 0.02 < found.upper
        low, high = stats.t.interval(0.8, 59, differences.mean(), stats.sem(differences.ravel()))
        naive += low < 0.02 < high
    assert abs(inside / 150 - 0.8) < 0.1  # three standard errors
    assert naive / 150 < 0.6


def test_units_and_the_order_of_models_and_data_sets_do_not_matter(rng):
    differences = splits_of([0.01, 0.02, 0.04, 0.03, 0.0], [0.02] * 5, 5, rng)
    found = compared(differences, rope=0.01)
    other = compared(-differences, rope=0.01)
    np.testing.assert_allclose(other[1:4], [-found.difference, -found.upper, -found.lower], rtol=1e-6)
    np.testing.assert_allclose(other[5:], found[:4:-1], rtol=1e-6)
    np.testing.assert_allclose(compared(differences[::-1], rope=0.01), found, rtol=1e-6)
    names = np.repeat([*"abcde"], 5)
    percent = bayesian_mixed_effects(100 * differences.ravel(), np.zeros(25), names, RATIO, rope=1.0)
    np.testing.assert_allclose(percent[1:5], 100 * np.array(found[1:5]), rtol=1e-6)
    np.testing.assert_allclose(percent[5:], found[5:], rtol=1e-6)


def test_a_data_set_of_noisy_splits_says_less_than_one_of_sure_ones(rng):
    """Its mean moves the result less: the weight of a data set is 1 / (tau^2 + v)."""
    sure = splits_of([0.02, 0.021, 0.019, 0.02], [0.002] * 4, 6, rng)
    noise = rng.permutation(np.linspace(-0.3, 0.3, 6))
    noisy = np.vstack([sure, 0.2 + noise])
    plain = np.vstack([sure, 0.2 + 0.001 * noise])
    assert compared(noisy).difference < 0.03 < compared(plain).difference


def scores_of(differences):
    index = pd.MultiIndex.from_product([[*"wxyz"], range(differences.shape[1])], names=["dataset", "split"])
    second = np.linspace(0.6, 0.8, differences.size)
    return pd.DataFrame({"A": second + differences.ravel(), "B": second, "C": second}, index=index)


def test_the_table_of_pairs_is_made_of_it(rng):
    scores = scores_of(splits_of([0.03, 0.04, 0.035, 0.03], [0.005] * 4, 5, rng))
    ratios = {"w": 0.25, "x": 0.25, "y": 0.5, "z": 1.0}
    options = {"rope": 0.002, "alpha": 0.2}
    table = pairwise(scores, "mixed_effects", test_train_ratio=ratios, **options)
    names = scores.index.get_level_values(0)
    direct = bayesian_mixed_effects(scores["A"], scores["B"], names, ratios, rope=0.002, confidence=0.8)
    first = table.iloc[0]
    assert (first["dataset"], first["first"], first["second"], first["better"]) == ("(all)", "A", "B", "A")
    np.testing.assert_allclose(first[list(direct._fields)].astype(float), direct, rtol=1e-12)
    assert table.iloc[2]["p_equivalent"] == 1.0  # B and C are the same
    assert table.iloc[2]["note"] == "equivalent"
    assert table.attrs["over"] == "datasets"
    worse = pairwise(scores, "mixed_effects", test_train_ratio=ratios, greater_is_better=False, **options)
    assert worse.iloc[0]["better"] == "B"
    assert worse.iloc[0]["p_second"] == first["p_first"]
    scores.iloc[3, 2] = np.nan
    partly = pairwise(scores, "mixed_effects", test_train_ratio=ratios)
    assert list(partly["note"].str.contains("C: no result in 1 of 20 splits")) == [False, True, True]
    assert partly["n"].tolist() == [4, 0, 0]


def test_what_cannot_be_compared_is_said(rng):
    scores = scores_of(splits_of([0.03, 0.04, 0.035, 0.03], [0.005] * 4, 5, rng))
    with pytest.raises(ValueError, match=r"`over`: test=\"mixed_effects\" needs independent data sets"):
        pairwise(scores, "mixed_effects", test_train_ratio=RATIO, over="splits")
    with pytest.raises(
        ValueError, match=r"`test_train_ratio` is needed by test=\"mixed_effects\" for data set 'w'"
    ):
        pairwise(scores, "mixed_effects")
    with pytest.raises(ValueError, match="at least 3 of them; got 2"):
        pairwise(scores.loc[["w", "x"]], "mixed_effects", test_train_ratio=RATIO)
    first, second, names = scores["A"], scores["B"], scores.index.get_level_values(0)
    with pytest.raises(ValueError, match="'w' has one split"):
        bayesian_mixed_effects(first[4:], second[4:], names[4:], RATIO)
    with pytest.raises(ValueError, match="`datasets` must name the data set of each of the 20 scores"):
        bayesian_mixed_effects(first, second, names[4:], RATIO)
    with pytest.raises(ValueError, match="`test_train_ratio` is missing for data set 'x'"):
        bayesian_mixed_effects(first, second, names, {"w": 0.25})


def test_the_plot_of_pairs_shows_its_probabilities(rng):
    from sklearn.dummy import DummyClassifier
    from sklearn.naive_bayes import GaussianNB

    from bayesmkl.evaluation import compare_models

    models = {"normal": GaussianNB(), "most frequent": DummyClassifier()}
    found = compare_models(models, datasets=["iris", "wine", "wdbc"], cv=3, scoring="accuracy")
    table = found.significance("accuracy", "mixed_effects")
    ax = plot_pairwise(found, test="mixed_effects")
    shown = {text.get_text() for text in ax.texts}
    assert f"{100 * table['p_first'][0]:.0f}" in shown
    assert 0.5 < table["p_first"][0] < 1.0
