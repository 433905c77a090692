"""Parts of scores sum to scores, and are those of other implementations."""

from __future__ import annotations

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import NUTS, Gibbs
from bayesmkl.discriminative.estimators.joint import GMKLClassifier, SimpleMKLClassifier
from bayesmkl.discriminative.estimators.two_stage import LPBoostMKLClassifier
from bayesmkl.gp import Design, Marginal
from bayesmkl.gp.conditioning import Sites, condition
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.parts import joint_moments
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import contributions, plot_component, plot_contributions, plot_waterfall

FEW = Marginal(n_points=100, n_draws=200)
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
        GPMKLRegressor(BANK, design=Design(task_column=2), inference=FEW).fit(SITES[:, [0, 1, 3]], Y),
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
    with pytest.raises(TypeError, match="`found` must be the Dataset"):
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
