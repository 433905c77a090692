r"""The models of `bayesmkl.gp` as NumPyro programs: every function value explicit, or none.

`explicit_program` has a site for every function value, so that what NUTS says of it depends on no approximation of an
integral. Its sites, of several outputs with a leading axis for them where not said otherwise:

==================  ==============================================================================================
`kernel_weights`    by their prior, (n_kernels,); deterministic where the prior is of `total` and `parts_of_total`
                    (`DirichletShares`), or of `common_scale` and `own_scales` (`Horseshoe`)
parameters          log-normal, each by its name in `Likelihood.names`, such as `noise_std` in regression
`intercept`         normal
`covariate_effects` normal, (n_covariates,): of standardized covariates, where there are some
`group_std`         half-t, (n_terms,): standard deviations of groups and random slopes
`group_effects`     normal with these, (n_levels,), one term after the other
`task_std`          log-normal, (n_tasks,): standard deviations of tasks relative to each other, where there are some
`task_root`         Cholesky factor of their correlations, (n_tasks, n_tasks); `common_correlation`, uniform, where
                    all pairs have the same
`task_correlation`  deterministic, (n_tasks, n_tasks)
`whitened`          standard normal, (n_kernels, n_samples); `Additive`: :math:`g_m = L_m z_m`, :math:`L_m L_m^\top =
                    K_m / c_m`, with an axis of tasks in front; `Weighted`: the :math:`\xi_m / \sigma_g`
`dual`              standard normal, (n_train,): `a` of `Weighted`
`parts`             deterministic, (n_kernels, n_samples): what every kernel adds to the score
`score`             deterministic, (n_samples,): their sum, and the intercept, without offsets
`kernel_shares`     deterministic, (n_kernels,), of all outputs: :math:`\operatorname{Cov}(f_m, f) /
                    \operatorname{Var}(f)`
`y`                 (n_samples,), of times (n_samples, 2): the ends of the interval that a log time lies in
==================  ==============================================================================================

What is known of targets before they are observed is data too, each (n_samples,): `offset` of scores, `trials` that
successes are counted of, `entry` of times under observation, `task` and `precision` of noise. New rows add
`whitened_new`, `score_new` and `y_new`, every row on its own, with the data `new_offset`, `new_trials` (one),
`new_entry` (none), `new_task` and `new_precision` (one); with `effects` also `unseen_effects`, standard normal
(n_rows, n_terms), of levels that no training sample is of.

`evidence_program` has the hyperparameters alone, and the evidence as its factor. Both take the place of
`bayesmkl.gp.hyperposterior` where importance sampling does not do, and check it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints, transforms
from scipy import linalg

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.arrays import Array
from bayesmkl.gp.covariances import Additive, Weighted
from bayesmkl.gp.effects import DesignRows
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import (
    DirichletShares,
    HalfT,
    Horseshoe,
    LogNormal,
    ParameterPriors,
    StudentT,
    WeightPrior,
    WithDesign,
)
from bayesmkl.gp.numpyro_priors import NumPyroPrior
from bayesmkl.gp.numpyro_targets import known_fields, target_law
from bayesmkl.gp.spike_slab import SpikeSlabOfKernels
from bayesmkl.gp.tasks import JITTER, SCALE_LOG_STD, TaskPrior, correlations, n_pairs


def explicit_program(
    model: Hypermodel,
    new_kernels: np.ndarray | None = None,
    diagonal: np.ndarray | None = None,
    design_rows: DesignRows | None = None,
) -> NumPyroProgram:
    """Return the NumPyro program of a model; a single output has no axis.

    Parameters
    ----------
    model : Hypermodel
        With a dense stack.
    new_kernels : ndarray of shape (n_kernels, n_rows, n_train), optional
        Kernels of new rows against the training samples.
    diagonal : ndarray of shape (n_kernels, n_rows), optional
        Similarities of new rows to themselves, for `Additive`.
    design_rows : DesignRows, optional
        Effects and tasks of new rows, where the covariance has some.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite.
    ValueError
        Under a spike-and-slab prior, whose discrete variables NumPyro's NUTS does not sample.
    """
    covariance = model.covariance
    if isinstance(model.kernel_prior, SpikeSlabOfKernels):
        raise ValueError(
            "`kernel_prior` must be a distribution of continuous weights for a NumPyro program; got a spike-and-slab "
            'prior. Use "horseshoe", under which most weights are small.'
        )
    outputs = () if len(model.targets) == 1 else (len(model.targets),)
    seen = known_fields(model.likelihood, model.targets if outputs else model.targets[0])
    of_new = {} if new_kernels is None else seen.of_new(new_kernels.shape[1])
    data = {"y": seen.y} | seen.given
    if covariance.effects is not None:
        data["basis"] = covariance.effects.basis
        if new_kernels is not None and design_rows is not None:
            of_new |= {"new_basis": design_rows.basis, "new_unseen": design_rows.unseen}
    if covariance.tasks is not None:
        data["task"] = covariance.tasks.task
        if new_kernels is not None and design_rows is not None and design_rows.task is not None:
            of_new["new_task"] = design_rows.task
    hyperparameters, finish = _hyperparameters(model, outputs), _finish(model, outputs)
    if isinstance(covariance, Additive):
        factors = covariance.factors()
        new = {} if new_kernels is None else _new_factors(factors, new_kernels, diagonal, covariance.units)

        def additive(
            factors: Array,
            y: Array | None = None,
            new_factors: Array | None = None,
            new_std: Array | None = None,
            **given: Array,
        ) -> None:
            drawn = hyperparameters()
            of_tasks = () if drawn.task_root is None else jnp.shape(drawn.task_root)[:1]

            def of_samples(functions: Any, task: Any) -> Any:
                if drawn.task_root is not None:
                    functions = jnp.einsum("...tmi,it->...mi", functions, drawn.task_root[task])
                return drawn.weights[:, None] * functions

            whitened = _normal("whitened", (*outputs, *of_tasks, *jnp.shape(factors)[:2]))
            parts = of_samples(jnp.einsum("mij,...mj->...mi", factors, whitened), given.get("task"))
            new_parts = None
            if new_factors is not None:
                own = new_std * _normal("whitened_new", (*outputs, *of_tasks, *jnp.shape(new_factors)[:2]))
                known = jnp.einsum("mij,...mj->...mi", new_factors, whitened)
                new_parts = of_samples(known + own, given.get("new_task"))
            finish(drawn.group_std, drawn.parameters, parts, new_parts, y, given)

        return NumPyroProgram(additive, {"factors": factors} | data, new | of_new)
    if isinstance(covariance, Weighted):
        kernels = covariance.stack.columns(slice(None))
        spread = covariance.intermediate_std

        def weighted(
            kernels: Array, y: Array | None = None, new_kernels: Array | None = None, **given: Array
        ) -> None:
            drawn = hyperparameters()
            dual = _normal("dual", (*outputs, jnp.shape(kernels)[2]))

            def parts_of(kernels: Array, name: str) -> Any:
                own = spread * _normal(name, (*outputs, *jnp.shape(kernels)[:2]))
                return drawn.weights[:, None] * (jnp.einsum("mij,...j->...mi", kernels, dual) + own)

            parts = parts_of(kernels, "whitened")
            new_parts = None if new_kernels is None else parts_of(new_kernels, "whitened_new")
            finish(drawn.group_std, drawn.parameters, parts, new_parts, y, given)

        new = {} if new_kernels is None else {"new_kernels": new_kernels}
        return NumPyroProgram(weighted, {"kernels": kernels} | data, new | of_new)
    raise TypeError(f"`covariance` must be Additive or Weighted; got {covariance!r}.")


def _new_factors(
    factors: np.ndarray, kernels: np.ndarray, diagonal: np.ndarray | None, units: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the weights of `whitened` in functions at new rows, and their standard deviation given it."""
    mixed = np.stack(
        [
            linalg.solve_triangular(factor, kernel.T / unit, lower=True).T
            if np.isfinite(unit)
            else 0.0 * kernel
            for factor, kernel, unit in zip(factors, kernels, units, strict=True)
        ]
    )
    rest = np.asarray(diagonal) / units[:, None] - np.einsum("mij,mij->mi", mixed, mixed)
    return {"new_factors": mixed, "new_std": np.sqrt(np.maximum(rest, 0.0))}


