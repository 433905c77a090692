"""Tests of differences: against scipy, baycomp, statsmodels, published examples, brute force, and limits."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayesmkl.evaluation.significance import (
    bayesian_correlated_t,
    corrected_t,
    critical_difference,
    friedman,
    holm,
    nemenyi,
    paired_t,
    pairwise,
    rank_table,
    wilcoxon,
)

RATIO = 1.0 / 9.0  # tenfold cross-validation

# Demšar (2006), table 6: AUC of C4.5 on 14 data sets, untuned and with m, cf or both tuned. On "voting" the last two
# are printed as 0.975 and ranked 2 and 3.
DEMSAR = pd.DataFrame(
    [
        *((0.763, 0.768, 0.771, 0.798), (0.599, 0.591, 0.590, 0.569), (0.954, 0.971, 0.968, 0.967)),
        *((0.628, 0.661, 0.654, 0.657), (0.882, 0.888, 0.886, 0.898), (0.936, 0.931, 0.916, 0.931)),
        *((0.661, 0.668, 0.609, 0.685), (0.583, 0.583, 0.563, 0.625), (0.775, 0.838, 0.866, 0.875)),
        *((1.0, 1.0, 1.0, 1.0), (0.940, 0.962, 0.965, 0.962), (0.619, 0.666, 0.614, 0.669)),
        *((0.972, 0.981, 0.9751, 0.975), (0.957, 0.978, 0.946, 0.970)),
    ],
    columns=["C4.5", "m", "cf", "m+cf"],
)

# AUC of SVCs on two moons in ten times tenfold cross-validation, in 25ths ("a" is 0, "z" is 1): the example
# "Statistical comparison of models using grid search" of scikit-learn's documentation, which prints what follows.
MOONS = {
    "linear": "yvtxzyyzxzxyywuyzzuzvyvzzyvwzzvxvzyzzxwzyxzxztzxzzzuyyzryxzzxxzuvwyxyzywuvzyzxxxyzxzrzzzztyxztxzxxzv",
    "poly": "zstxzwyvyyxwztuyzztzvxuuzyvxxzwxtzyyzvwzwuzyxpxxzzxuzyztuuzzwxyxvtzyvzywuwzyzryvyvxztzyzzsxxzryzyxzo",
    "rbf": "xstxzzzzyzyzzxvxzzuzuxwxzzwxzzuyvzzzzyxzzxzxztzzzzzvzzzsxzzzxxzzuwzxyzyxvxzzzwxxzxyzszzzztywzsxzyzzv",
}


def moons(name):
    return np.array([(ord(letter) - ord("a")) / 25 for letter in MOONS[name]])


@pytest.fixture
def pair(rng):
    first = rng.normal(0.8, 0.05, size=10)
    return first, first + rng.normal(0.02, 0.02, size=10)


@pytest.fixture
def several(rng):
    """Four models, the second one better, the last two alike, on three data sets of ten splits."""
    index = pd.MultiIndex.from_product([["one", "two", "three"], range(10)], names=["dataset", "split"])
    level = rng.normal(0.7, 0.05, size=(30, 1))
    scores = pd.DataFrame(level + rng.normal(0.0, 0.01, size=(30, 4)), index=index, columns=list("ABCD"))
    scores["B"] += 0.1
    scores["D"] = scores["C"]
    return scores


class TestPairedT:
    def test_is_scipys(self, pair):
        ours, theirs = paired_t(*pair), stats.ttest_rel(*pair)
        interval = theirs.confidence_interval(0.95)
        assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-12)
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert (ours.lower, ours.upper) == pytest.approx((interval.low, interval.high), rel=1e-10)
        assert ours.n == 10

    def test_finds_differences_that_the_corrected_test_does_not(self, rng):
        """Nadeau and Bengio's point: training sets overlap, so that scores of splits are correlated."""
        n, n_test, n_runs, rejected = 10, 0.1, 400, {"paired": 0, "corrected": 0}
        for _ in range(n_runs):
            shared = rng.normal(0.0, np.sqrt(n_test))  # differences correlate by the share of the test set
            differences = shared + rng.normal(0.0, np.sqrt(1.0 - n_test), size=n)
            rejected["paired"] += paired_t(differences, np.zeros(n)).p_value < 0.05
            rejected["corrected"] += (
                corrected_t(differences, np.zeros(n), n_test / (1 - n_test)).p_value < 0.05
            )
        assert rejected["paired"] / n_runs > 0.1  # twice its level
        assert rejected["corrected"] / n_runs == pytest.approx(0.05, abs=0.03)


