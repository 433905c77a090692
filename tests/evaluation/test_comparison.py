"""What a comparison says of kernels and kept predictions, against scikit-learn, the fits and direct computations."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.datasets import load_wine
from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.evaluation.compare import MOST_KERNELS, kept_shares
from bayesmkl.evaluation.comparison import selection_stability
from bayesmkl.evaluation.metrics import METRICS
from bayesmkl.gp import GPMKLClassifier, GPMKLRegressor, GPMKLSurvival, Marginal

KEPT = ("labels", "scores", "probabilities", "std", "survival")
BANK = KernelBank("rbf", views="each")
FAST = Marginal(n_points=100, n_draws=100)
UNSUITED = {
    ("three classes", "roc_auc"),
}  # to scikit-learn
OF_SKLEARN = {
    "classification": ["roc_auc", "neg_log_loss"],
    "regression": ["neg_median_absolute_error", "explained_variance", "neg_max_error"],
}


def classes(n=45, labels=("no", "yes")):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    return X, np.array(labels, dtype=object)[(X[:, 0] + 0.8 * rng.normal(size=n) > 0).astype(int)]


def numbers():
    X, _ = classes()
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1]


def times():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    died, left = np.exp(X[:, 0] + 0.3 * rng.logistic(size=60)), rng.uniform(0.5, 4.0, size=60)
    return X, np.rec.fromarrays([died < left, np.minimum(died, left)], names="event,time")


CLASSIFIERS = {
    "BEMKL": make_pipeline(
        StandardScaler(), BEMKLClassifier(BANK, intermediate_scale=1.0, max_iter=5, tol=0.0)
    ),
    "GPMKL": GPMKLClassifier(BANK, inference=FAST),
    "svm": SVC(),
    "tuned": (make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}),
    "bayes": GaussianNB(),
    "neighbors": KNeighborsClassifier(),
}
TASKS = {
    "two classes": (CLASSIFIERS, classes()),
    "three classes": (
        {name: CLASSIFIERS[name] for name in ("BEMKL", "svm", "bayes")}
        | {"pairs": SVC(decision_function_shape="ovo", probability=True, random_state=0)},
        (lambda X, y: (X[::3, :2], y[::3]))(*load_iris(return_X_y=True)),
    ),
    "numbers": (
        {
            "BEMKL": BEMKLRegressor(BANK, max_iter=5, tol=0.0),
            "GPMKL": make_pipeline(StandardScaler(), GPMKLRegressor(BANK, inference=FAST)),
            "ridge": Ridge(),
            "bayes": BayesianRidge(),
        },
        numbers(),
    ),
    "times": ({"GPMKL": GPMKLSurvival(BANK, inference=FAST)}, times()),
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return comparisons with all metrics of predictions, computed at the fit, their folders and metrics, by task."""
    found = {}
    for task, (models, (X, y)) in TASKS.items():
        kind = {"numbers": "regression", "times": "survival"}
        kind = kind.get(task, "classification")
        names = [m.name for m in METRICS.values() if m.task == kind and m.needs in KEPT]
        further = [name for name in OF_SKLEARN.get(kind, []) if (task, name) not in UNSUITED]
        options = {"cv": 2, "scoring": [*names, *further], "unavailable": "nan"}
        if kind == "classification" and task == "two classes":
            options["scoring"] = {name: name for name in options["scoring"]}
            options["scoring"]["jaccard"] = make_scorer(jaccard)
        folder = tmp_path_factory.mktemp("kept") / "run"
        found[task] = compare_models(models, X, y, folder=folder, **options), folder, options["scoring"]
    return found


def jaccard(y, predicted):
    return np.sum((y == "yes") & (predicted == "yes")) / np.sum((y == "yes") | (predicted == "yes"))


@pytest.mark.heavy
@pytest.mark.parametrize("task", TASKS)
def test_metrics_of_kept_predictions_are_those_of_the_fit_bit_for_bit(compared, task):
    found, folder, scoring = compared[task]
    kept = Comparison.load(folder)
    assert found.failures.empty
    for name in set(scoring) - {"jaccard"}:  # which may look at the model
        pd.testing.assert_frame_equal(kept.score(name), found.scores(name), check_exact=True)
    n_numbers = found.cells[list(scoring)].notna().to_numpy().sum()
    assert n_numbers > 0.6 * len(found.cells) * len(scoring)  # most models give most of them


@pytest.mark.heavy
@pytest.mark.parametrize("task", ["two classes", "numbers"])
def test_metrics_that_come_later_are_those_of_the_fit_bit_for_bit(compared, tmp_path, task):
    """In whatever order models were asked."""
    found, _, scoring = compared[task]
    models, (X, y) = TASKS[task]
    first = {"numbers": "mae", "times": "concordance"}.get(task, "accuracy")
    compare_models(models, X, y, cv=2, scoring=first, folder=tmp_path / "run")
    backwards = dict(reversed(scoring.items())) if isinstance(scoring, dict) else scoring[::-1]
    later = compare_models(models, X, y, cv=2, scoring=backwards, unavailable="nan", folder=tmp_path / "run")
    pd.testing.assert_frame_equal(
        later.cells[found.metrics], found.cells[found.metrics], check_exact=True, check_like=True
    )