def _finish(model: Hypermodel, outputs: tuple[int, ...]) -> Callable[..., None]:
    """Return the statements from the parts of a score to its target."""
    intercept_std, likelihood = model.covariance.intercept_std, model.likelihood
    known = known_fields(likelihood, model.targets).given

    def finish(
        group_std: Any,
        parameters: list[Any],
        parts: Any,
        new_parts: Any,
        y: Array | None,
        given: dict[str, Array],
    ) -> None:
        intercept = numpyro.sample(
            "intercept", dist.Normal(0.0, intercept_std).expand(outputs).to_event(len(outputs))
        )
        own, of_new_rows = _draw_effects(model, group_std, outputs, given)
        parts = numpyro.deterministic("parts", parts)
        score = numpyro.deterministic("score", parts.sum(axis=-2) + intercept[..., None] + own)
        numpyro.deterministic("kernel_shares", _shares(parts))
        observe("y", target_law(likelihood, score, parameters, given), y)
        if new_parts is not None:
            new = numpyro.deterministic(
                "score_new", new_parts.sum(axis=-2) + intercept[..., None] + of_new_rows
            )
            of_new = {name: given[f"new_{name}"] for name in known}
            observe("y_new", target_law(likelihood, new, parameters, of_new), None)

    return finish


def _draw_effects(
    model: Hypermodel, group_std: Any, outputs: tuple[int, ...], given: dict[str, Array]
) -> tuple[Any, Any]:
    """Draw coefficients of covariates and groups; return what they add to the scores, and to those of new rows."""
    effects = model.covariance.effects
    if effects is None:
        return 0.0, 0.0
    n_covariates, coefficients = effects.n_covariates, []
    if n_covariates:
        law = dist.Normal(0.0, effects.covariate_std).expand((*outputs, n_covariates))
        coefficients.append(numpyro.sample("covariate_effects", law.to_event(len(outputs) + 1)))
    if effects.n_terms:
        of_levels = group_std[effects.term[n_covariates:]]
        law = dist.Normal(0.0, of_levels).expand((*outputs, len(of_levels)))
        coefficients.append(numpyro.sample("group_effects", law.to_event(len(outputs) + 1)))
    drawn = jnp.concatenate(coefficients, axis=-1)
    own = drawn @ given["basis"].T
    if "new_basis" not in given:
        return own, 0.0
    unseen = group_std * _normal("unseen_effects", (*outputs, *jnp.shape(given["new_unseen"])))
    return own, drawn @ given["new_basis"].T + (jnp.sqrt(given["new_unseen"]) * unseen).sum(axis=-1)


