"""Tables of the OBMKL, PrimalMKL and LapMKL papers: published numbers, protocols, and what is printed."""

import contextlib
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.datasets import load_digits

from bayesmkl.discriminative import LapMKLClassifier, PrimalMKLClassifier, glks_transduce, knn_laplacian
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.study import DataRef
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.cache import KernelCache, sharing_kernels
from bayesmkl.reproduction import lapmkl, obmkl, obmkl_rows, primalmkl
from bayesmkl.reproduction.folds import FewLabeled, SpreadFolds
from bayesmkl.reproduction.lapmkl import AFFINE, TANGENT, tangent_distances
from bayesmkl.reproduction.standins import synthetic_features
from bayesmkl.reproduction.tables import Setting
from bayesmkl.reproduction.transductive import GLKSTransducer, TransductiveSearch

FAST = Setting(fast=True)


# ------------------------------------------------------------------------------------------------ published numbers


def test_published_records_of_obmkl_agree_with_each_other():
    for model, opponents in obmkl_rows.TABLE_3.items():
        assert list(opponents) == [name for name in obmkl_rows.METHODS if name != model]
        assert all(sum(record) == 19 for record in opponents.values())
        total, percent = np.sum(list(opponents.values()), axis=0), obmkl_rows.TABLE_4[model][1]
        np.testing.assert_array_equal(total, obmkl_rows.TABLE_4[model][0])
        assert percent == pytest.approx(100.0 * total[0] / 152, abs=0.01)
        for other in set(opponents) & set(obmkl_rows.TABLE_3):
            assert opponents[other] == obmkl_rows.TABLE_3[other][model][::-1]
    for record, percent, *_ in obmkl_rows.TABLE_4.values():
        assert sum(record) == 152
        assert percent == pytest.approx(100.0 * record[0] / 152, abs=0.01)


def test_published_accuracies_count_wins_as_the_primalmkl_paper_does():
    raw = {name: np.array(row)[:, 0] for name, row in primalmkl.PUBLISHED_1.items()}
    assert len(raw) == 10
    assert sum(row[1] > row[2] for row in raw.values()) == 8  # without unit trace, SimpleMKL
    assert sum(row[3] > row[4] for row in raw.values()) == 7  # and PrimalMKL


def test_published_accuracies_count_wins_as_the_lapmkl_paper_does():
    means = {name: np.array(row)[:, 0] for name, row in lapmkl.PUBLISHED_4.items()}
    best = [row.argmax() for row in means.values()]
    assert (len(best), best.count(3), best.count(1)) == (16, 8, 6)
    pairs = [cell for row in lapmkl.PUBLISHED_3.values() for cell in row]
    assert (len(pairs), sum(cell[2] > cell[0] for cell in pairs)) == (15, 9)


def test_entries_hold_every_published_number_once():
    entries = primalmkl.TABLES["primalmkl-table2"].entries
    published = {(e.dataset, e.model, e.metric): e.published.value for e in entries if not e.variant}
    assert len(published) == 6 * 4 * 2
    assert published["sonar", "SMO-MKL", "n_active_kernels"] == 2.3
    assert published["wdbc", "PrimalMKL", "accuracy"] == 97.01
    first = primalmkl.TABLES["primalmkl-table1"].entries
    assert len({(e.dataset, e.model) for e in first}) == len(first) == 12 * 5 + 9 * 5
    steps = np.multiply.outer([0.001, 0.01, 0.1, 1.0], [1.0, 2.0, 5.0]).ravel()
    np.testing.assert_allclose(primalmkl.ALL_REGS, [*steps, 10.0])
    assert {e.published for e in first if "indicators" in e.dataset} == {
        e.published for e in first if e.dataset == "splice"
    }
    assert sum(not e.variant for e in lapmkl.TABLES["lapmkl-table3"].entries) == 30
    assert sum(not e.variant for e in lapmkl.TABLES["lapmkl-table4"].entries) == 64


# -------------------------------------------------------------------------------------------------------- protocols