def test_what_cells_do_not_keep_is_not_guessed(compared):
    found = compared["two classes"][0]
    with pytest.raises(
        ValueError, match=r"`metric`: 'jaccard' needs the model itself.*computes these cells anew"
    ):
        found.score(jaccard)
    with pytest.raises(ValueError, match="unknown metric 'acuracy'"):
        found.score("acuracy")
    with pytest.raises(ValueError, match="`dataset` must be one of"):
        found.score("f1", "iris")
    assert found.score("log_loss")["svm"].isna().all()  # it has no probabilities


def test_predictions_are_those_of_scikit_learn(compared):
    found, folder, _ = compared["two classes"]
    table = Comparison.load(folder).predictions()
    X, y = TASKS["two classes"][1]
    splits = [table.query("model == 'svm' and split == @k")["row"].to_numpy() for k in range(2)]
    cv = [(np.setdiff1d(np.arange(len(y)), rows), rows) for rows in splits]
    own = table[table["model"] == "bayes"].sort_values("row")
    expected = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_proba")
    np.testing.assert_array_equal(own[["p(no)", "p(yes)"]], expected)
    assert (own["truth"].to_numpy() == y).all()
    own = table[table["model"] == "svm"].sort_values("row")
    np.testing.assert_array_equal(
        own["score"], cross_val_predict(SVC(), X, y, cv=cv, method="decision_function")
    )
    assert own["prediction"].tolist() == cross_val_predict(SVC(), X, y, cv=cv).tolist()
    assert own["p(yes)"].isna().all()
    latent = table[table["model"] == "GPMKL"]
    assert (latent["latent_std"] > 0).all()
    pd.testing.assert_frame_equal(found.predictions("data"), table)


def test_several_columns_of_targets_are_refused():
    X, y = numbers()
    with pytest.raises(
        ValueError, match=r"one number per sample.*shape \(45, 2\)\. Compare one column at a time"
    ):
        compare_models({"ridge": Ridge()}, X, np.column_stack([y, y]))


# -------------------------------------------------------------------------------------------------------- not kept


def test_predictions_may_be_left_out(tmp_path):
    X, y = classes(labels=("benign", "malignant"))
    found = compare_models(
        {"svm": SVC()}, X, y, cv=2, scoring="accuracy", folder=tmp_path / "a", keep_predictions=False
    )
    assert not list((tmp_path / "a").rglob("*.npz"))
    assert not [path for path in (tmp_path / "a").rglob("*.*") if "malignant" in path.read_text()]
    with pytest.raises(
        ValueError, match=r"`predictions`: those of 'svm' on 'data', split 0, are not kept: .*False when"
    ):
        found.predictions()
    with pytest.raises(ValueError, match="are not kept"):
        Comparison.load(tmp_path / "a").score("mcc")
    assert found.scores().equals(compare_models({"svm": SVC()}, X, y, cv=2, scoring="accuracy").scores())


def test_predictions_of_earlier_calls_stay_with_a_warning(tmp_path):
    """Whoever asks for none, to share the folder, is told of those that are there; without them cells are whole."""
    study = {"X": classes()[0], "y": classes()[1], "cv": 2, "scoring": "accuracy", "folder": tmp_path / "run"}
    first = compare_models({"svm": SVC()}, **study)
    with pytest.warns(UserWarning, match=r"`keep_predictions` is False, and 2 cells in .*cells.* of earlier"):
        compare_models({"svm": SVC(), "bayes": GaussianNB()}, **study, keep_predictions=False)
    for path in (tmp_path / "run" / "cells").glob("*.npz"):
        path.unlink()
    again = compare_models({"svm": SVC()}, **study, keep_predictions=False)
    assert again.cells.equals(first.cells)


class Shy(RegressorMixin, BaseEstimator):
    """A model whose deviations fail, which no metric asks for."""

    def fit(self, X, y):
        self.mean_ = y.mean()
        return self

    def predict(self, X, return_std=False):
        if return_std:
            raise RuntimeError("no deviations today")
        return np.full(len(X), self.mean_)


def test_a_cell_does_not_fail_for_what_no_metric_asks():
    X, y = numbers()
    found = compare_models({"shy": Shy()}, X, y, cv=2, scoring="mae")
    assert found.failures.empty
    with pytest.raises(ValueError, match="could not be computed: RuntimeError: no deviations today"):
        found.predictions()
    mixed = np.array(["no", 1], dtype=object)[(X[:, 0] > 0).astype(int)]
    with pytest.raises(ValueError, match=r"holds objects|could not|`y`|are not kept|mix|labels"):
        compare_models({"svm": SVC()}, X, mixed, cv=2, scoring="accuracy").predictions()