class TestCorrectedT:
    def test_is_its_formula(self, pair):
        differences = pair[0] - pair[1]
        t = differences.mean() / np.sqrt((1 / 10 + 3 / 7) * differences.var(ddof=1))
        ours = corrected_t(*pair, test_train_ratio=3 / 7)
        assert ours.statistic == pytest.approx(t, rel=1e-12)
        assert ours.p_value == pytest.approx(2 * stats.t.sf(abs(t), 9), rel=1e-10)

    def test_has_the_published_values_of_the_moons(self):
        ours = corrected_t(moons("rbf"), moons("linear"), RATIO)
        assert round(ours.statistic, 3) == 0.750
        assert round(ours.p_value / 2, 3) == 0.227  # theirs is one-sided
        assert (ours.lower, ours.upper) == pytest.approx((-0.016445, 0.036445), abs=5e-7)
        half = corrected_t(moons("rbf"), moons("linear"), RATIO, confidence=0.5)
        assert (half.lower, half.upper) == pytest.approx((0.000977, 0.019023), abs=5e-7)
        most = corrected_t(moons("rbf"), moons("linear"), RATIO, confidence=0.75)
        assert (most.lower, most.upper) == pytest.approx((-0.005422, 0.025422), abs=5e-7)


class TestWilcoxon:
    def test_is_scipys(self, rng):
        for n in (8, 40, 80):
            first, second = rng.normal(size=(2, n))
            assert wilcoxon(first, second).p_value == pytest.approx(
                stats.wilcoxon(first - second).pvalue, abs=1e-12
            )

    def test_is_exact_with_ties_and_zeros(self, rng):
        first, second = rng.integers(0, 5, size=(2, 9)) / 10.0
        differences = np.round(10 * (first - second))
        assert {0.0} < set(differences)
        assert len(set(np.abs(differences))) < 9
        method = stats.PermutationMethod(n_resamples=2**9)
        theirs = stats.wilcoxon(differences, zero_method="zsplit", method=method)
        ours = wilcoxon(first, second)
        assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-12)
        assert ours.statistic == theirs.statistic

    def test_thirteen_tied_pairs_are_still_exact(self, rng):
        differences = rng.choice([-1.0, 1.0, 2.0, 3.0], p=[0.2, 0.3, 0.3, 0.2], size=13)
        ranks = np.rint(2.0 * stats.rankdata(np.abs(differences))).astype(int)  # whole numbers, doubled
        ways = np.eye(1, ranks.sum() + 1)[0]  # of each sum of positive ranks, sign by sign
        for rank in ranks:
            ways = ways + np.r_[np.zeros(rank), ways[:-rank]]
        positive = ranks[differences > 0.0].sum()
        exact = 2.0 * min(ways[: positive + 1].sum(), ways[positive:].sum()) / 2.0**13
        ours = wilcoxon(differences, np.zeros(13))
        assert ours.p_value == pytest.approx(min(exact, 1.0), rel=1e-12)
        assert ours.statistic == 0.5 * min(positive, ranks.sum() - positive)

    def test_has_the_published_rank_sum(self):
        """Demšar's table 2; ranks that rounding errors would tear apart are ties there."""
        ours = wilcoxon(DEMSAR["C4.5"], DEMSAR["m"])
        assert ours.statistic == 12.0
        assert ours.p_value < 0.05  # the critical value is 21

    def test_has_darwins_p_value(self):
        """Of 15 pairs of plants, by the method of table 1 of Wilcoxon (1945), as in scipy's documentation."""
        heights = np.array([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75])
        ours = wilcoxon(heights, np.zeros(15))
        assert (ours.statistic, ours.p_value) == (24.0, pytest.approx(0.041259765625, abs=1e-12))