def test_obmkl_has_nineteen_problems_and_twenty_one_widths():
    assert len(obmkl.UCI) == 19
    assert len({s.name for s in obmkl.UCI}) == 19
    assert len(obmkl.WIDTHS) == 21
    assert len(obmkl.DIGITS) == 10
    assert sum(obmkl.VIEWS.values()) == 649
    assert [len(columns) for columns in obmkl.view_columns().values()] == list(obmkl.VIEWS.values())
    study = obmkl.uci_studies(Setting(fast=True, splits=10))[0]
    assert study.cv.get_n_splits() == 10
    assert len(study.models) == 18
    assert all("C" in spec.param_grid for name, spec in study.models.items() if "C = 1" not in name)


def test_kernels_of_the_papers_by_their_formulas():
    X = np.random.default_rng(0).normal(size=(7, 3))
    squares = cdist(X, X, "sqeuclidean")
    stack = KernelBank(obmkl.gaussians(), normalize=None).fit_transform(X)
    np.testing.assert_allclose(stack[..., 2], np.exp(-squares / 20.0**2), rtol=1e-12)
    stack = KernelBank(primalmkl.gaussians(half=True), normalize=None).fit_transform(X)
    widths = sorted({round(b**k, 10) for b in (1.1, 1.5, 2.0) for k in range(-5, 6)})
    assert stack.shape[-1] == len(widths) == 31
    np.testing.assert_allclose(stack[..., 0], np.exp(-squares / (2 * widths[0] ** 2)), rtol=1e-9, atol=1e-300)


def test_one_class_against_the_rest_keeps_its_samples():
    data = obmkl.one_against_rest("iris", 1)
    assert data.y.sum() == 50
    assert set(data.y[50:100]) == {1}
    np.testing.assert_allclose([data.X.min(axis=0), data.X.max(axis=0)], [[-1.0] * 4, [1.0] * 4])


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_unit_trace_is_the_mean_one_with_a_larger_price():
    X, y, *_ = synthetic_features(40, 3)
    spec = primalmkl.raw_and_unit_trace(40, (0.1,), (0.01,))["PrimalMKL(T)"]
    [reg] = spec.param_grid["model__reg"]
    ours = spec.estimator.set_params(model__reg=reg, model__tol=1e-4).fit(X, y)
    bank = clone(ours["model"].kernel_bank_).set_params(normalize=None)
    raw = bank.fit_transform(ours["scale"].transform(X))
    unit = raw / np.trace(raw)
    theirs = PrimalMKLClassifier("precomputed", reg=0.01, tol=1e-4).fit(unit, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(unit), atol=1e-3)
    objectives = ours["model"].objective_history_[-1], theirs.objective_history_[-1]
    assert objectives[0] == pytest.approx(objectives[1], rel=2e-4)


def test_spread_folds_test_every_row_once_and_skip_what_cannot_be_learned():
    y = np.array([0] * 21 + [1] * 2 + [2] * 9)
    folds = list(SpreadFolds(5, random_state=3).split(y, y))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(32))
    for label, n in ((0, 21), (1, 2), (2, 9)):
        counts = [np.sum(y[test] == label) for _, test in folds]
        assert sum(counts) == n
        assert max(counts) - min(counts) <= 1
    part = list(SpreadFolds(5, 2, random_state=3).split(y, y))
    assert len(part) == SpreadFolds(5, 2).get_n_splits() == 2
    np.testing.assert_array_equal(part[1][0], folds[1][0])
    single = np.array([0] * 9 + [1])
    assert SpreadFolds(5).get_n_splits(single, single) == 4
    assert all(9 in train for train, _ in SpreadFolds(5).split(single, single))


def test_few_labeled_draws_anew_every_time():
    y = np.repeat([0, 1], [30, 20])
    draws = list(FewLabeled(3, 6, 15).split(y, y))
    for train, test in draws:
        assert np.bincount(y[train]).tolist() == [6, 6]
        assert np.bincount(y[test]).tolist() == [9, 9]
        assert len(set(train) | set(test)) == 30
    assert set(draws[0][0]) != set(draws[1][0])