SPLITS = StratifiedKFold(3, shuffle=True, random_state=0)
X, Y = load_wine(return_X_y=True)
X = ((X - X.mean(axis=0)) / X.std(axis=0))[::2, :6]
Y = Y[::2] == 1
MODELS = {
    "simple": SimpleMKLClassifier(BANK),
    "uniform": UniformMKLClassifier(BANK),
    "bemkl": BEMKLClassifier(BANK, intermediate_scale=1.0),
    "log_reg": LogisticRegression(),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "folder"
    return compare_models(
        MODELS, datasets={"wine & co": (X, Y)}, cv=SPLITS, scoring="accuracy", folder=folder, n_jobs=1
    ), folder


def test_weights_are_those_of_the_models(found):
    table = found[0].weights()
    assert set(table["model"]) == {"simple", "uniform", "bemkl"}  # a model without kernels has none
    shares = []
    for train, _ in SPLITS.split(X, Y):
        own = SimpleMKLClassifier(BANK).fit(X[train], Y[train])
        shares.append(own.kernel_weights_ / own.kernel_weights_.sum())
    simple = table[table["model"] == "simple"].set_index("kernel").loc[list(own.kernel_names_)]
    np.testing.assert_allclose(simple["mean"], np.mean(shares, axis=0), atol=2e-6)
    np.testing.assert_allclose(simple["std"], np.std(shares, axis=0, ddof=1), atol=2e-6)
    chosen = np.array(shares) > 1e-3 * np.max(shares, axis=1, keepdims=True)
    np.testing.assert_allclose(simple["selected"], chosen.mean(axis=0))
    assert simple["posterior_std"].isna().all()
    bemkl = table[table["model"] == "bemkl"]
    assert (bemkl["posterior_std"] > 0).all()
    assert bemkl["mean"].sum() == pytest.approx(1.0, abs=1e-5)
    assert (np.diff(bemkl["mean"]) <= 0).all()
    assert set(bemkl["view"]) == {f"x{j}" for j in range(6)}


def test_stability_by_pairs_of_splits():
    """Of selections of equal size it is the mean of a similarity over pairs, corrected for chance (Kuncheva 2007)."""
    rng = np.random.default_rng(0)
    chosen = np.array([rng.permutation(12) < 4 for _ in range(9)])
    pairs = [(a & b).sum() for i, a in enumerate(chosen) for b in chosen[:i]]
    kuncheva = np.mean([(r - 16 / 12) / (4 - 16 / 12) for r in pairs])
    assert selection_stability(chosen)[0] == pytest.approx(kuncheva)
    assert selection_stability(np.tile(chosen[:1], (5, 1))) == pytest.approx((1.0, 1.0, 1.0))
    assert all(np.isnan(selection_stability(np.ones((4, 3), dtype=bool))))
    assert all(np.isnan(selection_stability(chosen[:1])))


def test_intervals_of_stability_cover_it():
    rng = np.random.default_rng(1)
    part = rng.random(40)

    def drawn(n):
        return rng.random((n, 40)) < part

    truth = selection_stability(drawn(40000))[0]
    ends = np.array([selection_stability(drawn(100), 0.9)[1:] for _ in range(300)])
    covered = np.mean((ends[:, 0] < truth) & (truth < ends[:, 1]))
    assert 0.85 < covered < 0.95


def test_what_has_no_weights_keeps_none():
    assert kept_shares(LogisticRegression().fit(X, Y)) == ""
    model = UniformMKLClassifier(BANK).fit(X, Y)
    kept = json.loads(kept_shares(model))
    assert kept["shares"] == [pytest.approx(1 / 6, abs=1e-6)] * 6
    assert kept["stds"] is None
    model.kernel_names_, model.kernel_weights_ = ["k"] * (MOST_KERNELS + 1), np.ones(MOST_KERNELS + 1)
    assert kept_shares(model) == ""
    with pytest.raises(ValueError, match="`threshold` must be between 0 and 1"):
        Comparison(pd.DataFrame(), {"metrics": {}}).weights(threshold=2.0)


def test_the_best_mean_is_one_of_the_same_splits():
    def made(**scores):
        rows = [
            {"dataset": "d", "model": m, "split": s, "n_train": 80, "n_test": 20, "accuracy": v, "error": ""}
            for m, values in scores.items()
            for s, v in enumerate(values)
        ]
        cells = pd.DataFrame(rows).assign(
            fit_seconds=1.0, predict_seconds=1.0, support_fraction=np.nan, n_active_kernels=np.nan
        )
        return Comparison(cells, {"metrics": {"accuracy": True}})

    nan = np.nan
    crossed = made(a=[nan, 0.9, 0.8], b=[0.7, nan, 0.6])  # means of different splits do not compare
    assert crossed.summary()["best"].tolist() == [False, False]
    undefined = made(a=[nan, 0.9, 0.8, 0.9], b=[nan, 0.5, 0.5, 0.6])  # such as ROC AUC of a fold of one class
    assert undefined.summary()["best"].tolist() == [True, False]
