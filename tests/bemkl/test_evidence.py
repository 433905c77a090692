"""Choice by the evidence lower bound: against exact evidence, against separate fits, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import STANDARD_ERRORS, random_kernels
from joblib import parallel_config
from scipy import integrate, stats
from scipy.special import log_ndtr, logsumexp
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLMultitaskRegressor, Gamma, select_by_elbo
from bayesmkl.kernels import Gaussian, Linear

N_SAMPLES = 10
NON_SPARSE = Gamma(1.0, 1.0)
FIXED = Gamma(1e4, 1e4)  # a precision of one, within a percent


def gaussian(X, width):
    return np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1) / width**2)


@pytest.fixture
def line(rng):
    """Points in a plane, classes by the first coordinate, one linear kernel for each coordinate."""
    X = rng.normal(size=(N_SAMPLES, 2))
    return X, np.where(X[:, 0] > 0, 1, -1), [np.outer(x, x) for x in X.T]


def stack(*kernels):
    return np.stack(kernels, axis=-1)


def elbo_of(kernels, y, **parameters):
    return (
        BEMKLClassifier("precomputed", tol=1e-8, intermediate_scale=1.0, **parameters).fit(kernels, y).elbo_
    )


# --------------------------------------------------------------------------------------------------- exact evidence


def draw_student(rng, prior, size):
    """Draw normal variables whose precisions are Gamma: sign and logarithm, as the scale has no bounds."""
    c = prior.concentration
    log_precision = np.log(rng.gamma(c + 1.0, size=size)) + np.log(rng.random(size)) / c - np.log(prior.rate)
    z = rng.standard_normal(size)
    return np.sign(z), np.log(np.abs(z)) - 0.5 * log_precision


def log_evidence(rng, kernels, y, kernel_prior=NON_SPARSE, margin=1.0, n_draws=30_000):
    """Average p(y | a, b, e) over the prior, with f and G integrated out; returns its log and standard error."""
    a, b = (np.prod([s, np.exp(log)], axis=0) for s, log in (
        draw_student(rng, NON_SPARSE, (n_draws, len(y))), draw_student(rng, NON_SPARSE, (n_draws, 1))
    ))  # fmt: skip
    sign, log_size = draw_student(rng, kernel_prior, (n_draws, kernels.shape[-1]))
    log_unit = np.maximum(log_size.max(axis=1, keepdims=True), 0.0)  # scores in units of the largest weight
    e, one = sign * np.exp(log_size - log_unit), np.exp(-log_unit)
    outputs = np.einsum("ijm,sj->sim", kernels, a, optimize=True)
    mean = (outputs @ e[:, :, None])[..., 0] + one * b
    scale = np.sqrt(one**2 + (e**2).sum(axis=1, keepdims=True))
    log_p = log_ndtr((y * mean - margin * one) / scale).sum(axis=1)
    weights = np.exp(log_p - log_p.max())
    return logsumexp(log_p) - np.log(n_draws), weights.std() / weights.mean() / np.sqrt(n_draws)


def check_first_is_best(rng, y, candidates):
    """Both orders must put the first candidate, kernels and parameters, before the second."""
    exact, errors = np.transpose([log_evidence(rng, kernels, y, **given) for kernels, given in candidates])
    bounds = np.array([elbo_of(kernels, y, **given) for kernels, given in candidates])
    assert exact[0] - exact[1] > max(1.0, STANDARD_ERRORS * np.hypot(*errors))
    assert bounds[0] > bounds[1]
    assert (bounds < exact).all()


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_kernels_rank_as_by_exact_evidence(rng, line, margin):
    X, y, (informed, noise) = line
    for kernels in ([informed, noise], [informed, gaussian(X, 1.0)]):
        check_first_is_best(rng, y, [(stack(kernel), {"margin": margin}) for kernel in kernels])


def test_priors_rank_as_by_exact_evidence(rng, line):
    _, y, (informed, _) = line
    priors = [Gamma(20.0, 20.0), Gamma(20.0, 0.2)]  # weights of about 1, and of 0.1
    check_first_is_best(rng, y, [(stack(informed), {"kernel_prior": prior}) for prior in priors])


def log_evidence_of_target(kernel, y):
    """Integrate the normal density of y given e over e ~ N(0, 1), all precisions being one."""
    eye, n = np.eye(len(y)), len(y)

    def density(e):
        cov = (1.0 + e**2) * eye + np.ones((n, n)) + e**2 * kernel @ kernel.T
        return 2.0 * stats.norm.pdf(e) * stats.multivariate_normal.pdf(y, cov=cov)

    return np.log(integrate.quad(density, 0.0, 12.0, epsabs=0.0, epsrel=1e-8)[0])


def test_widths_rank_as_by_exact_evidence_of_a_target(rng):
    X = rng.uniform(-2.0, 2.0, size=(20, 1))
    y = 3.0 * np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=20)
    widths = [0.02, 0.2, 0.5, 2.0]
    fixed = dict.fromkeys(
        ["kernel_prior", "sample_prior", "bias_prior", "intermediate_prior", "noise_prior"], FIXED
    )
    model = BEMKLRegressor(normalize_y=False, **fixed)
    found = select_by_elbo(model, {"kernels": [KernelBank(Gaussian(width=w)) for w in widths]}, X, y)
    exact = [log_evidence_of_target(gaussian(X, w), y) for w in widths]
    bounds = found.table["elbo"].sort_index()
    assert np.ptp(exact) > 6.0
    assert found.table.index.tolist() == np.argsort(exact)[::-1].tolist()
    assert (bounds < exact).all()
    assert np.ptp(exact - bounds) < 2.0  # equally tight
    assert found.best_params_["kernels"].kernels.width == widths[np.argmax(exact)]


def test_nearly_improper_priors_change_the_bound_and_not_the_evidence(rng, line):
    _, y, kernels = line
    priors = [Gamma(c, c) for c in (1e-6, 1e-10)]
    exact = [log_evidence(rng, stack(*kernels), y, prior)[0] for prior in priors]
    bounds = [elbo_of(stack(*kernels), y, kernel_prior=prior) for prior in priors]
    assert abs(exact[0] - exact[1]) < 0.05
    assert bounds[0] - bounds[1] == pytest.approx(2 * np.log(1e4), abs=0.3)  # for each of two kernels


def test_evidence_and_bound_fall_with_the_margin_whatever_the_labels(rng, line):
    _, y, (informed, _) = line
    for labels in (y, rng.permutation(y)):
        exact = [log_evidence(rng, stack(informed), labels, margin=margin)[0] for margin in (0.0, 0.5, 1.0)]
        bounds = [elbo_of(stack(informed), labels, margin=margin) for margin in (0.0, 0.5, 1.0)]
        assert (np.diff(exact) < 0.0).all()
        assert (np.diff(bounds) < 0.0).all()


def test_bound_prefers_fewer_kernels_where_the_evidence_hardly_does(rng, line):
    """What the documentation warns of: the bound is less tight for every further kernel."""
    X, y, (informed, noise) = line
    one, four = stack(informed), stack(informed, noise, gaussian(X, 1.0), gaussian(X, 0.3))
    exact = [log_evidence(rng, kernels, y)[0] for kernels in (one, four)]
    assert 0.0 < exact[0] - exact[1] < 2.0
    assert elbo_of(one, y) - elbo_of(four, y) > 4.0


def test_shared_and_separate_weights_are_bounds_of_the_same_labels(rng):
    """With weights that the prior holds at zero, shared or not, both are bounds of the same evidence."""
    y, kernels = np.repeat([0, 1, 2], 3), np.moveaxis(random_kernels(rng, 9, 2), 0, -1)
    zero = {"kernel_prior": Gamma(1e8, 1.0)}
    shared, separate = (elbo_of(kernels, y, multiclass=kind, **zero) for kind in ("shared", "one-versus-all"))
    columns = [elbo_of(kernels, y == label, **zero) for label in range(3)]
    assert separate == pytest.approx(sum(columns), rel=1e-9)
    assert shared == pytest.approx(separate, rel=1e-5)


# ---------------------------------------------------------------------------------------------------- the search


@pytest.fixture
def table(rng):
    X = rng.normal(size=(24, 2))
    return X, X[:, 0] + 0.2 * rng.normal(size=24) > 0


@pytest.mark.heavy
def test_search_equals_separate_fits(table):
    X, y = table
    banks, priors = [KernelBank(Gaussian(width=w)) for w in (1, 4)], [NON_SPARSE, Gamma(2.0, 0.1)]
    grid = [
        {"kernels": banks, "kernel_prior": priors},
        {"kernels": [KernelBank(Linear())], "intermediate_scale": [0.1]},
    ]
    model = BEMKLClassifier()
    found = select_by_elbo(model, grid, X, y)
    expected = {
        (id(bank), prior): BEMKLClassifier(bank, kernel_prior=prior).fit(X, y)
        for bank in banks
        for prior in priors
    }
    rows = found.table[found.table["kernel_prior"].notna()]
    for _, row in rows.iterrows():
        fitted = expected[id(row["kernels"]), row["kernel_prior"]]
        assert row["elbo"] == fitted.elbo_
        assert (row["converged"], row["n_iter"], row["n_kernels"]) == (fitted.converged_, fitted.n_iter_, 1)
    assert len(found.table) == 5
    assert found.table["elbo"].is_monotonic_decreasing
    assert found.table["difference"].iloc[0] == 0.0
    np.testing.assert_allclose(found.table["difference"], found.table["elbo"] - found.best_elbo_)
    best = found.best_estimator_
    assert best.elbo_ == found.best_elbo_ == found.table["elbo"].max()
    assert all(getattr(best, name) is not None for name in found.best_params_)
    assert best.predict(X[:3]).shape == (3,)
    assert not hasattr(model, "elbo_")
    assert model.kernels is None
    assert all(str(bank) in str(found) for bank in banks)


@pytest.mark.heavy
def test_parameters_of_pipelines_and_banks(table):
    X, y = table
    model = make_pipeline(StandardScaler(), PCA(), BEMKLClassifier(KernelBank(Gaussian(width=1))))
    grid = {"pca__n_components": [1, 2], "bemklclassifier__kernels__views": ["all", "each"]}
    found = select_by_elbo(model, grid, X, y)
    assert sorted(found.table["n_kernels"]) == [1, 1, 1, 2]
    again = model.set_params(**found.best_params_).fit(X, y)
    assert again[-1].elbo_ == found.best_elbo_


def test_arguments_of_fit_reach_the_candidates(rng):
    X, tasks = rng.normal(size=(30, 2)), np.repeat(["a", "b"], 15)
    y = np.where(tasks == "a", X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=30)
    model = BEMKLMultitaskRegressor(KernelBank(Linear(), views="each"))
    found = select_by_elbo(model, {"kernels__views": ["each", "all"]}, X, y, tasks=tasks)
    assert found.table["error"].tolist() == ["", ""]
    assert found.best_elbo_ == model.set_params(**found.best_params_).fit(X, y, tasks=tasks).elbo_
    assert list(found.best_estimator_.tasks_) == ["a", "b"]


@pytest.mark.heavy
def test_two_jobs_find_the_same(table):
    X, y = table
    grid = {"kernel_prior": [NON_SPARSE, Gamma(2.0, 0.1)]}
    model = BEMKLClassifier(KernelBank(Gaussian(width=1)))
    first = select_by_elbo(model, grid, X, y)
    with parallel_config("threading"):
        second = select_by_elbo(model, grid, X, y, n_jobs=2)
    assert first.table.drop(columns="seconds").equals(second.table.drop(columns="seconds"))


def test_one_failing_candidate_is_recorded(table):
    X, y = table
    grid = {"kernels": [KernelBank(Linear()), KernelBank("no such kernel")]}
    with pytest.warns(FitFailedWarning, match=r"1 of 2 candidates failed .*no such kernel"):
        found = select_by_elbo(BEMKLClassifier(), grid, X, y)
    failed = found.table.iloc[-1]
    assert failed["error"].startswith("ValueError: ")
    assert np.isnan(failed["elbo"])
    assert np.isnan(failed["difference"])
    assert "no such kernel" in str(found)
    assert found.best_params_["kernels"] is grid["kernels"][0]


def test_all_failing_candidates_are_an_error(table):
    X, y = table
    with pytest.raises(
        ValueError, match=r"all 2 candidates of `param_grid` failed: ValueError: .*`bias_prior`"
    ):
        select_by_elbo(BEMKLClassifier(), {"bias_prior": ["flat", "round"]}, X, y)


@pytest.mark.heavy
def test_one_warning_for_all_that_did_not_converge(table):
    X, y = table
    model = BEMKLClassifier(KernelBank(Gaussian(width=1)), max_iter=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = select_by_elbo(model, {"max_iter": [3, 4, 1000], "bias_prior": [NON_SPARSE]}, X, y)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert "2 of 3 candidates did not converge" in str(caught[0].message)
    assert found.table["converged"].tolist() == [True, False, False]


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("model", "grid", "expected"),
    [
        (BEMKLClassifier(), {"margin": [0.5, 1.0]}, "must not vary `margin`: .* the smallest would always win"),
        (BEMKLRegressor(), {"normalize_y": [True, False]}, "must not vary `normalize_y`: .* units"),
        (
            BEMKLMultitaskRegressor(),
            {"task_prior": ["related", "careful"]},
            "must not vary `task_prior`: the bound favors closely tied tasks",
        ),
        (BEMKLClassifier(), {"unlabeled_label": [None, -1]}, "must not vary `unlabeled_label`"),
        (BEMKLClassifier(unlabeled_label=-1), {"margin": [1.0]}, "`unlabeled_label` must be None here; got -1"),
        (BEMKLClassifier(), {"predictive": ["full", "paper"]}, "`predictive`: the bound does not depend on it"),
        (BEMKLClassifier(), {"storage": ["dense", "float32"]}, "`storage`: the bound does not depend on it"),
        (BEMKLClassifier(), {"inference": ["vb", "nuts"]}, "must have inference=\"vb\".* got 'nuts'"),
        (BEMKLClassifier(), {"multiclass": ["shared", "multinomial"]}, '`multiclass` "multinomial" with others'),
        (BEMKLClassifier(), {"kernel_prior": ["sparse", "nonsparse"]}, "not compare `kernel_prior` 'sparse'"),
        (BEMKLClassifier(), {"sample_prior": [NON_SPARSE, Gamma(0.01, 1.0)]}, "not compare `sample_prior` Gamma"),
        (
            BEMKLMultitaskRegressor(),
            {"relation": ["learned", "separate"]},
            "must not vary `relation`: .* by cross-validation",
        ),
        (
            BEMKLClassifier(kernel_prior="sparse"),
            {"multiclass": ["shared", "one-versus-all"]},
            "must not vary `multiclass` under `kernel_prior` 'sparse'",
        ),
        (SVC(), {"C": [1.0, 2.0]}, "must be a BEMKL estimator, or a pipeline that ends in one; got SVC"),
        (
            make_pipeline(PCA(), BEMKLClassifier()),
            {"bemklclassifier": [BEMKLClassifier(margin=0.0), BEMKLClassifier(margin=1.0)]},
            "must not vary `margin`",
        ),
        (
            make_pipeline(PCA(), BEMKLClassifier()),
            {"bemklclassifier": [BEMKLRegressor(), BEMKLClassifier()]},
            "of one kind; got .'BEMKLClassifier', 'BEMKLRegressor'.",
        ),
        (BEMKLClassifier(), {"kernel_piror": ["sparse"]}, "Invalid parameter 'kernel_piror'"),
    ],
)  # fmt: skip
def test_what_does_not_compare_is_refused_before_any_fit(model, grid, expected):
    with pytest.raises(ValueError, match=expected):
        select_by_elbo(model, grid, np.empty((0, 2)), [])


@pytest.mark.heavy
def test_scale_free_priors_compare_among_as_many_kernels_only(table):
    X, y = table
    model = BEMKLClassifier(kernel_prior="sparse", max_iter=20, tol=0.0)
    one, other, two = KernelBank(Linear()), KernelBank(Gaussian(width=1)), KernelBank(Linear(), views="each")
    assert len(select_by_elbo(model, {"kernels": [one, other]}, X, y).table) == 2
    with pytest.raises(
        ValueError, match=r"the same number of kernel weights under `kernel_prior` 'sparse'; got 1 and 2"
    ):
        select_by_elbo(model, {"kernels": [one, two]}, X, y)
