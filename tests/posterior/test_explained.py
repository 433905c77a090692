"""Effects, explained variance and the page of a summary: against draws, each other, and what is known of the data."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLSurvival, Gibbs
from bayesmkl.bemkl.draws import score_means, score_scales
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.posterior import kernel_table, plot_kernel_weights, plot_views, summary, view_table
from bayesmkl.posterior.explained import explained_draws
from bayesmkl.posterior.fitted import fitted_bemkl

FEW = Marginal(n_points=100, n_draws=200)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
SCORE = X[:, 0] - X[:, 1]
Y = SCORE + 0.5 * RNG.normal(size=60)
VIEWS = {"signal": [0, 1], "noise": [2, 3]}
TIMES = np.rec.fromarrays([RNG.random(60) < 0.7, np.exp(Y)], names="event,time")


def bank(**options):
    return KernelBank(["linear", "rbf"], views=VIEWS, **options)


@pytest.fixture(scope="module")
def model():
    return GPMKLRegressor(bank(), inference=FEW, random_state=0).fit(X, Y)


def sizes_of(model, **options):
    fitted = fitted_bemkl(model)
    return explained_draws(fitted, fitted.kernel_groups(None), **options)


def test_draws_of_a_process_are_those_of_its_scores(model):
    (found,), draws = sizes_of(model), model.posterior_
    variance, noise = draws.score[:, 0].var(axis=1), draws.parameters[draws.point, 0, 0] ** 2
    np.testing.assert_allclose(found.explained[:, -2], variance / (variance + noise))
    np.testing.assert_allclose(found.effect[:, -2], model.y_scale_ * np.sqrt(variance))
    np.testing.assert_allclose(found.effect[:, -1], model.y_scale_ * np.sqrt(noise))
    np.testing.assert_allclose(found.explained[:, :-1].sum(axis=1), 2.0 * found.explained[:, -2])
    np.testing.assert_allclose(found.explained[:, -2:].sum(axis=1), 1.0)
    np.testing.assert_allclose(found.explained[:, :-2], found.share * found.explained[:, -2:-1])


def test_parts_of_views_are_sums_of_those_of_kernels(model):
    """Variances of independent parts would add up; those of a posterior draw do up to covariances."""
    found = model.posterior_.variances[:, 0]
    assert found.shape == (200, 5 + 3 + 1)
    np.testing.assert_allclose(found[:, 4], found[:, 7])  # views together are one kernel
    of_kernels, of_views = np.sqrt(found[:, :4]), np.sqrt(found[:, 5:7])
    for v in range(2):
        pair = of_kernels[:, 2 * v : 2 * v + 2]
        assert (of_views[:, v] <= pair.sum(axis=1) + 1e-12).all()
        assert (of_views[:, v] >= np.abs(pair[:, 0] - pair[:, 1]) - 1e-12).all()


def test_kernels_in_work_one_by_one_have_the_same_parts(model, monkeypatch):
    monkeypatch.setattr("bayesmkl.gp.reading.AT_ONCE", 1)
    again = GPMKLRegressor(bank(), inference=FEW, random_state=0).fit(X, Y)
    np.testing.assert_allclose(again.posterior_.variances, model.posterior_.variances, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_draws_of_bemkl_are_those_of_its_mean_scores():
    for kind, y in ((BEMKLRegressor, Y), (BEMKLClassifier, Y > 0.0)):
        model = kind(bank(), inference=Gibbs(n_chains=2, n_warmup=20, n_draws=20), random_state=0).fit(X, y)
        (found,), draws = sizes_of(model), model.posterior_.flat()
        variance = score_means(fitted_bemkl(model).training_stack(), draws).var(axis=1)
        scale = None if kind is BEMKLRegressor else model.intermediate_scale_**-2
        noise, unit = score_scales(draws, scale) ** 2, getattr(model, "y_scale_", 1.0)
        np.testing.assert_allclose(found.explained[:, -2], variance / (variance + noise))
        np.testing.assert_allclose(found.effect[:, -2], unit * np.sqrt(variance))
        np.testing.assert_allclose(found.explained[:, :-2].sum(axis=1), found.explained[:, -2])


OUTCOMES = {
    "probit": (GPMKLClassifier, {}, Y > 0.0, "standard deviations of a probit", 1.0),
    "logit": (GPMKLClassifier, {"likelihood": "logit"}, Y > 0.0, "log odds", np.pi / np.sqrt(3.0)),
    "grades": (
        GPMKLOrdinalClassifier,
        {},
        np.digitize(Y, [-1.0, 1.0]),
        "standard deviations of a probit",
        1.0,
    ),
    "counts": (
        GPMKLRegressor,
        {"likelihood": "poisson"},
        RNG.poisson(np.exp(0.5 * SCORE)),
        "log rates",
        None,
    ),
    "times": (GPMKLSurvival, {}, TIMES, "log times", None),
    "hazards": (
        GPMKLSurvival,
        {"likelihood": "piecewise-hazard"},
        TIMES,
        "log hazards",
        np.pi / np.sqrt(6.0),
    ),
    "classes": (GPMKLClassifier, {}, np.digitize(Y, [-1.0, 1.0]), "standard deviations of a probit", 1.0),
    "targets": (GPMKLRegressor, {}, np.column_stack([Y, 9.0 * Y]), "standard deviations of the target", None),
    "variational times": (BEMKLSurvival, {}, TIMES, "log times", None),
}


@pytest.mark.heavy
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_a_table_a_picture_and_a_page(outcome):
    kind, options, y, unit, noise = OUTCOMES[outcome]
    options = options if kind is BEMKLSurvival else options | {"inference": FEW}
    model = kind(bank(), random_state=0, **options).fit(X, y)
    table = view_table(model)
    assert table["view"].tolist()[0] == "signal"
    assert table["view"].tolist()[-2:] == ["all views", "not explained"]
    assert f"in {unit};" in table.attrs["caption"]
    assert table["explained"].iloc[-2:].sum() == pytest.approx(1.0)
    assert table["explained"].iloc[:-2].sum() == pytest.approx(table["explained"].iloc[-2])
    assert (table["effect_lower"] >= 0.0).all()
    if noise is not None:
        assert table["effect"].iloc[-1] == pytest.approx(noise)
    assert len(plot_views(model).get_yticklabels()) == len(table)
    page = summary(model)
    assert f"Effects are in {unit}." in page.lines
    assert 10 <= len(page.lines) <= 17


def test_numbers_have_the_effects_that_they_were_made_with(model):
    table = view_table(model).set_index("view")
    assert table.columns.tolist()[:7] == [
        *(
            "effect",
            "effect_lower",
            "effect_upper",
            "explained",
            "explained_lower",
            "explained_upper",
            "verdict",
        )
    ]
    truth = {"signal": SCORE.std(), "all views": SCORE.std(), "not explained": 0.5}
    for view, size in truth.items():
        assert table.loc[view, "effect_lower"] < size < table.loc[view, "effect_upper"]
    r2 = SCORE.var() / (SCORE.var() + 0.25)
    assert table.loc["all views", "explained_lower"] < r2 < table.loc["all views", "explained_upper"]
    assert table.loc["noise", "explained_upper"] < 0.1
    assert "share" not in table
    with_shares = view_table(model, shares=True)
    assert with_shares["share"].sum() == pytest.approx(1.0)
    assert with_shares["share"].isna().tolist() == [False] * 3 + [True] * 2
    assert table.loc["all views", "verdict"] == "clear"
    of_kernels = kernel_table(model)
    assert of_kernels["explained"].sum() == pytest.approx(table.loc["all views", "explained"])


def test_what_covariates_leave_is_explained():
    y = Y + 5.0 * X[:, 3]
    views = {"signal": [0, 1], "noise": [2]}
    model = GPMKLRegressor(
        KernelBank(["rbf"], views=views), inference=FEW, design=Design(covariate_columns=3)
    )
    table = view_table(model.fit(X, y)).set_index("view")
    assert table.loc["all views", "effect_lower"] < SCORE.std() < table.loc["all views", "effect_upper"]
    assert "what covariates and groups leave of it" in table.attrs["caption"]


def test_landmarks_and_absent_views_have_tables():
    gaps = X.copy()
    gaps[:10, 2:] = np.nan
    for options, rows in (({"landmarks": 30}, X), ({}, gaps)):
        missing = {} if rows is X else {"missing_views": "integrate"}
        model = GPMKLRegressor(bank(**options), inference=FEW, random_state=0, **missing).fit(rows, Y)
        table = view_table(model).set_index("view")
        assert table.loc["signal", "explained"] > 0.6
        assert table.loc["all views", "explained_upper"] < 1.0
        assert "can be trusted" in str(summary(model)) or "wanted" in str(summary(model))


def test_what_was_not_tested_is_no_open_question():
    few = Marginal(n_points=200, n_draws=200)
    selected = GPMKLRegressor(bank(), kernel_prior="spike-slab", inference=few, random_state=0).fit(X, Y)
    assert "use `inclusion_table(model)`" in " ".join(summary(selected).sentences)
    variational = " ".join(summary(BEMKLSurvival(bank(), max_iter=2000).fit(X, TIMES)).sentences)
    assert "Fit a GPMKLSurvival" in variational
    assert not any(other in variational for other in ("relevance", "diagnose", "GPMKLRegressor", "refine"))


def test_grades_are_counted_in_their_order():
    grades = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]
    model = GPMKLOrdinalClassifier(bank(), levels=["low", "mid", "high"], inference=FEW, random_state=0)
    assert re.search(
        r"grades low \(\d+\), mid \(\d+\), high \(\d+\);", summary(model.fit(X, grades)).lines[0]
    )


@pytest.mark.parametrize("name", ["all views", "not explained", "views together"])
def test_views_are_not_called_as_other_rows_of_tables(name):
    with pytest.raises(ValueError, match=f"`views` must not have the name '{name}'"):
        GPMKLRegressor(views={name: [0], "other": [1]}).fit(X, Y)
    with pytest.raises(ValueError, match=f"`kernel_views` must not have the name '{name}'"):
        GPMKLRegressor("precomputed", kernel_views=[name, "b"]).fit(np.stack([X @ X.T] * 2, axis=2), Y)


def test_a_view_that_offsets_others_is_told_in_words(model):
    draws = model.posterior_
    shares = np.column_stack([draws.shares[:, :2] + 0.3, draws.shares[:, 2:4] - 0.3, draws.shares[:, 4:]])
    kept, model.posterior_ = draws, draws._replace(shares=shares)
    try:
        table = view_table(model)
        assert "noise offsets other views" in table.attrs["caption"]
        assert table.set_index("view").loc["noise", "explained_upper"] < 0.0
    finally:
        model.posterior_ = kept


def test_titles_claim_what_intervals_support(model):
    table = view_table(model).set_index("view").loc["all views"]
    ends = f"{100 * table['explained_lower']:.0f} to {100 * table['explained_upper']:.0f} %"
    assert plot_views(model).get_title(loc="left") == f"All views explain {ends} of the variance"
    y = np.random.default_rng(4).normal(size=60)
    nothing = GPMKLRegressor(bank(), inference=FEW, random_state=0).fit(X, y)
    table = view_table(nothing)
    assert table["explained_lower"].iloc[-2] < 0.01
    assert plot_views(nothing).get_title(loc="left") == "No evidence that views explain anything"
    assert "explains at most" in plot_kernel_weights(nothing).get_title(loc="left")
    assert table.attrs["headline"].split(" ")[0] in ("No", "Evidence")
    assert table.attrs["headline"] in str(summary(nothing)).replace("\n", " ")