class TestBayesianCorrelatedT:
    def test_is_baycomps(self, pair):
        baycomp = pytest.importorskip("baycomp")
        for rope in (0.0, 0.01, 0.03):
            theirs = baycomp.two_on_single(pair[1], pair[0], rope=rope)  # its right is the second argument
            ours = bayesian_correlated_t(*pair, test_train_ratio=RATIO, rope=rope)
            got = (ours.p_second, ours.p_equivalent, ours.p_first)
            assert got == pytest.approx(theirs if rope else (theirs[0], 0.0, theirs[1]), abs=1e-10)

    def test_is_baycomps_over_repetitions(self):
        baycomp = pytest.importorskip("baycomp")
        theirs = baycomp.two_on_single(moons("linear"), moons("rbf"), rope=0.01, runs=10)
        ours = bayesian_correlated_t(moons("rbf"), moons("linear"), RATIO, rope=0.01)
        assert (ours.p_second, ours.p_equivalent, ours.p_first) == pytest.approx(theirs, abs=1e-10)

    def test_has_the_published_values_of_the_moons(self):
        pytest.importorskip("baycomp")
        ours = bayesian_correlated_t(moons("rbf"), moons("linear"), RATIO, rope=0.01)
        assert round(100 * ours.p_second, 1) == 6.8
        assert round(100 * ours.p_equivalent) == 43
        assert (ours.lower, ours.upper) == pytest.approx((-0.016445, 0.036445), abs=5e-7)
        other = bayesian_correlated_t(moons("rbf"), moons("poly"), RATIO, rope=0.01)
        assert (round(100 * other.p_second, 1), round(100 * other.p_equivalent)) == (1.8, 10)

    def test_is_the_posterior_by_simulation(self, pair, rng):
        """Draw the mean from the model itself: correlated normal differences under the prior 1 / sigma²."""
        pytest.importorskip("baycomp")
        differences, n = pair[0] - pair[1], 10
        precision = rng.gamma((n - 1) / 2, 2 / ((n - 1) * differences.var(ddof=1)), size=400_000)
        means = rng.normal(differences.mean(), np.sqrt((1 / n + RATIO) / precision))
        ours = bayesian_correlated_t(*pair, test_train_ratio=RATIO, rope=0.02)
        assert ours.p_first == pytest.approx((means > 0.02).mean(), abs=4e-3)
        assert ours.p_equivalent == pytest.approx((np.abs(means) < 0.02).mean(), abs=4e-3)

    def test_says_how_to_get_baycomp(self, pair, monkeypatch):
        monkeypatch.setitem(sys.modules, "baycomp", None)
        monkeypatch.setitem(sys.modules, "baycomp.single", None)
        with pytest.raises(ImportError, match=r"needs baycomp.*pip install \"bayesmkl\[compare\]\""):
            bayesian_correlated_t(*pair, test_train_ratio=RATIO)


