"""Average slopes are those of predictions, of linear regression in closed form, and of samples that count twice."""

from __future__ import annotations

import sys
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
)
from bayesmkl.bemkl import BEMKLOrdinalClassifier, Gibbs
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, Marginal
from bayesmkl.kernels import Cosine, Gaussian, Linear, Overlap, Polynomial
from bayesmkl.posterior import contributions, feature_table, plot_features
from bayesmkl.posterior.contributions import quick_feature_table

N, STEP = 36, 1e-4
FEW = Marginal(n_points=100, n_draws=400)
VIEWS = {"genes": [0, 2], "dose": 1}
BANK = KernelBank(
    [Gaussian(width=1.5), Linear(), Polynomial(degree=2)], views=VIEWS, normalize=("center", "spherical")
)
rng = np.random.default_rng(8)
X = rng.normal(size=(N, 3)) * [1.0, 3.0, 0.5]
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=N)
THREE = np.digitize(Y, [-0.5, 0.5])
NEW = rng.normal(size=(7, 3))
ABSENT = X.copy()
ABSENT[:9, 1] = np.nan
ABSENT[20:26, [0, 2]] = np.nan
SUM = {"together": False, "inference": FEW}  # slopes are those of parts of views, which are all of the score
CASES = {
    "process": lambda: GPMKLRegressor(BANK, **SUM).fit(X, 10 + 5 * Y),
    "absent": lambda: GPMKLRegressor(BANK, missing_views="integrate", **SUM).fit(ABSENT, 10 + 5 * Y),
    "together": lambda: GPMKLRegressor(BANK, inference=FEW).fit(X, 10 + 5 * Y),
    "targets": lambda: GPMKLRegressor(BANK, **SUM).fit(X, np.column_stack([Y, 7 * X[:, 2]])),
    "labels": lambda: GPMKLClassifier(BANK, **SUM).fit(X, THREE),
    "grades": lambda: GPMKLOrdinalClassifier(BANK, **SUM).fit(X, THREE),
    "counts": lambda: GPMKLRegressor(BANK, likelihood="poisson", **SUM).fit(X, np.round(np.exp(1 + Y))),
    "gibbs": lambda: BEMKLRegressor(BANK, inference=Gibbs(n_chains=2, n_warmup=10, n_draws=30)).fit(X, 9 * Y),
    "bemkl": lambda: BEMKLRegressor(BANK).fit(X, 9 * Y),
    "bemkl classes": lambda: BEMKLClassifier(BANK, max_iter=50, tol=1e-1, intermediate_scale=1.0).fit(
        X, THREE
    ),
}
# at samples that lack a view, one that moves also tells of it
PAIRS = {f"{kind}-training": (kind, None) for kind in CASES if kind != "absent"}
PAIRS |= {f"{kind}-new": (kind, NEW) for kind in CASES}
BY_DRAWS = {"bemkl", "bemkl classes"}  # of a posterior in closed form


def is_counted(model):
    return getattr(model, "likelihood", "gaussian") == "poisson"


def mains(model, rows):
    """Return mean scores without "views together"."""
    return contributions(model, rows)["mean"].sel(part=list(VIEWS)).sum("part").to_numpy()


def slopes_of_predictions(model, rows):
    """Return slopes of mean scores at every row, (n_rows, n_features, n_outputs)."""
    of_numbers = isinstance(model, BEMKLRegressor) or getattr(model, "_OUTCOME", "") == "numbers"
    predict = model.predict if of_numbers and not is_counted(model) else model.predict_latent
    if getattr(model, "together", False):
        predict = partial(mains, model)
    moves = STEP * np.eye(3)
    both = [(predict(rows + move) - predict(rows - move)) / (2.0 * STEP) for move in moves]
    return np.stack(both, axis=1).reshape(len(rows), 3, -1)