def test_a_damaged_set_counts_as_missing(monkeypatch):
    def warn(name, **options):
        warnings.warn("lost the decimal points", UserWarning, stacklevel=1)

    monkeypatch.setattr(primalmkl, "fetched", warn)
    table = primalmkl.TABLES["primalmkl-table2"]
    australian = table._replace(sets=tuple(s for s in table.sets if s.name == "australian"))
    [message] = australian.missing(Setting())
    assert "'australian' cannot be read: lost the decimal points" in message


# ---------------------------------------------------------------------------------------------- transductive models


def two_groups():
    rng = np.random.default_rng(0)
    y = np.repeat([-1, 1], 20)
    X = rng.normal(size=(40, 2)) + 2.0 * y[:, None]
    partly = np.zeros(40, dtype=int)
    partly[[0, 1, 2, 3, 20, 21, 22, 23]] = y[[0, 1, 2, 3, 20, 21, 22, 23]]
    return X, y, partly


class Remembers(LapMKLClassifier):
    """Keeps the labels that fits have seen, and finds withheld ones only if `n_neighbors` is 7."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(np.array(y))
        self.classes_ = np.array([-1, 1])
        self.transduction_ = np.where(y == 0, 1 if self.n_neighbors != 7 else np.repeat([-1, 1], 20), y)
        return self


def test_the_search_withholds_labels_and_takes_what_finds_them():
    X, y, partly = two_groups()
    Remembers.seen = []
    search = TransductiveSearch(
        Remembers(unlabeled_label=0), [{"n_neighbors": k} for k in (5, 7, 9)], n_folds=4
    )
    search.fit(X, partly)
    assert search.best_params_ == {"n_neighbors": 7}
    assert search.scores_.tolist() == [0.5, 1.0, 0.5]
    *inside, last = Remembers.seen
    assert len(inside) == 12
    for seen in inside:
        assert np.sum(seen != 0) == 6
        assert np.all(seen[seen != 0] == partly[seen != 0])
    np.testing.assert_array_equal(last, partly)
    np.testing.assert_array_equal(search.transduction_, y)


def test_the_search_predicts_as_its_winner():
    X, _, partly = two_groups()
    bank = KernelBank(Gaussian(width=1.0), normalize=None)
    search = TransductiveSearch(lapmkl.lapmkl(bank), [{"gamma_intrinsic": 0.1}], n_folds=2).fit(X, partly)
    alone = lapmkl.lapmkl(bank, gamma_intrinsic=0.1).fit(X, partly)
    np.testing.assert_array_equal(search.predict(X), alone.predict(X))
    assert search.best_estimator_.gamma_intrinsic == 0.1


@pytest.mark.parametrize("solver", ["deformed", "paper"])
def test_a_search_of_penalties_finds_the_labels_that_fits_without_them_find(solver):
    X, y, partly = two_groups()
    rng = np.random.default_rng(1)
    X = X + 1.5 * rng.normal(size=X.shape)  # no longer apart: some labels are not found
    labeled = np.sort(rng.choice(len(y), 16, replace=False))
    partly = np.zeros_like(y)
    partly[labeled] = y[labeled]
    banks = [KernelBank([Gaussian(width=w), Gaussian(width=4 * w)], normalize=None) for w in (0.2, 1.0)]
    candidates = [
        {"gamma_ambient": ambient, "gamma_intrinsic": ratio * ambient, "kernels": bank}
        for ratio in (1.0, 0.1)
        for ambient in (0.01, 1.0)
        for bank in banks
    ]
    model = lapmkl.lapmkl(banks[0], n_neighbors=4, solver=solver)
    search = TransductiveSearch(model, candidates, n_folds=4)
    for cache in (None, KernelCache()):
        with contextlib.nullcontext() if cache is None else sharing_kernels(cache):
            search.fit(X, partly)
        folds = list(SpreadFolds(4).split(labeled, y[labeled]))
        plain = [search._label_withheld(X, partly, params, labeled, folds) for params in candidates]
        np.testing.assert_array_equal(search._label_by_penalties(X, partly, folds), plain)
        np.testing.assert_allclose(search.scores_, (np.array(plain) == y[labeled]).mean(axis=1))
        assert 0.0 < search.scores_.min() < 1.0


def test_constants_of_glks_come_to_shared_inverses():
    X, _, partly = two_groups()
    graphs = [knn_laplacian(cdist(X, X), k, "precomputed") for k in (1, 3)]
    with sharing_kernels(KernelCache()):
        for constant in (0.0, 2.0):
            model = GLKSTransducer(gamma=0.01, n_neighbors=(1, 3), constant=constant).fit(X, partly)
            expected = glks_transduce(graphs, partly, unlabeled_label=0, gamma=0.01, constant=constant)
            np.testing.assert_array_equal(model.transduction_, expected.transduction)
            np.testing.assert_allclose(model.kernel_weights_, expected.kernel_weights)


def test_glks_as_an_estimator_labels_what_the_function_does():
    X, _, partly = two_groups()
    model = GLKSTransducer(gamma=0.01, n_neighbors=(3, 5)).fit(X, partly)
    graphs = [knn_laplacian(cdist(X, X), k, "precomputed") for k in (3, 5)]
    expected = glks_transduce(graphs, partly, unlabeled_label=0, gamma=0.01)
    np.testing.assert_array_equal(model.transduction_, expected.transduction)
    np.testing.assert_array_equal(model.predict(X[::-1] + 1e-9), expected.transduction[::-1])
    with sharing_kernels(KernelCache()) as cache:
        for gamma in (1.0, 0.01):  # the same graphs
            model.set_params(gamma=gamma).fit(X, partly)
    assert cache.tally.n_reused == 1
    np.testing.assert_array_equal(model.transduction_, expected.transduction)


def test_tangent_distances_ignore_small_moves():
    image = load_digits().images[3]
    moved = image + 0.2 * (np.roll(image, 1, axis=1) - np.roll(image, -1, axis=1)) / 2
    images = np.stack([image, moved, load_digits().images[11]])
    plain = cdist(images.reshape(3, -1), images.reshape(3, -1))
    affine, tangent = (tangent_distances(images, which) for which in (AFFINE, TANGENT))
    assert np.all(tangent <= affine + 1e-9)
    assert np.all(affine <= plain + 1e-9)
    assert affine[0, 1] < 0.75 * plain[0, 1]
    assert affine[0, 2] > 0.5 * plain[0, 2]
    np.testing.assert_allclose(lapmkl.transformation(images.reshape(3, -1)), affine)


# --------------------------------------------------------------------------------------------------- what is printed


def made_up(errors, n_train=90):
    """Build a comparison with the given errors, {data set: {model: errors of the splits}}."""
    rows = [
        {
            "dataset": dataset,
            "model": model,
            "split": split,
            "n_samples": 100,
            "n_train": n_train,
            "n_test": 10,
        }
        | {
            "accuracy": 1.0 - error,
            "support_fraction": 0.1 * (split + 1),
            "n_active_kernels": np.nan if model == "SVM(best)" else 2.0,
            "error": "",
        }
        for dataset, models in errors.items()
        for model, values in models.items()
        for split, error in enumerate(values)
    ]
    return Comparison(pd.DataFrame(rows), {"random_state": 0, "metrics": {"accuracy": True}})


def some_errors(n_sets=4, n_splits=5):
    rng = np.random.default_rng(1)
    shifts = dict(zip(obmkl_rows.METHODS, np.linspace(0.05, 0.4, 9), strict=True))
    return {
        f"set {k}": {name: shift + 0.1 * rng.random(n_splits) for name, shift in shifts.items()}
        for k in range(n_sets)
    }


def test_records_are_those_of_paired_t_tests():
    errors = some_errors()
    printed, sizes = obmkl_rows.record_tables(made_up(errors), FAST)
    assert len(sizes.frame) == 18
    rows = printed.frame.set_index(["model", "against"])
    assert len(rows) == 24
    expected = [0, 0, 0]
    for models in errors.values():
        first, second = models["OBMKL(qp)"], models["GMKL"]
        significant = ttest_rel(first, second).pvalue < 0.05
        expected[1 if not significant else 0 if first.mean() < second.mean() else 2] += 1
    assert rows.loc[("OBMKL(qp)", "GMKL"), "ours"] == ", ".join(map(str, expected))
    assert rows.loc[("OBMKL(qp)", "GMKL"), "published"] == "8, 7, 4"
    assert rows.loc[("OBMKL(qp)", "GMKL"), "difference in wins"] == expected[0] - 8


def test_totals_sum_records_and_rank_methods():
    errors = some_errors()
    totals, sizes, ranking = obmkl_rows.total_tables(made_up(errors), FAST)
    found = totals.frame.set_index("model")
    counts = np.array([[int(n) for n in text.split(",")] for text in found["ours"]])
    assert (counts.sum(axis=1) == 8 * 4).all()
    assert counts[:, 0].sum() == counts[:, 2].sum()  # a win of one is a loss of another
    np.testing.assert_allclose(found["ours wins (%)"], 100 * counts[:, 0] / 32)
    support = sizes.frame[(sizes.frame["model"] == "GMKL") & (sizes.frame["metric"] == "support vectors")]
    assert support["ours"].item() == pytest.approx(0.3 * 90)
    assert support["difference_in_sd"].item() == pytest.approx((27.0 - 166.7) / 125.2)
    active = sizes.frame[sizes.frame["metric"] == "active kernels"].set_index("model")["ours"]
    assert active["SVM(best)"] == 1.0  # a plain SVM has one kernel
    assert set(active.drop("SVM(best)")) == {2.0}
    assert ranking.frame["ours"].between(-1.0, 1.0).all()


def test_digits_are_pooled_over_problems_and_folds():
    errors = some_errors()
    [printed] = obmkl_rows.digits_tables(made_up(errors, n_train=1800), FAST)
    rows = printed.frame.set_index(["model", "metric"])
    values = np.concatenate([models["GLMKL"] for models in errors.values()])
    row = rows.loc[("GLMKL", "cross-validation error")]
    assert row["ours"] == pytest.approx(values.mean())
    assert row["ours_sd"] == pytest.approx(values.std(ddof=1))
    assert row["difference_in_sd"] == pytest.approx((values.mean() - 0.0582) / 0.0285)
    assert rows.loc[("SVM(best)", "support vectors"), "ours"] == pytest.approx(0.3 * 1800)
    assert (printed.frame["data"] == "4 sets").all()


def test_alignments_stand_beside_errors_of_the_same_kernel():
    refs = {"one": DataRef(obmkl.one_against_rest, name="iris", position=0)}
    bank = KernelBank([Gaussian(width=0.1), Gaussian(width=1.0)], normalize=None)
    comparison = made_up({"one": {"narrow": [0.3, 0.1], "wide": [0.0, 0.1]}})
    parts = {"iris": (lambda: refs, bank, ["narrow", "wide"])}
    kernels, agreement = obmkl_rows.alignment_tables(comparison, parts)
    without = {"iris": (lambda: pytest.fail("read again"), bank, ["narrow", "wide"])}
    assert obmkl_rows.alignment_tables(comparison, without)[0].frame.equals(kernels.frame)
    data = refs["one"]()
    target = 2.0 * data.y - 1.0
    kernel = np.exp(-0.5 * cdist(data.X, data.X, "sqeuclidean"))
    expected = 1.0 - target @ kernel @ target / (np.linalg.norm(kernel) * len(target))
    rows = kernels.frame.set_index("kernel")
    assert rows.loc["wide", "1 - alignment"] == pytest.approx(expected)
    np.testing.assert_allclose(rows["error"], [0.2, 0.05])
    found = agreement.frame.iloc[0]
    assert found["rank correlation over kernels"] == pytest.approx(1.0)
    assert found["of the optimal kernel"] < found["smallest 1 - alignment"]
