"""Tables of the localized methods and of SAMKL: published numbers, protocols, and data that users bring."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative import LMKLClassifier
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.journal import COLUMNS
from bayesmkl.reproduction import localized, samkl, samkl_data
from bayesmkl.reproduction.tables import MissingData, Setting, Sizes

# Test samples of five folds, of which the published accuracies of all ten pairs are whole shares.
TEST_SAMPLES = {1: 6, 7: 44, 9: 13, 12: 19, 16: 48}


@pytest.fixture
def studies_of(monkeypatch):
    """Studies of a full run, without a look at the data."""
    monkeypatch.setattr("bayesmkl.reproduction.tables.PaperSet._check", lambda self, reference: None)

    def studies_of(table, **setting):
        return table.studies(Setting(**setting))

    return studies_of


def comparison_of(rows, **about):
    cells = pd.DataFrame(rows).assign(n_samples=40, n_train=20, n_test=20)
    missing = {name: np.nan for name in COLUMNS if name not in cells}
    cells = cells.assign(**missing)
    metrics = {name: True for name in ("accuracy",)}
    return Comparison(cells.assign(error="", note=""), {"metrics": metrics, "random_state": 0, **about})


# ------------------------------------------------------------------------------------------------ published numbers


def test_tables_have_the_published_shape():
    sets = [s.name for s in localized.SETS]
    for published, n_methods in (
        (localized.WITH_LIBSVM, 4),
        (localized.WITH_MWU, 4),
        (localized.SUPPORT, 7),
    ):
        assert list(published) == sets
        assert {len(row) for row in published.values()} == {n_methods}
    assert [len(table.entries) for table in localized.TABLES.values()] == [7 * 6 - 1, 7 * 8 - 4, 7 * 7 - 2]
    assert [len(table.entries) for table in samkl.TABLES.values()] == [0, 3 * 7, 0]
    assert len(samkl.TASKS) == 10 * 4


def test_fold_accuracies_are_shares_of_one_number_of_samples():
    for (first, second), accuracies in samkl.FOLDS.items():
        n_test = TEST_SAMPLES[first] + TEST_SAMPLES[second]
        for accuracy in accuracies:
            right = round(accuracy / 100 * n_test)
            assert 100 * right / n_test == pytest.approx(accuracy, abs=0.06)  # 86.96 is printed as 86.9


def test_improvements_are_those_that_the_paper_reports():
    gains = [row[0][0] - row[1][0] for _, row in samkl.SUBCELLULAR.values()]
    assert gains == pytest.approx([3.0, 2.5, 1.5], abs=0.11)  # "by 3.0%, 2.5% and 1.5%"
    assert samkl.CALTECH[0][0] - max(row[0] for row in samkl.CALTECH[1:]) == pytest.approx(1.9)


def test_adult_has_no_number_of_lmkl_with_libsvm():
    has_lmkl = {
        name: any(e.dataset == "adult" and e.model.startswith("LMKL") for e in table.entries)
        for name, table in localized.TABLES.items()
    }
    assert has_lmkl == {"localized-table2": False, "localized-table3": True, "localized-table4": False}


# ------------------------------------------------------------------------------------------- protocols: localized


@pytest.mark.parametrize("name", ["liver", "mushrooms", "gisette"])
def test_scaled_features_have_the_kernels_of_the_protocol(name):
    gamma, rng = 0.25, np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12, 3))
    if name == "mushrooms":
        X = (X > 0).astype(float)
    X[0], X[1] = 1.0, 0.0 if name == "mushrooms" else -1.0  # every range is full
    _, given = localized.models(name, {"m": localized.AS_PUBLISHED["Uniform"]}, Setting())
    spec = given["m, γ = 0.25"]
    scaled = spec.estimator.named_steps["scale"].fit_transform(X)
    stack = clone(localized.BANK).fit_transform(scaled)
    gamma /= 5000 if name == "gisette" else 1
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(stack[:, :, 0], (gamma * X @ X.T) ** 2, atol=1e-12)
    np.testing.assert_allclose(stack[:, :, 1], np.exp(-gamma * distances), atol=1e-12)


def test_full_run_has_the_splits_and_widths_of_the_protocol(studies_of):
    studies, variants = {}, {}
    for study in studies_of(localized.TABLES["localized-table2"]):
        if "SwMKL" in study.models or "SwMKL, γ = 0.0625" in study.models:
            (studies if "SwMKL" in study.models else variants)[next(iter(study.datasets))] = study
    names = ["breast", "diabetes", "german", "liver", "mushrooms", "adult"]  # gisette is the user's
    assert list(studies) == names
    assert [s.cv.n_splits for s in studies.values()] == [100, 100, 100, 100, 5, 1]
    assert {name: s.cv.n_splits for name, s in variants.items()} == dict.fromkeys(names[:4], 10) | {
        "mushrooms": 1
    }
    assert {s.cv.test_size for s in (*studies.values(), *variants.values())} == {0.25}
    grids = {name: s.models["SwMKL"].param_grid for name, s in studies.items()}
    assert grids.pop("adult") is None
    widths = {name: len(grid["scale__feature_range"]) for name, grid in grids.items()}
    assert widths == dict.fromkeys(widths, 6) | {"german": 4}
    root = studies["adult"].models["SwMKL"].estimator.named_steps["scale"].feature_range
    assert root == (0.0, 0.25)  # of γ = 2^-4
    assert "LMKL" in studies["breast"].models
    assert "LMKL" not in studies["adult"].models
    for study in studies.values():
        prices = {spec.estimator.named_steps["model"].C for spec in study.models.values()}
        assert prices == {1.0}


def test_support_points_are_those_of_the_fits_whose_accuracy_is_measured(studies_of):
    accuracy, support = (
        [
            (repr({name: spec.estimator for name, spec in s.models.items()}), list(s.models), s.cv.n_splits)
            for s in studies_of(localized.TABLES[f"localized-table{k}"], sets=("liver",))
        ]
        for k in (2, 4)
    )
    assert accuracy == support
    assert localized.TABLES["localized-table4"].cells_of == "localized-table2"
    models = {name for _, of_study, _ in accuracy for name in of_study}
    assert {e.model for k in (2, 4) for e in localized.TABLES[f"localized-table{k}"].entries} <= models


def test_svms_are_those_of_the_table(studies_of):
    def machines(table):
        specs = {}
        for study in studies_of(localized.TABLES[table], sets=("liver",)):
            specs |= study.models
        models = {name: spec.estimator.named_steps["model"] for name, spec in specs.items()}
        return {
            name: (m.svm, m.mwu_epsilon)
            for name, m in models.items()
            if hasattr(m, "svm") and "γ" not in name
        }

    assert {svm for svm, _ in machines("localized-table2").values()} == {"libsvm"}
    found = machines("localized-table3")
    assert set(found.values()) == {("mwu", 0.01), ("mwu", 0.05)}
    assert found["C-LMKL"] == ("mwu", 0.01)
    assert found["C-LMKL, larger ε"] == ("mwu", 0.05)


def test_width_best_on_test_has_the_best_mean_and_is_the_widest_of_equals():
    accuracies = {0.25: (0.6, 0.8), 0.5: (0.9, 0.5), 1.0: (0.7, 0.6)}  # means 0.7, 0.7, 0.65
    rows = [
        {"dataset": "liver", "model": f"SwMKL, γ = {gamma:g}", "split": k, "accuracy": value}
        for gamma, values in accuracies.items()
        for k, value in enumerate(values)
    ]
    contents = localized.Contents(localized.WITH_LIBSVM, localized.LOCALIZED, {}, "accuracy")
    (entry,) = localized.best_on_test(contents, comparison_of(rows))
    assert entry.model == "SwMKL, γ = 0.25"
    assert entry.published == (69.3, 5.0)
    assert "leaks" in entry.variant


# ------------------------------------------------------------------------------------------------ protocols: SAMKL


def test_missing_sets_are_named_with_their_layout(tmp_path):
    for name in ("samkl-table1", "samkl-table2"):
        table = samkl.TABLES[name]
        assert table.studies(Setting(data=tmp_path)) == []
        messages = table.missing(Setting(data=tmp_path))
        assert len(messages) == len(table.sets)
        assert all(paper_set.source.name in m for paper_set, m in zip(table.sets, messages, strict=True))


def test_budgets_and_prices_are_the_paper_s(studies_of, tmp_path):
    for paper_set in (*samkl.LOCATIONS, *samkl.IMAGES, samkl.PROTEIN):
        (tmp_path / paper_set.source.name).mkdir(parents=True)
    first, _ = studies_of(samkl.TABLES["samkl-table1"], data=tmp_path)
    *halves, images = studies_of(samkl.TABLES["samkl-table2"], data=tmp_path)
    budgets = [s.models["SAMKL"].estimator.max_switches for s in (first, *halves, images)]
    assert budgets == [3, 20, 20, 20, 10]
    prices = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]
    for study in (first, *halves):
        assert study.models["SimpleMKL"].param_grid["C"] == pytest.approx(prices)
        assert study.inner_cv == 5
    assert {s.cv.n_splits for s in halves} == {20}
    assert {s.cv.test_size for s in halves} == {0.5}
    assert images.models["UMKL"].param_grid is None
    assert images.models["UMKL"].estimator.C == 1e4
    assert len(images.datasets) == 5


def write_kernels(folder, n_samples=12, n_kernels=3, n_classes=2):
    rng = np.random.default_rng(0)
    views = rng.normal(size=(n_kernels, n_samples, 4))
    folder.mkdir()
    np.save(folder / "kernels.npy", views @ views.transpose(0, 2, 1))
    labels = np.arange(n_samples) % n_classes + 10
    (folder / "labels.csv").write_text("label\n" + "\n".join(map(str, labels)) + "\n")
    return views


def write_split(folder, parts):
    (folder / "splits.csv").write_text("one\n" + "\n".join(parts) + "\n")


def test_kernels_have_unit_trace(tmp_path):
    write_kernels(tmp_path / "plant")
    data = samkl_data.of_unit_trace(str(tmp_path / "plant"))
    np.testing.assert_allclose(np.einsum("iik->k", data.X), 1.0)


def test_images_must_have_fifteen_samples_of_each_class_in_either_part(tmp_path):
    folder = tmp_path / "split_1"
    write_kernels(folder, n_samples=60)
    write_split(folder, ["train"] * 30 + ["test"] * 30)
    assert len(samkl_data.halves_of_classes(str(folder)).splits) == 1
    write_split(folder, ["train"] * 31 + ["test"] * 29)
    with pytest.raises(ValueError, match="15 training samples of each class; it has from 15 to 16"):
        samkl_data.halves_of_classes(str(folder))


def test_pair_of_folds_keeps_its_part_of_the_split(tmp_path):
    folder = tmp_path / "protein"
    write_kernels(folder, n_samples=18, n_classes=3)
    write_split(folder, ["train"] * 9 + ["test"] * 9)
    features = np.random.default_rng(1).normal(size=(18, 5))
    with pytest.raises(FileNotFoundError, match=r"features\.npy"):
        samkl_data.protein_and_features(str(folder))
    np.save(folder / "features.npy", features)
    whole = samkl_data.protein_and_features(str(folder))
    data = samkl_data.protein_pair(1, 3, features=True, folder=str(folder))
    rows = np.flatnonzero(whole.y != 11)  # labels 10, 11, 12: the first and the third fold
    kernels = whole.X[np.ix_(rows, rows)]
    np.testing.assert_array_equal(data.y, whole.y[rows])
    np.testing.assert_allclose(data.X[:, :, :3], kernels / np.einsum("iik->k", kernels))
    np.testing.assert_array_equal(data.X[:, 4, 3:], features[rows])
    ((train, test),) = data.splits
    np.testing.assert_array_equal(rows[train], rows[rows < 9])
    np.testing.assert_array_equal(rows[test], rows[rows >= 9])


def test_ten_tasks_are_made_of_the_user_s_folds(tmp_path, monkeypatch):
    folder = tmp_path / "protein"
    write_kernels(folder, n_samples=64, n_classes=16)
    write_split(folder, ["train"] * 32 + ["test"] * 32)
    np.save(folder / "features.npy", np.zeros((64, 5)))
    sizes = Sizes(64, n_kernels=3, n_classes=16, n_splits=1, n_train=32)
    monkeypatch.setattr(samkl, "PROTEIN", samkl.PROTEIN._replace(sizes=sizes))
    kernels, with_features = samkl.TABLES["samkl-table1"].studies(Setting(data=tmp_path))
    tasks = {entry.dataset for entry in samkl.TASKS}
    assert set(kernels.datasets) == set(with_features.datasets) == tasks
    data = kernels.datasets["c9 vs. c12"]()
    assert set(data.y) == {18, 21}  # labels are 10, 11, ...: the ninth and the twelfth
    assert [len(part) for part in data.splits[0]] == [4, 4]
    assert data.X.shape == (8, 8, 3)
    assert with_features.datasets["c9 vs. c12"]().X.shape == (8, 8, 3 + 5)
    assert set(with_features.models) == {"LMKL"}


def test_features_of_protein_tables_are_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    tables = {"composition": 3, "volume": 2}
    for part, n_samples in (("train", 6), ("test", 4)):
        for name, width in tables.items():
            table = pd.DataFrame(rng.normal(size=(n_samples, width)))
            table.to_csv(tmp_path / f"{name}_{part}.csv", header=False, index=False)
        (tmp_path / f"label_{part}.csv").write_text("".join(f"{k % 2}\n" for k in range(n_samples)))
    data = samkl_data.protein_and_features(str(tmp_path))
    features = samkl_data.protein_features(str(tmp_path))
    assert data.X.shape == (10, 10, 2)
    assert features.shape == (10, 5)
    volume_train = pd.read_csv(tmp_path / "volume_train.csv", header=None).to_numpy()
    np.testing.assert_allclose(features[:6, 3:], volume_train)


def test_gate_features_travel_with_the_kernels():
    sample = make_corrupted(40, random_state=0)
    together = samkl_data.WithGateFeatures(LMKLClassifier("precomputed"), 8)
    X = samkl_data.with_features(sample.kernels, sample.data)
    train, test = np.arange(30), np.arange(30, 40)
    together.fit(X[np.ix_(train, train)], sample.target[train])
    apart = LMKLClassifier("precomputed").fit(
        sample.kernels[np.ix_(train, train)], sample.target[train], gate_features=sample.data[train]
    )
    expected = apart.decision_function(sample.kernels[np.ix_(test, train)], gate_features=sample.data[test])
    np.testing.assert_allclose(together.decision_function(X[np.ix_(test, train)]), expected)
    assert together.support_fraction_ == apart.support_fraction_
    assert len(cross_val_predict(together, X, sample.target, cv=2)) == 40  # slices rows and columns


def test_images_are_printed_as_the_mean_over_their_splits():
    models = [name for name, *_ in samkl._beside(samkl.CALTECH)]
    rows = [
        {"dataset": f"Caltech-101, split {k}", "model": model, "split": 0, "accuracy": 0.6 + 0.02 * k}
        for k in (1, 2, 3)
        for model in models
    ]
    (printed,) = samkl.print_2(comparison_of(rows), Setting())
    first = printed.frame.iloc[0]
    assert (first["model"], first["splits"], first["published"]) == ("SAMKL", 3, 67.2)
    assert first["ours"] == pytest.approx(64.0)
    assert first["ours_sd"] == pytest.approx(2.0)
    assert first["difference_in_sd"] == pytest.approx(-3.2)


def test_gains_of_the_synthetic_study_are_tested_with_overlapping_training_sets_in_mind():
    accuracies = {"SAMKL": [0.70, 0.74, 0.71, 0.75], "SimpleMKL": [0.69, 0.70, 0.71, 0.70]}
    rows = [
        {"dataset": "kernels 0.3", "model": model, "split": k, "accuracy": value}
        for model, values in accuracies.items()
        for k, value in enumerate(values)
    ]
    (printed,) = samkl.print_synthetic(comparison_of(rows), Setting())
    gains = np.subtract(accuracies["SAMKL"], accuracies["SimpleMKL"])
    statistic = gains.mean() / np.sqrt((1 / 4 + 1.0) * gains.var(ddof=1))  # as many test as training samples
    assert printed.frame.loc[0, "gain_over_simplemkl"] == pytest.approx(100 * gains.mean())
    assert printed.frame.loc[0, "p_value"] == pytest.approx(2 * stats.t.sf(abs(statistic), 3))


def test_gisette_of_another_size_is_refused(tmp_path):
    folder = tmp_path / "gisette"
    folder.mkdir()
    np.save(folder / "features.npy", np.zeros((4, 3)))
    (folder / "labels.csv").write_text("label\n1\n-1\n1\n-1\n")
    gisette = next(s for s in localized.SETS if s.name == "gisette")
    with pytest.raises(
        MissingData, match="6000 samples, 5000 features, 2 classes; they have 4 samples, 3 features"
    ):
        gisette.reference(Setting(data=tmp_path))
    label, reference = gisette._replace(sizes=Sizes(4, 3)).reference(Setting(data=tmp_path))
    assert (label, reference().X.shape) == ("gisette", (4, 3))


# -------------------------------------------------------------------------------------------------------- claims


def test_answers_to_claims_are_those_of_the_corrected_test():
    rng = np.random.default_rng(0)
    accuracy = {"LMKL": 0.70, "SwMKL": 0.75, "C-LMKL": 0.6, "LD-MKL": 0.73, "LD-MKL, not gated": 0.76}
    values = {title: mean + 0.02 * rng.normal(size=10) for title, mean in accuracy.items()}
    rows = [
        {"dataset": "liver", "model": title, "split": k, "accuracy": v}
        for title, own in values.items()
        for k, v in enumerate(own)
    ]
    methods = {t: localized.Method(None, t.partition(",")[0], t.partition(", ")[2]) for t in accuracy}
    contents = localized.Contents(localized.WITH_LIBSVM, localized.LOCALIZED, methods)
    comparison = comparison_of(rows)
    frame = localized.accuracy_lost(contents, comparison).frame
    assert frame["model"].tolist() == ["LD-MKL", "LD-MKL, not gated"]
    assert frame["beside"].tolist() == ["SwMKL", "SwMKL"]
    differences = 100.0 * (values["LD-MKL"] - values["SwMKL"])
    assert frame["ours"][0] == pytest.approx(differences.mean())
    # Nadeau and Bengio (2003): as many test as training samples here
    t = differences.mean() / np.sqrt((1 / 10 + 1.0) * differences.var(ddof=1))
    assert frame["p_value"][0] == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert localized.sparsest(contents, comparison) is None


def test_the_sparsest_method_of_either_kind_is_found():
    support = dict(zip(localized.ALL, (0.4, 0.3, 0.5, 0.6, 0.7, 0.8, 0.35), strict=True))
    rows = [
        {"dataset": "liver", "model": title, "split": k, "support_fraction": share + 0.01 * k}
        for title, share in support.items()
        for k in range(2)
    ]
    methods = {title: localized.Method(None, title) for title in support}
    contents = localized.Contents(localized.SUPPORT, localized.ALL, methods, "support_fraction")
    (row,) = localized.sparsest(contents, comparison_of(rows)).frame.to_dict("records")
    assert (row["model"], row["beside"]) == ("LD-MKL", "GMKL")
    assert row["ours"] == pytest.approx(-5.0)
    assert localized.accuracy_lost(contents, comparison_of(rows)) is None


def test_fits_that_take_too_long_are_named_with_what_they_would_take(studies_of):
    local, other = studies_of(localized.TABLES["localized-table4"], sets=("adult",))
    assert set(local.models) == {"SwMKL", "LD-MKL", "C-LMKL", "LD-MKL, with biases", "LD-MKL, not gated"}
    assert set(other.models) == {"MWUMKL", "Uniform"}
    rows = [
        {"dataset": "adult", "model": model, "split": 0, "support_fraction": 0.4} for model in local.models
    ]
    contents = localized.Contents(
        localized.SUPPORT,
        localized.ALL,
        localized.AS_PUBLISHED,
        minutes={"adult": {"C-LMKL": 2.0, "GMKL": 60.0}},
    )
    (row,) = localized.not_run(contents, comparison_of(rows)).frame.to_dict("records")
    assert (row["data"], row["model"], row["ours"]) == ("adult", "GMKL", "not run: about 60 min a fit")
    first, *_ = localized.not_run(contents, comparison_of(rows[:1])).frame.to_dict(
        "records"
    )  # it was stopped
    assert (first["model"], first["ours"]) == ("C-LMKL", "not run: about 2 min a fit")
    assert localized.not_run(contents._replace(minutes={}), comparison_of(rows)) is None