def _shares(parts: Any) -> Any:
    around = parts - parts.mean(axis=-1, keepdims=True)
    total = around.sum(axis=-2, keepdims=True)
    covariance = (around * total).sum(axis=-1).reshape(-1, parts.shape[-2]).sum(axis=0)
    return covariance / covariance.sum()


def _normal(name: str, shape: tuple[int, ...]) -> Any:
    return numpyro.sample(name, dist.Normal().expand(shape).to_event(len(shape)))


def observe(name: str, law: dist.Distribution, y: Array | None) -> None:
    """Observe targets, or draw them where there are none, in plates of outputs, if there are several, and samples."""
    with ExitStack() as plates:
        for axis, size in enumerate(law.batch_shape):
            dim = axis - len(law.batch_shape)
            plates.enter_context(
                numpyro.plate(f"{name}_{'sample' if dim == -1 else 'output'}", size, dim=dim)
            )
        numpyro.sample(name, law, obs=None if y is None else jnp.asarray(y))


def evidence_program(model: Hypermodel) -> Callable[[], None]:
    """Return the NumPyro program of the hyperparameters of a model, to be run in double precision.

    Parameters
    ----------
    model : Hypermodel
        Whose stack holds a JAX array.
    """
    log_evidence, outputs = differentiable_evidence(model), (len(model.targets),)
    hyperparameters = _hyperparameters(model, outputs)

    def program() -> None:
        drawn = hyperparameters()
        columns = jnp.stack(drawn.parameters, axis=-1) if drawn.parameters else jnp.zeros((*outputs, 0))
        weights = jnp.concatenate([drawn.weights, drawn.group_std, drawn.task_values])
        numpyro.factor("evidence", log_evidence(weights, columns))

    return program


def differentiable_evidence(model: Hypermodel) -> Callable[[Any, Any], Any]:
    """Return the log evidence of kernel weights and parameters, which JAX differentiates by its analytic gradient."""

    def evaluate(weights: Any, parameters: Any) -> tuple[Any, tuple[Any, Any]]:
        matrix = model.covariance.matrix(weights)
        found = [
            model.evidence(model.likelihood, jnp.asarray(y), matrix, own)
            for y, own in zip(model.targets, parameters, strict=True)
        ]
        adjoint = sum(output.by_covariance() for output in found)
        by_parameters = jnp.stack([output.by_parameters for output in found])
        value = sum(output.log_evidence for output in found)
        return value, (model.covariance.pull(weights, adjoint), by_parameters)

    @jax.custom_vjp
    def log_evidence(weights: Any, parameters: Any) -> Any:
        return evaluate(weights, parameters)[0]

    def backward(slopes: tuple[Any, Any], factor: Any) -> tuple[Any, Any]:
        return factor * slopes[0], factor * slopes[1]

    log_evidence.defvjp(evaluate, backward)
    return log_evidence


