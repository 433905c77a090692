"""Tasks and known precisions of a design: densities by hand, degenerate cases, simulation, the explicit program."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import pandas as pd
import pytest
from gp.problems import kernels, numbers
from numpyro.infer import Predictive
from scipy import stats

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Design, Marginal
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.effects import TaskPrior, Tasks, n_pairs
from bayesmkl.gp.evidence import ep_evidence, exact_evidence, mixture_evidence, student_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, ParameterPriors, WithDesign
from bayesmkl.gp.program import explicit_program
from bayesmkl.outcomes import Gaussian, Heteroscedastic, StudentT
from bayesmkl.persistence import load_model, save_model
from bayesmkl.posterior import task_table, to_datatree

FEW, MORE = Marginal(n_points=100, n_draws=200), Marginal(n_points=300, n_draws=200)
BANK = KernelBank(["rbf"], views="each", normalize="center")
VALUES = np.array(
    [1.3, 0.7, 1.1, 0.6, -0.3, 0.2]
)  # standard deviations of three tasks, correlations of pairs
WEIGHTS, UNITS = np.array([0.8, 0.3, 0.5]), np.array([0.9, 1.2, 0.7])


def slopes_of(function, at, step=1e-6):
    return np.array([(function(at + s) - function(at - s)) / (2.0 * step) for s in step * np.eye(len(at))])


@pytest.fixture(scope="module")
def table():
    """Three tasks with units and noise of their own, two of them opposite; a view that matters, one that does not."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(90, 2)), rng.integers(0, 3, size=90)
    score = np.where(task == 2, np.cos(2.0 * X[:, 0]), np.where(task == 0, 1.0, -1.0) * np.sin(2.0 * X[:, 0]))
    scale, noise = np.array([1.0, 10.0, 3.0])[task], np.array([0.1, 3.0, 0.3])[task]
    y = scale * score + np.array([0.0, 50.0, -3.0])[task] + noise * rng.normal(size=90)
    frame = pd.DataFrame({"signal": X[:, 0], "noise": X[:, 1], "task": np.array(["x", "y", "z"])[task]})
    return frame, y


@pytest.fixture(scope="module")
def fitted(table):
    design = Design(task_column="task", task_correlation="free")
    return GPMKLRegressor(BANK, design=design, inference=MORE, random_state=0).fit(*table)


# --------------------------------------------------------------------------------------------------- the mathematics


def test_the_covariance_is_that_of_kernels_times_tasks(rng):
    _, stack = kernels(rng, 30)
    tasks = Tasks(rng.integers(0, 3, size=30), 3)
    covariance = Additive(stack, UNITS, 2.0, None, tasks)
    weights = np.concatenate([WEIGHTS, VALUES])
    correlation = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    between = (VALUES[:3, None] * VALUES[:3] * correlation)[np.ix_(tasks.task, tasks.task)]
    kernel = np.einsum("m,mij->ij", WEIGHTS**2 / UNITS, stack.columns(slice(None)))
    np.testing.assert_allclose(covariance.matrix(weights), kernel * between + 4.0, rtol=1e-12)
    root = tasks.factor(VALUES)
    np.testing.assert_allclose(root @ root.T, between, atol=1e-9)
    adjoint = rng.normal(size=(30, 30))
    adjoint += adjoint.T
    slopes = slopes_of(lambda w: np.vdot(adjoint, covariance.matrix(w)), weights)
    np.testing.assert_allclose(covariance.pull(weights, adjoint), slopes, rtol=1e-6, atol=1e-6)
    q = rng.normal(size=(30, 2))
    parts = covariance.shift_parts(weights, q)
    np.testing.assert_allclose(parts.sum(axis=0), (kernel * between) @ q, rtol=1e-10)
    duals = covariance.part_duals(weights, q[:, 0])  # task by task
    mean = np.einsum("mij,imj->i", stack.columns(slice(None)), duals[tasks.task])
    np.testing.assert_allclose(mean, (kernel * between) @ q[:, 0], rtol=1e-10)