class TestFriedmanAndNemenyi:
    def test_is_scipys(self, rng):
        scores = pd.DataFrame(rng.integers(0, 6, size=(8, 5)) / 10.0, columns=list("ABCDE"))  # with ties
        theirs = stats.friedmanchisquare(*scores.to_numpy().T)
        ours = friedman(scores)
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-12)

    def test_has_the_published_values_of_demsar(self):
        ours = friedman(DEMSAR)
        mean_ranks = ours.mean_ranks[list(DEMSAR)]
        assert list(mean_ranks.round(3)) == [3.143, 2.0, 2.893, 1.964]
        k, n = 4, 14
        printed = 12 * n / (k * (k + 1)) * ((mean_ranks**2).sum() - k * (k + 1) ** 2 / 4)
        assert round(printed, 2) == 9.28  # he does not correct for ties: of 2, 2, 2 and 4 models
        ties = 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (n * k * (k**2 - 1))
        assert ours.statistic * ties == pytest.approx(printed, rel=1e-12)
        f = (n - 1) * printed / (n * (k - 1) - printed)
        assert round(f, 2) == 3.69
        assert ours.f_statistic == pytest.approx(
            (n - 1) * ours.statistic / (n * (k - 1) - ours.statistic), rel=1e-12
        )
        assert ours.f_p_value == pytest.approx(stats.f.sf(ours.f_statistic, 3, 39), rel=1e-12)
        assert round(critical_difference(4, 14), 2) == 1.25
        assert round(critical_difference(4, 14, alpha=0.1), 2) == 1.12

    def test_has_published_values_of_iman_and_davenport(self):
        """Ranks of nine methods on two data sets, with the values that R's scmamp prints for them."""
        ranks = pd.DataFrame([[1, 8, 6, 4, 7, 2, 5, 3, 9], [1, 6, 3, 9, 7, 2, 8, 4, 5]], dtype=float)
        ours = friedman(ranks, greater_is_better=False)
        assert (round(ours.statistic, 3), round(ours.p_value, 4)) == (11.733, 0.1635)
        assert (round(ours.f_statistic, 2), round(ours.f_p_value, 5)) == (2.75, 0.08697)

    def test_nemenyi_has_the_published_decisions_of_demsar(self):
        """At 0.10 m+cf beats C4.5 (by 1.18 > 1.12), and so does m (by 1.14); at 0.05 nothing does."""
        pytest.importorskip("scikit_posthocs")
        p = nemenyi(DEMSAR)
        assert p.to_numpy()[np.triu_indices(4, 1)].min() > 0.05
        assert set(p.index[p["C4.5"] < 0.1]) == {"m", "m+cf"}
        table = pairwise(DEMSAR, "nemenyi", alpha=0.1).set_index(["first", "second"])
        assert table.loc[("C4.5", "m+cf"), "difference"] == pytest.approx(3.143 - 1.964, abs=1e-3)
        assert list(table.index[table["better"] != ""]) == [("C4.5", "m"), ("C4.5", "m+cf")]
        half_width = (table["upper"] - table["lower"]) / 2
        assert half_width.to_numpy() == pytest.approx(critical_difference(4, 14, 0.1), rel=1e-12)

    def test_nemenyi_agrees_with_its_critical_values(self):
        """q(0.05) of Demšar's table 5 (a)."""
        printed = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
        ours = [critical_difference(k, 10) / np.sqrt(k * (k + 1) / 60) for k in range(2, 11)]
        assert ours == pytest.approx(printed, abs=1.1e-3)

    def test_says_how_to_get_scikit_posthocs(self, several, monkeypatch):
        monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
        with pytest.raises(ImportError, match=r"Nemenyi's test needs scikit-posthocs"):
            nemenyi(several)

    def test_one_data_set_is_refused(self, several):
        with pytest.raises(ValueError, match=r"at least 2 data sets; got 1.*corrected_t"):
            friedman(several.loc[["one"]])

    def test_two_models_are_refused(self, several):
        several.loc[("two", 3), "A"] = np.nan
        with pytest.raises(
            ValueError, match=r"at least 3 models; got 2.*left out: A \(no result in 1 of 3\)"
        ):
            friedman(several[["A", "B", "C"]])

    def test_identical_models_do_not_differ(self):
        ours = friedman(pd.DataFrame(np.ones((5, 3))))
        assert (ours.statistic, ours.p_value, ours.f_statistic, ours.f_p_value) == (0.0, 1.0, 0.0, 1.0)

    def test_agreement_of_all_data_sets_is_the_limit(self):
        ours = friedman(pd.DataFrame(np.tile([3.0, 2.0, 1.0], (6, 1))))
        assert (ours.f_statistic, ours.f_p_value) == (np.inf, 0.0)

    def test_lower_can_be_better(self, several):
        up, down = rank_table(several), rank_table(-several, greater_is_better=False)
        pd.testing.assert_frame_equal(up, down)
        assert up.index[0] == "B"
        assert list(up["n"]) == [3] * 4