@pytest.fixture(scope="module")
def fits():
    return cache(lambda kind: CASES[kind]())


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("kind", "rows"), PAIRS.values(), ids=PAIRS)
def test_slopes_are_those_of_predictions(kind, rows, fits):
    model = fits(kind)
    table = feature_table(model, rows, per="unit", random_state=0)
    at = X if rows is None else rows
    exact = slopes_of_predictions(model, at)
    kinds = {"targets": "output", "labels": "class", "bemkl classes": "class"}
    outputs = table[kinds[kind]].unique() if kind in kinds else [None]
    assert len(outputs) == exact.shape[2]
    assert len(table) == 3 * len(outputs)
    for k, output in enumerate(outputs):
        own = table if output is None else table[table[kinds[kind]] == output]
        assert (np.diff(own["size"]) <= 0.0).all()
        own = own.set_index("feature").loc[["x0", "x1", "x2"]]
        assert own["view"].tolist() == ["genes", "dose", "genes"]
        size = np.sqrt((exact[..., k] ** 2).mean(axis=0)) * at.std(axis=0)
        loose = {"rtol": 0.1, "atol": 0.02 * size.max()} if kind in BY_DRAWS else {"rtol": 2e-4, "atol": 1e-6}
        np.testing.assert_allclose(own["size"], size, **loose)
        error = 6.0 * own["std"] / np.sqrt(60 if kind == "gibbs" else 400)
        assert (
            np.abs(own["mean"] - exact[..., k].mean(axis=0)) <= (1e-5 if kind == "gibbs" else error)
        ).all()
        assert ((own["lower"] < own["mean"]) & (own["mean"] < own["upper"])).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_slopes_of_samples_that_lack_views(fits):
    """Covariances are those of differences, and averages are over samples that have the view."""
    model = fits("absent")
    completed, centers = model._completed_training(), model.kernel_centers_
    for m, (view, own) in enumerate(model.kernel_bank_.slopes(NEW)):
        found = completed.slopes(m, centers, own.over_rows(np.full(len(NEW), 1.0 / len(NEW))).T)
        for j, cross in zip(view.columns, found, strict=True):
            move = STEP * np.eye(3)[j]
            (above, _), (below, _) = (next(model._completed_rows(NEW + sign * move)) for sign in (1, -1))
            exact = (above.kernels[m] - below.kernels[m]).mean(axis=0) / (2.0 * STEP)
            np.testing.assert_allclose(cross, exact, atol=1e-7 * np.abs(exact).max() + 1e-9)
    table = feature_table(model, per="unit", random_state=0).set_index("feature")
    whole = feature_table(model, ABSENT, per="unit", random_state=0).set_index("feature").loc[table.index]
    np.testing.assert_allclose(table["size"], whole["size"])
    have = ~np.isnan(ABSENT[:, 1])
    alone = feature_table(model, np.where(have[:, None], X, np.nan)[have], random_state=0).set_index(
        "feature"
    )
    assert alone.loc["x1", "size"] == pytest.approx(table.loc["x1", "size"])
    assert table.loc["x1", "lower"] > 0.0


def test_a_linear_kernel_is_bayesian_linear_regression():
    """Weights of features and their posterior, by the formula of regression at every point of the hyperparameters."""
    options = Marginal(n_points=100, n_draws=8000)
    model = GPMKLRegressor(KernelBank([Linear()], normalize=None), inference=options, intercept_std=2.0).fit(
        X, Y
    )
    table = feature_table(model, per="unit", random_state=0).set_index("feature").loc[["x0", "x1", "x2"]]
    draws, y = model.posterior_, model.target_
    unit = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    basis = np.column_stack([X, np.ones(N)])
    means, stds = [], []
    for weight, noise in zip(draws.kernel_weights[:, 0], draws.parameters[:, 0, 0], strict=True):
        precision = np.diag([unit / weight**2] * 3 + [1 / 4.0]) + basis.T @ basis / noise**2
        covariance = np.linalg.inv(precision)
        means.append((covariance @ basis.T @ y / noise**2)[:3] * model.y_scale_)
        stds.append(np.sqrt(covariance.diagonal()[:3]) * model.y_scale_)
    p, means, stds = draws.probability, np.array(means), np.array(stds)
    mean = p @ means
    std = np.sqrt(p @ (stds**2 + (means - mean) ** 2))
    np.testing.assert_allclose(table["mean"], mean, atol=6 * std.max() / np.sqrt(8000))
    np.testing.assert_allclose(table["std"], std, rtol=0.06)
    below = p @ norm.cdf((table["lower"].to_numpy() - means) / stds)
    np.testing.assert_allclose(below, 0.03, atol=6 * np.sqrt(0.03 / 8000))
    np.testing.assert_allclose(table["prob_positive"], p @ norm.sf(-means / stds), atol=0.03)
    np.testing.assert_allclose(table["size"], np.abs(mean) * X.std(axis=0), rtol=1e-6)


def test_twice_is_two_samples():
    counts = np.where(np.arange(N) < 9, 2, 1)
    each = np.where(counts == 1, 0.5, 1.0)  # weights of numbers have a mean of at most one
    copies = np.repeat(np.arange(N), counts)
    bank = KernelBank([Gaussian(width=1.5)], views=VIEWS, normalize="center")
    model = GPMKLRegressor(bank, inference=FEW)
    once = feature_table(model.fit(X, Y, sample_weight=counts * each), random_state=0)
    twice = feature_table(model.fit(X[copies], Y[copies], sample_weight=each[copies]), random_state=0)
    for column in ("size", "mean", "std", "lower", "upper"):
        np.testing.assert_allclose(once[column], twice[column], rtol=1e-5, atol=1e-7)


