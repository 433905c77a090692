"""Parts of scores sum to scores, and are those of other implementations."""

from __future__ import annotations

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import NUTS, Gibbs
from bayesmkl.discriminative.estimators.joint import GMKLClassifier, SimpleMKLClassifier
from bayesmkl.discriminative.estimators.two_stage import LPBoostMKLClassifier
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.gp.conditioning import Sites, condition
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.parts import joint_moments
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import (
    contrast,
    contributions,
    overall_effect,
    plot_component,
    plot_contributions,
    plot_effects,
    plot_overall_effect,
    plot_waterfall,
)
from bayesmkl.posterior.contributions import PartNames
from bayesmkl.posterior.effects import _mixture, _with_rows

FEW = Marginal(n_points=100, n_draws=200)
MORE = Marginal(n_points=400, n_draws=200)  # of tasks, which have more hyperparameters
BANK = KernelBank([Gaussian(width=1), Linear()], views={"signal": 0, "noise": 1}, normalize="center")
rng = np.random.default_rng(4)
X = rng.normal(size=(30, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=30)
THREE = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
NEW = rng.normal(size=(6, 2))
X.flags.writeable = Y.flags.writeable = False


def with_nan(values, rows=(0, 3), column=1):
    values = values.copy()
    values[list(rows), column] = np.nan
    return values


SITES = np.column_stack([X, np.arange(30) % 7, np.arange(30) % 3, np.full(30, 0.5)])
NEW_SITES = np.column_stack([NEW, np.arange(6), [0, 1, 2, 2, 5, 5], np.linspace(-1, 1, 6)])
TIMES = np.rec.fromarrays([np.arange(30) % 3 > 0, np.exp(1 + 2 * Y)], names="event,time")
CASES = {
    "process": lambda: (GPMKLRegressor(BANK, inference=FEW).fit(X, 10 + 5 * Y), NEW),
    "targets": lambda: (GPMKLRegressor(BANK, inference=FEW).fit(X, np.column_stack([Y, X[:, 1]])), NEW),
    "labels": lambda: (GPMKLClassifier(BANK, inference=FEW).fit(X, THREE), NEW),
    "design": lambda: (
        GPMKLRegressor(
            BANK,
            design=Design(covariate_columns=2, group_columns=3, slope_columns={3: 2}, offset_column=4),
            inference=FEW,
        ).fit(SITES, 10 + 5 * Y),
        NEW_SITES,
    ),
    "tasks": lambda: (
        GPMKLRegressor(BANK, design=Design(task_column=2), inference=MORE).fit(SITES[:, [0, 1, 3]], Y),
        NEW_SITES[:4, [0, 1, 3]],
    ),
    "counts": lambda: (
        GPMKLRegressor(BANK, likelihood="poisson", inference=FEW).fit(X, np.round(np.exp(1 + Y))),
        NEW,
    ),
    "absent views": lambda: (
        GPMKLRegressor(BANK, missing_views="integrate", inference=FEW).fit(with_nan(X), Y),
        with_nan(NEW),
    ),
    "bemkl": lambda: (BEMKLRegressor(BANK).fit(X, 10 + 5 * Y), NEW),
    "bemkl classes": lambda: (
        BEMKLClassifier(BANK, max_iter=50, tol=1e-1, intermediate_scale=1.0).fit(X, THREE),
        NEW,
    ),
    "gibbs": lambda: (
        BEMKLRegressor(BANK, inference=Gibbs(n_chains=2, n_warmup=10, n_draws=30)).fit(X, Y),
        NEW,
    ),
    "bemkl absent views": lambda: (
        BEMKLRegressor(BANK, missing_views="integrate").fit(with_nan(X), Y),
        with_nan(NEW),
    ),
    "times": lambda: (GPMKLSurvival(BANK, inference=FEW).fit(X, TIMES), NEW),
    "grades": lambda: (GPMKLOrdinalClassifier(BANK, inference=FEW).fit(X, np.digitize(Y, [-0.5, 0.5])), NEW),
    "landmarks": lambda: (
        GPMKLRegressor(
            KernelBank([Gaussian(width=1), Linear()], BANK.views, landmarks=12), inference=FEW
        ).fit(X, Y),
        NEW,
    ),
    "learned": lambda: (
        GPMKLRegressor(KernelBank([Gaussian(width="each"), Linear()], BANK.views), inference=FEW).fit(X, Y),
        NEW,
    ),
    "simplemkl": lambda: (SimpleMKLClassifier(BANK).fit(X, THREE), NEW),
    "lpboost": lambda: (LPBoostMKLClassifier(BANK, cv=3).fit(X, Y > 0), NEW),
}


@pytest.fixture(scope="module")
def fits():
    return cache(lambda kind: CASES[kind]())


def scores_of(model, rows, method):
    return np.asarray(getattr(model, method)(rows))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("by", ["view", "kernel"])
@pytest.mark.parametrize("kind", CASES)
def test_parts_sum_to_the_score(kind, by, fits):
    model, rows = fits(kind)
    found = contributions(model, rows, by, n_draws=40, draws=True, random_state=0)
    score = scores_of(model, rows, found.attrs["score"])
    np.testing.assert_allclose(found["mean"].sum("part"), score, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found["score"], score, rtol=0, atol=1e-10)
    n_together = hasattr(model, "together")  # "views together" is a view and a kernel
    assert (found["kind"] == by).sum() == (2 if by == "view" else 4) + n_together
    if "draws" not in found:
        assert found.attrs["inference"] == "point estimate"
        return
    assert found["draws"].sizes["draw"] == 40
    sums = found["draws"].sum("part")
    ends = sums.quantile([0.03, 0.97], "draw")
    np.testing.assert_allclose(found["score_interval"], ends, rtol=0, atol=1e-10)
    assert (found["interval"][0] <= found["interval"][1]).all()


@pytest.mark.parametrize(
    "kind", ["process", "labels", "absent views", "design", "bemkl", "bemkl absent views"]
)
def test_draws_have_the_moments_of_the_score(kind, fits):
    model, rows = fits(kind)
    found = contributions(model, rows, n_draws=2000, random_state=0)
    if kind.startswith("bemkl"):
        noise = model.posterior_.noise_precision.mean_reciprocal * model.y_scale_**2
        std = np.sqrt(model.predict(rows, return_std=True)[1] ** 2 - noise)
    else:
        std = model.predict_latent(rows, return_std=True)[1] * getattr(model, "y_scale_", 1.0)
    n = 2000 if kind.startswith("bemkl") else 200
    np.testing.assert_allclose(found["score_std"] / std, 1.0, atol=6 / np.sqrt(n))
    drawn = contributions(model, rows, n_draws=2000, draws=True, random_state=1)["draws"]
    error = np.abs(drawn.mean("draw") - found["mean"]) / (drawn.std("draw") + 1e-12)
    assert float(error.max()) < 6 / np.sqrt(n)


def test_views_are_sums_of_their_kernels(fits):
    model, rows = fits("process")
    by_kernel = contributions(model, rows, "kernel", random_state=0)
    by_view = contributions(model, rows, random_state=0)
    views = model.kernel_bank_.kernel_views_
    for view in ("signal", "noise"):
        members = [name for name, own in zip(model.kernel_names_, views, strict=True) if own == view]
        np.testing.assert_allclose(
            by_kernel["mean"].sel(part=members).sum("part"), by_view["mean"].sel(part=view)
        )


def test_moments_are_those_of_scikit_learn_at_fixed_hyperparameters():
    # scikit-learn's process of a sum of kernels; parts by its own kernels and its own weights alpha_
    first, second = ConstantKernel(1.7) * RBF(0.8), ConstantKernel(0.4) * RBF(3.0)
    other = GaussianProcessRegressor(first + second + WhiteKernel(0.09), optimizer=None, alpha=0.0).fit(X, Y)
    kernels = np.stack([RBF(0.8)(X), RBF(3.0)(X)])
    covariance = Additive(DenseStack(kernels), np.ones(2), 0.0)
    weights = np.sqrt([1.7, 0.4])
    posterior = condition(covariance.matrix(weights), Sites(np.full(30, 1 / 0.09), Y / 0.09))
    cross = np.stack([1.7 * RBF(0.8)(NEW, X), 0.4 * RBF(3.0)(NEW, X)])
    mean, cov = joint_moments(posterior, cross, np.repeat([[1.7], [0.4]], len(NEW), axis=1))
    inverse = np.linalg.inv(other.L_ @ other.L_.T)
    for m, kernel in enumerate((first, second)):
        alone = kernel(NEW, X)
        np.testing.assert_allclose(mean[m], alone @ other.alpha_, rtol=0, atol=1e-8)
        expected = kernel.diag(NEW) - np.einsum("ij,jk,ik->i", alone, inverse, alone)
        np.testing.assert_allclose(cov[:, m, m], expected, rtol=0, atol=1e-8)
    total, std = other.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean.sum(axis=0), total, rtol=0, atol=1e-8)
    np.testing.assert_allclose(cov.sum(axis=(1, 2)) + 0.09, std**2, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parts_of_nuts_sum_to_the_score():
    options = NUTS(n_chains=1, n_warmup=50, n_draws=50)
    model = BEMKLRegressor(BANK, inference=options).fit(X, Y)
    found = contributions(model, NEW, draws=True, random_state=0)
    np.testing.assert_allclose(found["score"], model.predict(NEW), rtol=0, atol=1e-10)
    assert found["draws"].sizes == {"draw": 50, "sample": 6, "part": 3}


def test_names_are_those_of_the_frame_and_the_design(fits):
    model, rows = fits("design")
    found = contributions(model, rows, n_draws=40)
    assert found["part"].values.tolist()[:4] == ["signal", "noise", "views together", "intercept"]
    assert found["kind"].values.tolist() == [
        "view", "view", "view", "intercept", "covariate", "group", "slope", "offset",
    ]  # fmt: skip
    np.testing.assert_allclose(found["mean"].sel(part="offset"), rows[:, 4])
    frame = pd.DataFrame(NEW, index=list("abcdef"))
    piped = make_pipeline(StandardScaler(), fits("process")[0])
    piped.steps[0][1].fit(X)
    assert contributions(piped, frame, n_draws=20)["sample"].values.tolist() == list("abcdef")


def test_bad_input_is_named(fits):
    model, rows = fits("process")
    with pytest.raises(TypeError, match=r"`model` must be a BEMKLClassifier.*got PCA"):
        contributions(PCA(), rows)
    with pytest.raises(ValueError, match=r"`by` must be one of"):
        contributions(model, rows, "feature")
    with pytest.raises(ValueError, match="X has 3 features"):
        contributions(model, SITES[:, :3])
    with pytest.raises(ValueError, match="`n_draws`"):
        contributions(model, rows, n_draws=1)
    product = GMKLClassifier(KernelBank(["rbf"]), combination="product").fit(X, Y > 0)
    with pytest.raises(TypeError, match='combination="product"'):
        contributions(product, rows)
    given = SimpleMKLClassifier("precomputed").fit(BANK.fit_transform(X), Y > 0)
    with pytest.raises(ValueError, match='`by` "view" needs the views of a KernelBank'):
        contributions(given, BANK.fit(X).transform(NEW), "view")


@pytest.fixture(scope="module")
def many(fits):
    return contributions(fits("process")[0], np.repeat(X, 17, axis=0)[:500], n_draws=50, random_state=0)


def test_waterfall_ends_at_the_score(many):
    ax = plot_waterfall(many, sample=3)
    bars = ax.patches
    end = bars[-1].get_x() + bars[-1].get_width()
    assert end == pytest.approx(float(many["score"][3]))
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == "score"
    one = plot_waterfall(many, sample=3, max_parts=1)
    assert one.get_yticklabels()[2].get_text() == "2 more"


def test_heat_map_orders_samples_and_parts(many):
    ax = plot_contributions(many)
    values = ax.images[0].get_array()
    assert values.shape == (500, 3)
    order = np.argsort(-many["score"].values, kind="stable")
    np.testing.assert_allclose(values[:, 0], many["mean"].sel(part="signal").values[order])
    assert ax.figure.get_size_inches()[1] * ax.figure.dpi * 0.6 > 500  # a row has a pixel of its own


def test_component_shows_mean_and_band(many):
    feature = np.repeat(X, 17, axis=0)[:500, 0]
    ax = plot_component(many, "signal", feature)
    x, y = ax.lines[0].get_data()
    assert (np.diff(x) >= 0).all()
    np.testing.assert_allclose(np.sort(y), np.sort(many["mean"].sel(part="signal")))
    assert len(ax.collections) == 1


def test_plots_name_what_is_wrong(many, fits):
    with pytest.raises(TypeError, match="`found` must be the result of `contributions`"):
        plot_contributions(3)
    with pytest.raises(ValueError, match="`sample` must be one of the 500"):
        plot_waterfall(many, sample=-1)
    parts = "'signal', 'noise', 'views together', 'intercept'"
    with pytest.raises(ValueError, match=f"`part` must be one of {parts}; got 'x'"):
        plot_component(many, "x", np.zeros(500))
    with pytest.raises(ValueError, match=r"`values` must be of shape \(500,\)"):
        plot_component(many, "signal", np.zeros(3))
    with pytest.raises(ValueError, match="`output` must be None"):
        plot_contributions(many, output=1)
    several = contributions(*fits("labels"), n_draws=20)
    with pytest.raises(ValueError, match="`output` must be one of 'high', 'low', 'middle'"):
        plot_contributions(several)
    plot_contributions(several, output="low")
    plt.close("all")


# ------------------------------------------------------------------------------------------------------- contrasts

PROCESSES = [kind for kind in CASES if kind not in ("gibbs", "simplemkl", "lpboost") and "bemkl" not in kind]
FIRST, SECOND = [0, 1, 2, 3], [0, 2, 3, 1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [*PROCESSES, "bemkl", "bemkl classes", "gibbs"])
def test_contrasts_are_differences_of_scores_and_zero_of_the_same_rows(kind, fits):
    model, rows = fits(kind)
    table = contrast(model, rows[FIRST], rows[SECOND], scale="difference", random_state=0)
    method = "predict" if hasattr(model, "y_scale_") and kind != "counts" else "predict_latent"
    score = np.asarray(getattr(model, method)(rows)) * getattr(model, "log_time_scale_", 1.0)
    difference = (score[FIRST] - score[SECOND]).T.ravel()
    np.testing.assert_allclose(table["mean"], difference, rtol=0, atol=1e-10)
    assert (table["lower"] <= table["upper"]).all()
    ends = table[["mean", "lower", "upper"]].to_numpy().reshape(-1, 4, 3)
    assert (ends[:, 0] == 0.0).all()
    assert (ends[:, 1:, 2] > ends[:, 1:, 1]).all()
    parts = contrast(model, rows[FIRST], rows[SECOND], "view", scale="difference", random_state=0)
    keys = [name for name in ("class", "output", "row") if name in parts]
    np.testing.assert_allclose(
        parts.groupby(keys)["mean"].sum().sort_values(), np.sort(difference), atol=1e-10
    )


@pytest.mark.parametrize("kind", PROCESSES)
def test_scores_of_rows_that_are_compared_have_the_variances_of_predictions(kind, fits):
    model, rows = fits(kind)
    fitted = _with_rows(model)
    named = PartNames(["score"], ["score"], np.ones((1, len(fitted.kernel_names)), dtype=bool))
    alone = _mixture(fitted, model._validate_rows(rows), np.eye(len(rows))[None], named, None)
    square = alone.std**2 + (alone.mean - alone.total_mean) ** 2
    std = np.sqrt(np.tensordot(alone.probability, square, 1))[:, 0, 0]
    expected = model.predict_latent(rows, return_std=True)[1]
    units = model.y_scale_[model._task(rows)] if kind == "tasks" else model._score_units()
    np.testing.assert_allclose(std.T.squeeze(), expected * units, rtol=1e-6)


@pytest.mark.parametrize("normalize", ["center", "spherical", ("center", "spherical"), "trace"])
def test_contrasts_at_fixed_hyperparameters_are_those_of_the_joint_formula(normalize):
    """Kernels, normalizations and the process of training and new rows by their definitions."""
    bank = KernelBank([Gaussian(width=1), Linear()], BANK.views, normalize=normalize)
    model = GPMKLRegressor(bank, together=False, inference=FEW).fit(X, 10 + 5 * Y)
    draws = model.posterior_
    model.posterior_ = draws._replace(point=np.zeros_like(draws.point), predictive=np.empty(0))
    every, total = np.vstack([X, NEW]), 9.0
    for m, own in enumerate(draws.kernel_weights[0]):
        x = every[:, m // 2]
        kernel = np.multiply.outer(x, x) if m % 2 else np.exp(-0.5 * np.subtract.outer(x, x) ** 2)
        for step in [normalize] if isinstance(normalize, str) else normalize:
            if step == "center":
                means = kernel[:, :30].mean(axis=1)
                kernel = kernel - means - means[:, None] + means[:30].mean()
            elif step == "spherical":
                kernel = kernel / np.sqrt(np.multiply.outer(kernel.diagonal(), kernel.diagonal()))
            else:
                kernel = kernel / kernel.diagonal()[:30].mean()
        train = kernel[:30, :30]
        total = total + own**2 * kernel / (train.diagonal().mean() - train.mean())
    noisy = total[:30, :30] + draws.parameters[0, 0, 0] ** 2 * np.eye(30)
    cov = total[30:, 30:] - total[30:, :30] @ np.linalg.solve(noisy, total[:30, 30:])
    weights = np.eye(6)[FIRST] - np.eye(6)[SECOND]
    std = model.y_scale_ * np.sqrt(np.einsum("cr,rs,cs->c", weights, cov, weights))
    table = contrast(model, NEW[FIRST], NEW[SECOND])
    np.testing.assert_allclose((table["upper"] - table["lower"])[1:], 2 * 1.8807936 * std[1:], rtol=1e-6)


@pytest.mark.parametrize(("kind", "unit"), [("counts", "rate ratio"), ("times", "time ratio")])
def test_ratios_are_exponentials_of_differences(kind, unit, fits):
    model, rows = fits(kind)
    ratio = contrast(model, rows[FIRST], rows[SECOND])
    difference = contrast(model, rows[FIRST], rows[SECOND], scale="difference")
    ends = ["mean", "lower", "upper"]
    np.testing.assert_allclose(ratio[ends], np.exp(difference[ends]))
    assert ratio.attrs["unit"] == unit
    assert (ratio.loc[0, ends] == 1.0).all()


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_odds_ratios_are_those_of_draws(likelihood):
    model = GPMKLClassifier(BANK, likelihood=likelihood, inference=FEW).fit(X, Y + rng.normal(size=30) > 0)
    table = contrast(model, NEW[FIRST], NEW[SECOND], scale="ratio", random_state=0)
    assert table.attrs["unit"] == "odds ratio"
    assert (table.loc[0, ["mean", "lower", "upper"]] == 1.0).all()
    difference = contrast(model, NEW[FIRST], NEW[SECOND])
    # log odds are 1.6 to 1.8 times a probit's score near one half, and more in tails
    factor = np.log(table["mean"])[1:] / difference["mean"][1:]
    assert ((factor > 1.3) & (factor < 3.0)).all() if likelihood == "probit" else np.allclose(factor, 1.0)


def test_quantiles_are_compared_with_medians(fits):
    model, _ = fits("process")
    q = [0.1, 0.5, 0.9]
    table = overall_effect(model, X, q, random_state=0)
    rows = np.quantile(X, q, axis=0)
    ends = ["mean", "lower", "upper"]
    by_hand = contrast(model, rows, np.median(X, axis=0)[None])
    np.testing.assert_allclose(table[ends], by_hand[ends], rtol=0, atol=1e-9)
    assert (table["band_lower"] <= table["lower"] + 0.1).all()
    alone = overall_effect(model, X, q, by="feature", random_state=0)
    assert alone["feature"].tolist() == ["x0"] * 3 + ["x1"] * 3
    rows[:, 1] = np.median(X[:, 1])
    by_hand = contrast(model, rows, rows[[1]])
    np.testing.assert_allclose(alone[ends][:3], by_hand[ends], rtol=0, atol=1e-9)
    one = overall_effect(model, X, q, views="signal")
    np.testing.assert_allclose(one[ends], by_hand[ends], rtol=0, atol=1e-9)
    assert (table.loc[1, ends] == 0.0).all()
    assert plot_overall_effect(table).get_ylabel().startswith("difference in units of the target")
    assert [ax.get_title(loc="left") for ax in plot_effects(alone)] == ["x0", "x1"]


def test_bands_hold_whole_curves_as_often_as_they_say(fits):
    model, _ = fits("process")
    q = np.linspace(0.05, 0.95, 9)
    found = overall_effect(model, X, q, by="feature", ci_prob=0.8, random_state=0)
    fitted, medians = _with_rows(model), np.median(X, axis=0)
    rows = np.vstack([np.column_stack([np.quantile(X[:, 0], q), np.full(9, medians[1])]), medians])
    named = PartNames(["score"], ["score"], np.ones((1, 5), dtype=bool))
    weights = (np.eye(10)[:9] - np.eye(10)[9])[None]
    drawn = _mixture(fitted, rows, weights, named, None).draw(4000, np.random.default_rng(1))[:, 0, 0, 0]
    own = found[found["feature"] == "x0"]
    inside = (drawn >= own["band_lower"].to_numpy() - 1e-6) & (drawn <= own["band_upper"].to_numpy() + 1e-6)
    assert inside.all(axis=1).mean() == pytest.approx(0.8, abs=0.03)
    assert ((own["upper"] - own["lower"]) <= (own["band_upper"] - own["band_lower"]) * 1.05 + 1e-9).all()


def test_categories_that_do_not_move_are_the_most_frequent_ones():
    """Not the median of their codes, which is "b" here."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.normal(size=30), "site": list("a" * 12 + "b" * 8 + "c" * 10)})
    y = frame["dose"] + 2.0 * frame["dose"] * (frame["site"] == "a")
    views = {"dose": ["dose"], "site": ["site"]}
    bank = KernelBank(views=views, scale=True)
    model = GPMKLRegressor(bank, inference=Marginal(n_points=100, n_draws=100, n_read="all")).fit(frame, y)
    doses = frame["dose"].quantile([0.25, 0.75, 0.5])
    low, high, middle = model.predict(pd.DataFrame({"dose": doses, "site": "a"}))
    found = overall_effect(model, frame, [0.25, 0.75], views="dose", random_state=0)
    np.testing.assert_allclose(found["mean"], [low - middle, high - middle], atol=1e-6)


def test_views_of_sparse_rows_are_compared():
    bank = KernelBank([Linear()], views={"signal": 0, "noise": 1})
    model = GPMKLRegressor(bank, inference=FEW, random_state=0).fit(csr_array(X), Y)
    found = contrast(model, csr_array(NEW[:2]), csr_array(NEW[2:4]), "view")
    pd.testing.assert_frame_equal(found, contrast(model, NEW[:2], NEW[2:4], "view"))


def test_rows_that_cannot_be_compared_are_named(fits):
    model, rows = fits("process")
    kernels = np.stack([X @ X.T], axis=-1)
    frame = pd.DataFrame(X, columns=["dose", "site"]).assign(site=["left", "right"] * 15)
    absent, _ = fits("absent views")
    cases = [
        (lambda: contrast(model, with_nan(rows), rows), "`A` must hold rows that `model` can predict.*NaN"),
        (lambda: contrast(model, rows, rows[:, :1]), "`B` must hold rows.*1 features"),
        (lambda: contrast(model, rows[:2], rows[:3]), "same number of rows.*got 2 and 3"),
        (lambda: contrast(model, rows, rows, scale="ratio"), "numbers have no ratio"),
        (lambda: contrast(fits("grades")[0], rows, rows, scale="ratio"), "grades have neither units"),
        (lambda: contrast(fits("labels")[0], rows, rows, scale="ratio"), "each class against the rest"),
        (lambda: contrast(model, rows, rows, "feature"), "`by` must be one of"),
        (
            lambda: contrast(absent, with_nan(rows, range(6)), with_nan(rows, range(6)), "view"),
            "`A` and `B` must have samples with the view 'noise'; got 12 without it",
        ),
        (lambda: overall_effect(absent, with_nan(X, range(30))), "samples with the view 'noise'"),
        (lambda: overall_effect(model, frame), "column 'site' of the view 'noise' holds categories"),
        (lambda: overall_effect(model, X, [25, 75]), "`quantiles` must be numbers from 0 to 1"),
        (lambda: overall_effect(model, X, views="genes"), "`views` must be among 'signal', 'noise'"),
        (lambda: overall_effect(fits("tasks")[0], SITES[:, [0, 1, 3]]), "must have no tasks"),
        (
            lambda: contrast(GPMKLRegressor("precomputed", inference=FEW).fit(kernels, Y), rows, rows),
            "precomputed kernels, which do not show",
        ),
        (lambda: contrast(*fits("bemkl absent views"), rows), "all views with a BEMKLRegressor"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="`table` must be the result of `overall_effect"):
        plot_effects(overall_effect(model, X, [0.25, 0.75]))