class TestDegenerate:
    def test_identical_scores(self):
        same = [0.8, 0.9, 0.7]
        for result in (paired_t(same, same), corrected_t(same, same, RATIO), wilcoxon(same, same)):
            assert (result.difference, result.p_value) == (0.0, 1.0)
        assert wilcoxon(same, same).statistic == 3.0  # half of the ranks 1, 2 and 3
        pytest.importorskip("baycomp")
        result = bayesian_correlated_t(same, same, RATIO)
        assert (result.p_first, result.p_equivalent, result.p_second) == (0.0, 1.0, 0.0)

    def test_the_same_difference_everywhere(self):
        first = [0.8, 0.9, 0.7]
        second = [0.7, 0.8, 0.6]  # the differences differ in the last bit
        for result in (paired_t(first, second), corrected_t(first, second, RATIO)):
            assert (result.p_value, result.statistic) == (0.0, np.inf)
            assert result.lower == result.upper == pytest.approx(0.1)
        pytest.importorskip("baycomp")
        result = bayesian_correlated_t(first, second, RATIO)
        assert (result.p_first, result.p_equivalent, result.p_second) == (1.0, 0.0, 0.0)
        table = pairwise(pd.DataFrame({"A": first, "B": second}), "paired_t")
        assert table.loc[0, "better"] == "A"
        assert table.loc[0, "note"] == "the same difference in every split"

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    @pytest.mark.parametrize("size", [1e-9, 2e-12])
    def test_small_differences_above_rounding_count(self, unit, size):
        steps = np.arange(1, 9)
        second = np.full(8, unit)
        first = second + unit * size * steps  # all apart, all of one sign
        n = wilcoxon(first, second)
        assert (n.p_value, n.statistic) == (2.0**-7, 0.0)
        exact, ours = stats.ttest_1samp(steps, 0.0), paired_t(first, second)
        assert ours.difference == pytest.approx(4.5 * unit * size, rel=1e-3)  # rounded at 1e-16 of the scores
        assert (ours.statistic, ours.p_value) == pytest.approx((exact.statistic, exact.pvalue), rel=1e-3)
        pattern = np.array([1, 1, -1, 1, 1, 1, 2, 2])  # ties stay ties
        tied = stats.wilcoxon(pattern, method="exact", zero_method="zsplit")
        assert wilcoxon(second + unit * size * pattern, second).statistic == tied.statistic == 3.5

    @pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
    @pytest.mark.parametrize("size", [4e-14, 1e-15])
    def test_differences_of_the_size_of_rounding_do_not_count(self, unit, size):
        first, second = unit * (1.0 + size * np.arange(1, 9)), np.full(8, unit)
        assert (first > second).all()
        for result in (paired_t(first, second), corrected_t(first, second, RATIO), wilcoxon(first, second)):
            assert (result.difference, result.p_value) == (0.0, 1.0)