def test_tasks_without_correlation_are_models_of_their_own_and_equal_ones_a_single_model(rng):
    X, stack = kernels(rng, 24)
    y, task = numbers(rng, X), np.repeat([0, 1], 12)
    tasks = Tasks(task, 2)

    def evidence(rows, values):
        own = type(stack)(stack.columns(slice(None))[:, rows][:, :, rows])
        covariance = Additive(own, UNITS, 1e-9, None, None if values is None else Tasks(task[rows], 2))
        weights = WEIGHTS if values is None else np.concatenate([WEIGHTS, values])
        matrix = covariance.matrix(weights)
        return exact_evidence(Gaussian(), y[rows], matrix, np.array([0.3])).log_evidence

    every, first, second = np.arange(24), np.arange(12), np.arange(12, 24)
    apart = evidence(every, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(apart, evidence(first, None) + evidence(second, None), rtol=1e-10)
    np.testing.assert_allclose(evidence(every, np.array([1.0, 1.0, 1.0])), evidence(every, None), rtol=1e-10)
    assert tasks.n_values == 3


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("n_tasks", [2, 3, 5])
def test_the_prior_of_tasks_is_pulled_back_by_its_derivatives(rng, n_tasks, equal):
    prior = TaskPrior(n_tasks, equal)
    u, gradient = rng.normal(size=prior.n_coordinates), rng.normal(size=n_tasks + n_pairs(n_tasks))
    slopes = slopes_of(lambda at: prior.values(at).values, u) @ gradient
    np.testing.assert_allclose(prior.values(u).pull(gradient), slopes, rtol=1e-6, atol=1e-8)
    far = prior.values(np.full(prior.n_coordinates, 7.9))
    assert np.isfinite(far.values).all()
    assert np.isfinite(far.pull(gradient)).all()


def test_correlation_matrices_are_uniform(rng):
    """Each correlation of T tasks is then a Beta(T / 2, T / 2) variable between -1 and 1."""
    prior = TaskPrior(4, False)
    drawn = np.array([prior.values(rng.normal(size=10)).values[4:] for _ in range(1500)])
    for rho in drawn.T:
        assert stats.kstest(0.5 * (rho + 1.0), stats.beta(2.0, 2.0).cdf).pvalue > 1e-3
    equal = TaskPrior(4, True)
    ends = [equal.values(np.array([0.0, 0.0, 0.0, 0.0, u])).values[4:] for u in (-8.0, 0.0, 8.0)]
    np.testing.assert_allclose(ends, np.array([[-1.0 / 3.0], [1.0 / 3.0], [1.0]]) * np.ones(6), atol=1e-12)


def test_noise_of_tasks_and_precisions_is_that_of_normal_densities(rng):
    y = np.stack([rng.normal(size=20), rng.integers(0, 2, size=20), rng.uniform(0.5, 4.0, size=20)])
    f, likelihood, parameters = (
        rng.normal(size=20),
        Heteroscedastic(Gaussian(), ("a", "b")),
        np.array([0.4, 1.3]),
    )
    scale = parameters[y[1].astype(int)] / np.sqrt(y[2])
    np.testing.assert_allclose(
        likelihood.log_density(y, f, parameters), stats.norm.logpdf(y[0], f, scale), rtol=1e-12
    )
    found = likelihood.derivatives(y, f, parameters)
    slopes = slopes_of(lambda p: likelihood.log_density(y, f, p), parameters)
    np.testing.assert_allclose(found.parameters, slopes, rtol=1e-6, atol=1e-8)
    slopes = slopes_of(lambda p: likelihood.derivatives(y, f, p).first, parameters)
    np.testing.assert_allclose(found.first_parameters, slopes, rtol=1e-6, atol=1e-8)
    variance = rng.uniform(0.1, 2.0, size=20)
    tilted = likelihood.tilted(y, f, variance, parameters)
    np.testing.assert_allclose(
        tilted.log_normalizer, stats.norm.logpdf(y[0], f, np.sqrt(variance + scale**2)), rtol=1e-12
    )
    slopes = slopes_of(lambda p: likelihood.tilted(y, f, variance, p).log_normalizer, parameters)
    np.testing.assert_allclose(tilted.parameters, slopes, rtol=1e-6, atol=1e-8)
    draws = rng.uniform(0.2, 1.0, size=(2, 7))
    np.testing.assert_allclose(
        likelihood.noise_variance(y, draws), (draws[y[1].astype(int)] ** 2 / y[2][:, None]).mean(axis=0)
    )
    of_draws = likelihood.log_density(y, np.ones((7, 1, 20)), draws[..., None, None])
    np.testing.assert_allclose(
        of_draws[3, 0], likelihood.log_density(y, np.ones(20), draws[:, 3]), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("likelihood", "evidence"),
    [
        (Gaussian(), exact_evidence),
        (Gaussian(), ep_evidence),
        (StudentT(), mixture_evidence),
        (StudentT(), student_evidence),
    ],
)
def test_the_evidence_of_tasks_has_the_gradient_of_finite_differences(rng, likelihood, evidence):
    X, stack = kernels(rng, 20)
    y = np.stack([numbers(rng, X), rng.integers(0, 2, size=20), rng.uniform(0.5, 4.0, size=20)])
    matrix = Additive(stack, UNITS, 2.0).matrix(WEIGHTS)
    noise = Heteroscedastic(likelihood, ("a", "b"))
    parameters = np.array([0.4, 1.3, 5.0])[: len(noise.names)]
    found = evidence(noise, y, matrix, parameters, tol=1e-11)
    slopes = slopes_of(lambda p: evidence(noise, y, matrix, p, tol=1e-11).log_evidence, parameters)
    np.testing.assert_allclose(found.by_parameters, slopes, rtol=1e-5)
    same = np.stack([y[0], np.zeros(20), np.ones(20)])
    alone = evidence(likelihood, y[0], matrix, parameters[1:], tol=1e-11)
    other = evidence(Heteroscedastic(likelihood), same, matrix, parameters[1:], tol=1e-11)
    np.testing.assert_allclose(other.log_evidence, alone.log_evidence, rtol=1e-12)


def test_a_mean_with_its_precision_says_what_its_measurements_say(rng):
    """Given the noise, means of repeated measurements have the same posterior of scores as the measurements."""
    X, stack = kernels(rng, 12)
    counts = rng.integers(1, 5, size=12)
    rows = np.repeat(np.arange(12), counts)
    measured = numbers(rng, X)[rows] + 0.5 * rng.normal(size=len(rows))
    means = np.bincount(rows, measured) / counts
    matrix = Additive(stack, UNITS, 2.0).matrix(WEIGHTS)
    each = exact_evidence(Gaussian(), measured, matrix[np.ix_(rows, rows)], np.array([0.5])).posterior
    fields = np.stack([means, np.zeros(12), counts.astype(float)])
    own = exact_evidence(Heteroscedastic(Gaussian()), fields, matrix, np.array([0.5])).posterior
    first = np.searchsorted(rows, np.arange(12))
    np.testing.assert_allclose(own.mean, each.mean[first], rtol=1e-9)
    np.testing.assert_allclose(own.variance, each.variance[first], rtol=1e-9)


@pytest.mark.heavy
def test_the_explicit_program_draws_from_the_same_prior(rng):
    X, stack = kernels(rng, 8)
    tasks = Tasks(np.arange(8) % 2, 2)
    covariance = Additive(stack, UNITS, 0.5, None, tasks)
    fields = np.stack([numbers(rng, X), tasks.task.astype(float), np.full(8, 4.0)])
    likelihood = Heteroscedastic(Gaussian(), ("a", "b"))
    prior = WithDesign(DirichletShares(), HalfT(4.0, 1.0), 0, TaskPrior(2, True))
    model = Hypermodel(
        covariance, likelihood, fields[None], prior, ParameterPriors(likelihood.priors), exact_evidence
    )
    given = {"task_std": np.array([1.3, 0.7]), "common_correlation": np.array(0.6)}
    given |= {"noise_std[a]": np.array(0.2), "noise_std[b]": np.array(1.0)}
    program = explicit_program(model)
    data = {name: values for name, values in program.data.items() if name != "y"}
    conditioned = numpyro.handlers.substitute(program.model, data=given)
    drawn = Predictive(conditioned, num_samples=4000)(jax.random.key(0), **data)
    unit = drawn["parts"] / drawn["kernel_weights"][..., None] / np.sqrt(1.0 / UNITS)[:, None]
    between = np.array([[1.69, 0.546], [0.546, 0.49]])[np.ix_(tasks.task, tasks.task)]
    for m, kernel in enumerate(stack.each()):
        np.testing.assert_allclose(np.cov(unit[:, m].T), kernel * between, atol=0.15 * np.abs(kernel).max())
    noise = np.asarray(drawn["y"] - drawn["score"]).std(axis=0)
    np.testing.assert_allclose(noise, np.array([0.1, 0.5])[tasks.task], rtol=0.05)


# ----------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.heavy
def test_tasks_are_related_as_they_were_made(fitted, table):
    frame, y = table
    pairs = task_table(fitted).set_index(["task", "other"])
    assert pairs.loc[("x", "y"), "mean"] < -0.5
    assert pairs.loc[("x", "y"), "upper"] < 0.2
    for pair in (("x", "z"), ("y", "z")):
        assert pairs.loc[pair, "lower"] < 0.0 < pairs.loc[pair, "upper"]
    of_views = task_table(fitted, shares=True).set_index(["task", "view"])["mean"]
    assert (of_views.xs("signal", level="view") > 0.95).all()
    counts = task_table(fitted, shares=True).drop_duplicates("task")["n_samples"]
    assert counts.tolist() == frame["task"].value_counts().sort_index().tolist()
    np.testing.assert_allclose(fitted.noise_std_, [0.1, 3.0, 0.3], rtol=0.6)
    mean, std = fitted.predict(frame, return_std=True)
    np.testing.assert_allclose(fitted.predict(frame), mean, rtol=1e-9)
    inside = np.abs(y - mean) < 1.96 * std
    assert inside.mean() > 0.9
    assert std[frame["task"] == "y"].min() > std[frame["task"] != "y"].max()


@pytest.mark.heavy
def test_units_of_a_task_do_not_matter(fitted, table):
    frame, y = table
    other = np.where(frame["task"] == "y", 1000.0 * y - 7.0, y)
    model = GPMKLRegressor(BANK, design=fitted.design, inference=MORE, random_state=0).fit(frame, other)
    mean, std = fitted.predict(frame, return_std=True)
    again, its_std = model.predict(frame, return_std=True)
    of_y = (frame["task"] == "y").to_numpy()
    np.testing.assert_allclose(again, np.where(of_y, 1000.0 * mean - 7.0, mean), rtol=1e-6)
    np.testing.assert_allclose(its_std, np.where(of_y, 1000.0 * std, std), rtol=1e-6)
    shift = of_y.sum() * np.log(1000.0)
    np.testing.assert_allclose(model.log_evidence_, fitted.log_evidence_ - shift, rtol=1e-8)
    np.testing.assert_allclose(model.elpd_i_.sum(), fitted.elpd_i_.sum() - shift, rtol=1e-6)


def test_files_and_trees_have_the_tasks(fitted, table, tmp_path):
    frame, _ = table
    path = tmp_path / "model.bmkl"
    save_model(fitted, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    pd.testing.assert_frame_equal(task_table(again), task_table(fitted))
    posterior = to_datatree(fitted)["posterior"]
    correlation = posterior["task_correlation"].sel(task="y", other_task="x").mean()
    np.testing.assert_allclose(correlation, task_table(fitted).loc[0, "mean"], rtol=1e-10)
    np.testing.assert_allclose(posterior["task_shares"].sum("kernel"), 1.0, rtol=1e-8)


@pytest.mark.heavy
def test_classes_have_tasks_too(table):
    frame, y = table
    positive = np.zeros(len(y), dtype=int)
    for task in "xyz":
        rows = (frame["task"] == task).to_numpy()
        positive[rows] = y[rows] > np.median(y[rows])
    design = Design(task_column="task", task_correlation="free")
    model = GPMKLClassifier(BANK, design=design, inference=FEW, random_state=0).fit(frame, positive)
    pooled = GPMKLClassifier(BANK, design=Design(group_columns="task"), inference=FEW, random_state=0).fit(
        frame, positive
    )
    assert model.elpd_i_.sum() > pooled.elpd_i_.sum() + 10.0  # one function for opposite tasks
    assert model.score(frame, positive) > 0.9


def test_known_precisions_weigh_samples(rng):
    """Half of the samples are means of a hundred measurements; a model that knows is sure of the others' noise."""
    x, n = rng.normal(size=80), np.tile([1.0, 100.0], 40)
    y = np.sin(2.0 * x) + rng.normal(size=80) / np.sqrt(n)
    X = np.column_stack([x, n])
    model = GPMKLRegressor(BANK, design=Design(precision_column=1), inference=FEW, random_state=0).fit(X, y)
    assert 0.7 < model.noise_std_ < 1.3
    std = model.predict([[0.0, 1.0], [0.0, 100.0]], return_std=True)[1]
    spread = np.sqrt(std**2 - model.predict_latent([[0.0, 1.0]], return_std=True)[1] ** 2 * model.y_scale_**2)
    np.testing.assert_allclose(spread[0] / spread[1], 10.0, rtol=1e-6)
    alike = GPMKLRegressor(BANK, inference=FEW, random_state=0).fit(x[:, None], y)
    grid = np.linspace(-1.5, 1.5, 30)
    wrong = alike.predict(grid[:, None]) - np.sin(2.0 * grid)
    right = model.predict(np.column_stack([grid, np.ones(30)])) - np.sin(2.0 * grid)
    assert (right**2).mean() < 0.5 * (wrong**2).mean()


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "design", "says"),
    [
        ({}, {"task_column": ["task", "noise"]}, "`task_column` must name one column"),
        ({"task": "x"}, {"task_column": "task"}, "at least two tasks"),
        ({"task": range(90)}, {"task_column": "task"}, "tasks of more than one training sample"),
        ({}, {"task_column": "task", "task_correlation": "some"}, "design.task_correlation` must be one of"),
        ({}, {"task_column": "task", "group_columns": "task"}, "one meaning"),
        ({"noise": 0.0}, {"precision_column": "noise", "group_columns": "task"}, "must hold positive numbers"),
        ({"noise": np.nan}, {"precision_column": "noise", "group_columns": "task"}, "NaN"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_meant_are_refused(table, change, design, says):
    frame, y = table
    with pytest.raises(ValueError, match=says):
        GPMKLRegressor(BANK, design=Design(**design), inference=FEW).fit(frame.assign(**change), y)


def test_what_has_no_tasks_or_precisions_is_refused(fitted, table):
    frame, y = table
    with pytest.raises(
        ValueError, match="tasks of training in 'task': 'x', 'y', 'z'; got 1 rows of other tasks"
    ):
        fitted.predict(frame.assign(task=["w", *frame["task"][1:]]))
    design = Design(task_column="task")
    with pytest.raises(ValueError, match="Make each output a task"):
        GPMKLRegressor(BANK, design=design, inference=FEW).fit(frame, np.column_stack([y, y]))
    design = Design(precision_column="noise", group_columns="task")
    frame = frame.assign(noise=1.0)
    with pytest.raises(ValueError, match="`precision_column` must be None except with GPMKLRegressor"):
        GPMKLClassifier(BANK, design=design).fit(frame, y > 0.0)
    with pytest.raises(
        ValueError, match="`precision_column` must be None except with normal and Student t noise"
    ):
        GPMKLRegressor(BANK, likelihood="poisson", design=design).fit(frame, np.round(np.abs(y)))
    alone = GPMKLRegressor(BANK, inference=FEW).fit(frame[["signal"]][:20], y[:20])
    with pytest.raises(ValueError, match="must have tasks in its `design`"):
        task_table(alone)