@pytest.mark.heavy
def test_units_names_and_pipelines(fits):
    frame = pd.DataFrame(X, columns=["tp53", "dose", "brca1"])
    bank = KernelBank([Gaussian(width=1.5)], views={"genes": ["tp53", "brca1"], "dose": ["dose"]})
    model = GPMKLRegressor(bank, inference=FEW).fit(frame, Y)
    by_std, by_unit = (feature_table(model, per=per, random_state=0) for per in ("std", "unit"))
    assert set(zip(by_std["view"], by_std["feature"], strict=True)) == {
        ("genes", "tp53"),
        ("genes", "brca1"),
        ("dose", "dose"),
    }
    stds = frame.std(ddof=0)[by_std["feature"]].to_numpy()
    for column in ("mean", "std", "lower", "upper", "mean_mcse", "upper_mcse"):
        np.testing.assert_allclose(by_std[column], by_unit[column] * stds, rtol=1e-10)
    np.testing.assert_allclose(by_std["size"], by_unit["size"])
    bank = KernelBank([Gaussian(width=1.5)], views=VIEWS)
    scaled = make_pipeline(StandardScaler(), GPMKLRegressor(bank, inference=FEW)).fit(X, Y)
    plain = GPMKLRegressor(bank, inference=FEW).fit(StandardScaler().fit_transform(X), Y)
    pd.testing.assert_frame_equal(
        feature_table(scaled, X[:5], random_state=0),
        feature_table(plain, StandardScaler().fit(X).transform(X[:5]), random_state=0),
    )
    assert feature_table(fits("bemkl"))["interval_by"].unique().tolist() == ["vb (too narrow)"]
    assert "mean_mcse" in feature_table(fits("gibbs"))
    assert "mean_mcse" not in feature_table(fits("bemkl"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learned", [False, True])
def test_numbers_beside_categories_have_slopes(learned):
    """Those of predictions; a view of categories alone has no rows."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    df["sex"], df["pet"] = rng.choice(["f", "m"], size=40), rng.choice(["cat", "dog", "none"], size=40)
    y = np.sin(df["a"]) + df["b"] * 0.5 + (df["sex"] == "f") + 0.2 * rng.normal(size=40)
    views = {"clinic": ["sex", "b", "a"], "pet": "pet", "rest": "c"}
    widths = {name: [Gaussian(width="each"), Linear(), Overlap()] for name in views}
    widths |= {"pet": Overlap(), "rest": Gaussian(width="learn")}
    kernels = KernelBank(widths if learned else "auto", views=views, scale=True)
    model = GPMKLRegressor(kernels, **SUM).fit(df, y)
    table = feature_table(model, per="unit", random_state=0).set_index("feature")
    assert table.attrs["caption"] == "Categories have no slopes: sex, pet. Compare them with `contrast`."
    assert dict(table["view"]) == {"a": "clinic", "b": "clinic", "c": "rest"}
    for name in "abc":
        up, down = (model.predict(df.assign(**{name: df[name] + step})) for step in (STEP, -STEP))
        slopes = (up - down) / (2.0 * STEP)
        assert abs(table["mean"][name] - slopes.mean()) < 6.0 * table["std"][name] / np.sqrt(model.ess_)
        size = np.sqrt((slopes**2).mean()) * df[name].std(ddof=0)
        assert table["size"][name] == pytest.approx(size, rel=0.02 if learned else 2e-3, abs=1e-6)
    with pytest.raises(
        ValueError, match="kernel 'overlap · pet' has no slopes, since it compares categories"
    ):
        feature_table(GPMKLRegressor(views={"pet": "pet"}, inference=FEW).fit(df, y))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_has_no_slopes_is_named(fits):
    with pytest.raises(ValueError, match="`model` was fitted to precomputed kernels, which have no features"):
        feature_table(GPMKLRegressor("precomputed", inference=FEW).fit(BANK.fit_transform(X), Y))
    with pytest.raises(ValueError, match="kernel 'cosine · all' has no slopes"):
        feature_table(GPMKLRegressor(KernelBank([Cosine()]), inference=FEW).fit(X, Y))
    absent = X.copy()
    absent[:3, 1] = np.nan
    with pytest.raises(ValueError, match="no missing views; got BEMKLRegressor"):
        feature_table(BEMKLRegressor(BANK, missing_views="integrate", max_iter=5).fit(absent, Y))
    with pytest.raises(ValueError, match="`X` must have samples with the view 'dose'; got 3 without it"):
        feature_table(fits("absent"), ABSENT[:3])
    of_tasks = np.column_stack([X, np.arange(N) % 2])
    with pytest.raises(ValueError, match="`model` must have no tasks"):
        feature_table(GPMKLRegressor(BANK, design=Design(task_column=3), inference=FEW).fit(of_tasks, Y))
    with pytest.raises(ValueError, match="`per` must be"):
        feature_table(fits("process"), per="row")
    with pytest.raises(ValueError, match="X has 2 features"):
        feature_table(fits("process"), X[:, :2])
    with pytest.raises(TypeError, match="BEMKLOrdinalClassifier"):
        feature_table(BEMKLOrdinalClassifier(BANK, max_iter=5, intermediate_scale=1.0).fit(X, THREE))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("normalize", ["spherical", ("center", "trace")], ids=str)
def test_landmarks_take_the_place_of_samples(normalize):
    bank = KernelBank([Gaussian(width=1.5), Linear()], views=VIEWS, normalize=normalize, landmarks=8)
    model = BEMKLRegressor(bank, inference=Gibbs(n_chains=2, n_warmup=10, n_draws=30)).fit(X, Y)
    table = feature_table(model, per="unit").set_index("feature").loc[["x0", "x1", "x2"]]
    exact = slopes_of_predictions(model, X)[..., 0]
    np.testing.assert_allclose(table["mean"], exact.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(table["size"], np.sqrt((exact**2).mean(axis=0)) * X.std(axis=0), rtol=1e-4)


def test_a_feature_that_does_not_vary_has_no_slope_per_deviation():
    constant = X.copy()
    constant[:, 2] = 4.0
    table = feature_table(GPMKLRegressor(KernelBank("rbf"), inference=FEW).fit(constant, Y), random_state=0)
    values = table.iloc[-1][["size", "mean", "std", "lower", "upper"]].to_numpy(float)
    np.testing.assert_allclose(values, 0.0, atol=1e-12)
    assert table["feature"].iloc[-1] == "x2"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_plot_shows_the_largest_slopes_of_one_output(fits):
    table = feature_table(fits("targets"), random_state=0)
    rows = table[table["output"] == "1"].reset_index(drop=True)
    ax = plot_features(table, output="1", max_features=2)
    assert [text.get_text() for text in ax.get_yticklabels()] == rows["feature"][:2].tolist()
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], 2 * rows["size"][:2])
    drawn = np.concatenate([line.get_xdata() for line in ax.lines[:2]])  # those that are sure come first
    np.testing.assert_allclose(np.sort(drawn), np.sort(rows["mean"][:2]))
    assert ax.get_title(loc="left") == f"{rows['feature'][0]!r} has the largest slopes (2 of 3)"
    assert not plot_features(feature_table(fits("process"), per="unit")).patches  # sizes are of another scale
    with pytest.raises(ValueError, match="`output` must be one of '0', '1'"):
        plot_features(table)
    with pytest.raises(ValueError, match="`output` must be None"):
        plot_features(feature_table(fits("process")), output="a")
    with pytest.raises(TypeError, match="`table` must be the result of `feature_table`"):
        plot_features(table[["view"]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_samples_have_no_slopes():
    rows = csr_array(X)
    model = BEMKLRegressor(KernelBank([Linear()]), max_iter=5).fit(rows, Y)
    for given in (None, rows, pd.DataFrame.sparse.from_spmatrix(rows)):
        with pytest.raises(TypeError, match=r"was fitted to a sparse `X`, .* Fit `X.toarray\(\)`"):
            feature_table(model, given)
    assert quick_feature_table(model, 0.94, rng) is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_slopes_that_take_long_are_left_out(fits, monkeypatch):
    model = fits("process")
    quick, whole = (
        quick_feature_table(model, 0.9, np.random.default_rng(3)),
        feature_table(model, ci_prob=0.9),
    )
    np.testing.assert_allclose(quick["size"], whole["size"])
    np.testing.assert_allclose(
        quick["mean"], whole["mean"], atol=0.3 * whole["std"].max()
    )  # from half of the draws
    assert quick["mean_mcse"].mean() > whole["mean_mcse"].mean()
    n_slopes = N * N * 3 * 3  # pairs of samples, three kernels, three features
    module = sys.modules["bayesmkl.posterior.contributions"]
    monkeypatch.setattr(module, "MOST_ENTRIES", n_slopes - 1.0)
    assert quick_feature_table(model, 0.94, rng) is None
    monkeypatch.setattr(module, "MOST_ENTRIES", n_slopes)
    assert quick_feature_table(model, 0.94, rng) is not None
    assert (
        quick_feature_table(BEMKLRegressor(KernelBank([Cosine()]), max_iter=5).fit(X, Y), 0.94, rng) is None
    )