class TestPairwise:
    def test_tests_each_data_set(self, several):
        table = pairwise(
            several, "corrected_t", test_train_ratio={"one": 1 / 9, "two": 1 / 4, "three": 1 / 2}
        )
        assert len(table) == 3 * 6
        for name, ratio in (("one", 1 / 9), ("three", 1 / 2)):
            rows = table[table["dataset"] == name]
            expected = corrected_t(several.loc[name, "A"], several.loc[name, "B"], ratio)
            assert rows.iloc[0][["difference", "p_value"]].tolist() == [expected.difference, expected.p_value]
            assert rows["p_adjusted"].tolist() == holm(rows["p_value"]).tolist()
        assert set(table["better"]) == {"", "B"}
        alike = table[(table["first"] == "C") & (table["second"] == "D")]
        assert alike["p_value"].tolist() == [1.0] * 3

    @pytest.mark.parametrize("test", ["paired_t", "wilcoxon", "bayesian", "nemenyi"])
    def test_errors_are_the_better_the_lower(self, several, test):
        options = {"test_train_ratio": RATIO}
        for module in {"bayesian": ["baycomp"], "nemenyi": ["scikit_posthocs"]}.get(test, []):
            pytest.importorskip(module)
        up = pairwise(several, test, **options)
        down = pairwise(1.0 - several, test, greater_is_better=False, **options)
        assert up["better"].tolist() == down["better"].tolist()
        for column in up.columns[up.columns.str.startswith("p_")]:
            assert up[column].tolist() == pytest.approx(down[column].tolist(), abs=1e-9)

    def test_wilcoxon_is_over_data_sets_if_there_are_several(self, several):
        table = pairwise(several, "wilcoxon")
        assert set(table["dataset"]) == {"(all)"}
        assert (table["n"] == 3).all()
        assert table["note"].str.contains("3 pairs are too few for p < 0.25").all()
        only = pairwise(several.loc[["one"]], "wilcoxon", correction=None)
        assert only.loc[0, "p_value"] == wilcoxon(several.loc["one", "A"], several.loc["one", "B"]).p_value

    def test_failed_models_have_a_note_and_no_number(self, several):
        several.loc[("two", 3), "A"] = np.nan
        several.loc["three"] = np.nan
        table = pairwise(several, "paired_t").set_index(["dataset", "first", "second"]).sort_index()
        row = table.loc[("two", "A", "B")]
        assert row["note"] == "A: no result in 1 of 10"
        assert np.isnan(row["p_adjusted"])
        assert (row["better"], row["n"]) == ("", 0)
        rest = table.loc["two"].iloc[3:]  # corrected for three pairs, not six
        assert rest["p_adjusted"].tolist() == holm(rest["p_value"]).tolist()
        assert table.loc[("one", "A", "B"), "better"] == "B"
        assert set(table.loc["three", "note"]) == {"results in only 0 rows"}

    def test_equal_means_have_no_winner_though_signs_differ_significantly(self):
        scores = pd.DataFrame({"A": np.r_[np.full(19, 0.75), 0.25], "B": np.r_[np.full(19, 0.5), 5.0]})
        table = pairwise(scores, "wilcoxon")
        assert table.loc[0, "p_adjusted"] < 0.001
        assert (table.loc[0, "difference"], table.loc[0, "better"]) == (0.0, "")

    def test_bad_input(self, several):
        with pytest.raises(
            ValueError, match=r"`test_train_ratio` is needed by test=\"corrected_t\" for data set 'one'"
        ):
            pairwise(several)
        with pytest.raises(ValueError, match=r"`against` must be a model of the comparison"):
            pairwise(several, "paired_t", against="E")
        with pytest.raises(ValueError, match=r"`test` must be one of .*'wilcoxon'.*got 'ttest'"):
            pairwise(several, "ttest")
        with pytest.raises(ValueError, match=r"`correction` must be 'holm' or None"):
            pairwise(several, "paired_t", correction="bonferroni")
        with pytest.raises(ValueError, match=r"two or more different models"):
            pairwise(several[["A"]], "paired_t")


class TestHolm:
    def test_is_statsmodels(self, rng):
        multitest = pytest.importorskip("statsmodels.stats.multitest")
        for n in (1, 2, 17):
            p = rng.uniform(size=n) ** 3
            assert holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1], abs=1e-12)

    def test_missing_tests_do_not_count(self):
        assert holm([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)


def test_the_better_one_is_found_as_by_hand(several):
    for row in pairwise(several, "paired_t", correction=None).itertuples():
        ours, theirs = several.loc[row.dataset, row.first], several.loc[row.dataset, row.second]
        significant = not ours.equals(theirs) and stats.ttest_rel(ours, theirs).pvalue < 0.05
        assert row.better == (
            "" if not significant else row.first if ours.mean() > theirs.mean() else row.second
        )