class _Hyperparameters(NamedTuple):
    """Kernel weights, standard deviations of groups, values of tasks and their factor, parameters of every output."""

    weights: Any
    group_std: Any
    task_values: Any
    task_root: Any
    parameters: list[Any]


def _hyperparameters(model: Hypermodel, outputs: tuple[int, ...]) -> Callable[[], _Hyperparameters]:
    """Return the statements that draw hyperparameters."""
    weight_prior, n_kernels = model.weight_prior, model.covariance.stack.n_kernels
    of_groups, of_kernels = weight_prior if isinstance(weight_prior, WithDesign) else None, model.kernel_prior
    names, given = model.likelihood.names, model.parameter_prior
    priors = given.each if isinstance(given, ParameterPriors) else (given,) * len(names)

    def draw() -> _Hyperparameters:
        weights, group_std = _weights(of_kernels, n_kernels), jnp.zeros(0)
        task_values, task_root = jnp.zeros(0), None
        if of_groups is not None:
            half = dist.FoldedDistribution(
                dist.StudentT(of_groups.group_prior.df, 0.0, of_groups.group_prior.scale)
            )
            group_std = numpyro.sample("group_std", half.expand([of_groups.n_terms]).to_event(1))
            if of_groups.task_prior is not None:
                task_values, task_root = _draw_tasks(of_groups.task_prior)
        laws = {name: law_of_parameter(prior) for name, prior in zip(names, priors, strict=True)}
        parameters = [
            numpyro.sample(name, law.expand(outputs).to_event(len(outputs))) for name, law in laws.items()
        ]
        return _Hyperparameters(weights, group_std, task_values, task_root, parameters)

    return draw


def _draw_tasks(prior: TaskPrior) -> tuple[Any, Any]:
    """Draw what relates tasks; return its values, and the Cholesky factor of the covariance of tasks."""
    n_tasks = prior.n_tasks
    std = numpyro.sample("task_std", dist.LogNormal(0.0, SCALE_LOG_STD).expand([n_tasks]).to_event(1))
    if prior.equal:
        rho = numpyro.sample("common_correlation", dist.Uniform(-1.0 / (n_tasks - 1), 1.0))
        correlation = correlations(jnp.full(n_pairs(n_tasks), rho), n_tasks)
        root = jnp.linalg.cholesky(correlation + JITTER * jnp.eye(n_tasks))
    else:
        root = numpyro.sample("task_root", dist.LKJCholesky(n_tasks, 1.0))
        correlation = root @ root.T
    numpyro.deterministic("task_correlation", correlation)
    return jnp.concatenate([std, correlation[np.tril_indices(n_tasks, -1)]]), std[:, None] * root


def law_of_parameter(prior: LogNormal) -> dist.Distribution:
    """Return the distribution of a parameter: log-normal above the least one."""
    above = transforms.AffineTransform(prior.least, 1.0, domain=constraints.positive)
    logarithm = dist.Normal(np.log(prior.median), prior.log_std)
    return dist.TransformedDistribution(logarithm, [transforms.ExpTransform(), above])


def _weights(prior: WeightPrior, n_kernels: int) -> Any:
    def each(law: dist.Distribution) -> dist.Distribution:
        return law.expand([n_kernels]).to_event(1)

    if isinstance(prior, HalfT):
        half = dist.FoldedDistribution(dist.StudentT(prior.df, 0.0, prior.scale))
        return numpyro.sample("kernel_weights", each(half))
    if isinstance(prior, StudentT):
        return numpyro.sample("kernel_weights", each(dist.StudentT(prior.df, 0.0, prior.scale)))
    if isinstance(prior, DirichletShares):
        half = dist.FoldedDistribution(dist.StudentT(prior.df, 0.0, prior.scale))
        total = numpyro.sample("total", half)
        parts = numpyro.sample("parts_of_total", dist.Dirichlet(jnp.full(n_kernels, prior.concentration)))
        return numpyro.deterministic("kernel_weights", total * jnp.sqrt(parts))
    if isinstance(prior, Horseshoe):
        size = numpyro.sample("common_scale", dist.HalfCauchy(prior.scale))
        size = size * numpyro.sample("own_scales", each(dist.HalfCauchy(1.0)))
        return numpyro.deterministic("kernel_weights", size / jnp.sqrt(1.0 + (size / prior.slab) ** 2))
    if isinstance(prior, NumPyroPrior):
        return numpyro.sample("kernel_weights", each(prior.distribution))
    raise TypeError(f"`weight_prior` must be a prior of bayesmkl.gp; got {prior!r}.")
