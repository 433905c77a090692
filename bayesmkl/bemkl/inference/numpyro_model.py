r"""BEMKL as NumPyro programs (Gönen 2012, §§3, 5.1): classification and regression.

`literal_model` is the paper's generative story, one sample site per variable (normal distributions by mean and
variance)::

    λ_i ~ Gamma,   a_i | λ_i ~ N(0, 1/λ_i)                sample_precision, dual
    γ   ~ Gamma,   b | γ     ~ N(0, 1/γ)                  intercept_precision, intercept
    ω_m ~ Gamma,   e_m | ω_m ~ N(0, 1/ω_m)                kernel_precision, kernel_weights
    g_mi | a ~ N(k_mi' a, 1/υ)                            intermediate (υ: intermediate_precision)
    classification:  f_i | b, e, g ~ N(e' g_i + b, 1),  y_i | f_i ~ 1{y_i f_i > ν};   1/υ = σ_g² is known
    regression:      y_i | b, e, g ~ N(e' g_i + b, 1/ε),  υ, ε ~ Gamma                 (ε: noise_precision)

`collapsed_model` has the same posterior of (a, b, e), and of (υ, ε) in regression, with everything else integrated
out, so that a sampler meets N + P + 1 variables in the place of N P + 3 N + 2 P + 2:

* A normal variable whose precision is Gamma(c, r) is marginally Student t with 2c degrees of freedom and scale
  ``sqrt(r / c)``: λ, γ and ω are gone.
* Given a, the columns of G are independent and e' g_i ~ N(Σ_m e_m k_mi' a, e'e / υ). With m_i = Σ_m e_m k_mi' a + b

      f_i | a, b, e ~ N(m_i, s²),     s² = 1 + σ_g² e'e
      p(y_i | a, b, e) = P(y_i f_i > ν) = Φ((y_i m_i - ν) / s)        in classification
      y_i | a, b, e, υ, ε ~ N(m_i, 1/ε + e'e / υ)                     in regression
      p(y_i = k | a, b, e, c) = Φ((c_k - m_i) / s) - Φ((c_{k-1} - m_i) / s)         of grades,

whose distances of cut points, which the closed-form updates learn without a prior, are log-normal here.

Several outputs, classes or targets, have their own a, b, υ and ε, and e in common: a product of such likelihoods.

Both leave the posterior as it is under (a, e) -> (-a, -e). For ν > 0 the likelihood of classification does not sum
to one over y: a score within the margin belongs to no label, and such scores carry no probability.

Every call of NumPyro runs inside `numpyro_session`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.truncated_normal import log_normal_cdf, truncated_moments
from bayesmkl.bemkl.inference.runs import check_can_sample
from bayesmkl.bemkl.models.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.models.model import Problem
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.outcomes import Classes, Grades, Intervals
from bayesmkl.gp.numpyro_program import law_of_parameter, observe
from bayesmkl.gp.numpyro_targets import Grade, signs
from bayesmkl.kernels.stacks.dense import DenseStack


def literal_model(problem: Problem) -> None:
    """Sample every variable of the paper's generative story and observe the labels or targets.

    Parameters
    ----------
    problem : Problem
        Of labels or numbers of one output.
        Its numbers may be traced: pass it through ``jax.jit`` as an argument.

    Raises
    ------
    TypeError
        When the prior on the kernel weights is not a Gamma prior on their precisions.

    Notes
    -----
    Sites: sample_precision, dual (N,); intercept_precision, intercept (); kernel_precision, kernel_weights (P,);
    intermediate (P, N); y (N,); latent (N,) in classification; intermediate_precision and noise_precision () in
    regression.
    """
    priors, stack = problem.priors, problem.stack
    if not isinstance(priors.kernel, Gamma):
        raise TypeError(
            f"the kernel prior of `literal_model` must be a Gamma prior on precisions; got {priors.kernel!r}. "
            "Use `collapsed_model` for other priors."
        )
    dual = _normal_gamma("dual", "sample_precision", priors.sample, (stack.n_train,))
    intercept = _normal_gamma("intercept", "intercept_precision", priors.intercept, ())
    weights = _normal_gamma("kernel_weights", "kernel_precision", priors.kernel, (stack.n_kernels,))
    if problem.outcome.has_noise:
        intermediate_precision = numpyro.sample(
            "intermediate_precision", dist.Gamma(*problem.priors.intermediate)
        )
    else:
        intermediate_precision = problem.intermediate_precision
    intermediate = numpyro.sample(
        "intermediate", dist.Normal(stack.apply(jnp.asarray(dual)), intermediate_precision**-0.5).to_event(2)
    )
    mean = weights @ intermediate + intercept
    if problem.outcome.has_noise:
        noise_precision = numpyro.sample("noise_precision", dist.Gamma(*problem.priors.noise))
        law: dist.Distribution = dist.Normal(mean, noise_precision**-0.5)
    else:
        latent = numpyro.sample("latent", dist.Normal(mean, 1.0).to_event(1))
        law = BeyondMargin(latent, problem.outcome.margin)
    with numpyro.plate("sample", stack.n_rows):
        numpyro.sample("y", law, obs=problem.y)


def collapsed_model(problem: Any) -> None:
    """Sample a, b and e, and in regression υ and ε, with everything else integrated out; observe y.

    Parameters
    ----------
    problem : Problem
        Of labels, numbers or grades.
        Its numbers may be traced: pass it through ``jax.jit`` as an argument. The prior ``problem.priors.kernel`` is
        a Gamma on the precisions of the kernel weights, or a Dirichlet or SpikeSlab on the weights.

    Notes
    -----
    Sites: dual (N,), intercept (), kernel_weights (P,), y (N,); intermediate_precision and noise_precision () in
    regression. Under SpikeSlab kernel_weights is the product of the sites kernel_inclusion (P,), of zeros and ones,
    and slab_weights (P,). The log density of y at given parameters has shape (N,): log p(y_i | a, b, e).

    Grades are counted from 0, and have a site distances (n_levels - 2,) unless the problem knows them.

    Of problems with several outputs, all sites but those of the kernel weights have a leading axis of outputs.
    """
    _collapsed(problem, problem.stack, problem.y.shape[:-1], _observed(problem))


def _observed(problem: Any) -> Any:
    """Return targets as their law has them: grades from 0."""
    return problem.y - 1.0 if isinstance(problem.outcome, Grades) else problem.y


class _Drawn(NamedTuple):
    """What the statements of the collapsed model have drawn, and the law of targets with given mean scores."""

    dual: Any
    intercept: Any
    kernel_weights: Any
    projection: Any
    law: Callable[[Any], dist.Distribution]

    def score(self, projection: Any) -> Any:
        """Return mean scores m_i, (N,) or (K, N)."""
        return (jnp.tensordot(self.kernel_weights, projection, 1) + self.intercept).T


def _collapsed(problem: Any, stack: Any, outputs: tuple[int, ...], y: Array | None) -> _Drawn:
    priors = problem.priors

    def each(law: dist.Distribution) -> dist.Distribution:
        return law.expand(outputs).to_event(len(outputs))

    dual_law = _student_t(priors.sample).expand([*outputs, stack.n_train])
    dual = numpyro.sample("dual", dual_law.to_event(1 + len(outputs)))
    intercept = numpyro.sample("intercept", each(_student_t(priors.intercept)))
    weights = _kernel_weights(priors.kernel, stack.n_kernels)
    projection = stack.apply(jnp.asarray(dual).T)  # (P, N), with several outputs (P, N, K)
    square = weights @ weights
    law: Callable[[Any], dist.Distribution]
    if problem.outcome.has_noise:
        intermediate_precision = numpyro.sample(
            "intermediate_precision", each(dist.Gamma(*priors.intermediate))
        )
        noise_precision = numpyro.sample("noise_precision", each(dist.Gamma(*priors.noise)))
        scale = jnp.sqrt(1.0 / noise_precision + square / intermediate_precision)
        law = partial(dist.Normal, scale=scale[..., None])
    else:
        scale = jnp.sqrt(1.0 + square / problem.intermediate_precision)
        law = (
            _law_of_grades(problem.outcome, scale)
            if isinstance(problem.outcome, Grades)
            else partial(MarginalLabel, scale=scale, margin=problem.outcome.margin)
        )
    drawn = _Drawn(dual, intercept, weights, projection, law)
    observe("y", law(drawn.score(projection)), y)
    return drawn


def _law_of_grades(grades: Grades, scale: Array) -> Callable[[Any], dist.Distribution]:
    """Return the law of grades, from 0, with given mean scores, at the cut points of the problem or drawn ones."""
    likelihood, distances = grades.likelihood, grades.distances
    if distances is None:
        prior = law_of_parameter(likelihood.distance_prior).expand([len(grades.cut_slopes) - 1]).to_event(1)
        distances = numpyro.sample("distances", prior)
    return lambda score: Grade(score / scale, distances[:, None] / scale, likelihood)


def numpyro_program(problems: Sequence[Any], new_kernels: Sequence[np.ndarray] = ()) -> NumPyroProgram:
    """Return the collapsed model of training kernels and targets as a program of its own.

    Parameters
    ----------
    problems : sequence of one problem
        Whose stack is dense; see `collapsed_model`.
    new_kernels : sequence of ndarray of shape (n_kernels, n_rows, n_train), optional
        Kernels of new rows against the training samples, in blocks of rows.

    Raises
    ------
    ValueError
        If there are several problems, or one without such a program; and for priors that cannot be sampled.

    Notes
    -----
    Sites are those of `collapsed_model`, and deterministic ones: score (N,), the mean score m_i, and kernel_shares
    (P,). New rows add score_new and y_new.
    """
    problem, *others = problems
    if others:
        raise ValueError(
            '`multiclass` must be "shared": under "one-versus-all" there are '
            f"{len(problems)} models, one for each class, and no NumPyro program of them all. For that of one class, "
            "pass labels that say who belongs to it."
        )
    if isinstance(problem.outcome, Classes | Intervals):
        raise ValueError(
            '`multiclass` must be "shared" or "one-versus-all": of "multinomial" there is no NumPyro program.'
        )
    if not problem.outcome.has_noise and (problem.y == 0.0).any():
        raise ValueError(
            "`unlabeled_label`: samples without a label have no NumPyro program. Leave them out of `X` and `y`."
        )
    check_can_sample(problem, "`numpyro_model`")
    stack: Any = problem.stack
    kernels, outputs = stack.columns(slice(None)), problem.y.shape[:-1]
    nothing: Any = None
    settings = problem._replace(stack=nothing, gram=None, y=None)

    def collapsed(kernels: Array, y: Array | None = None, new_kernels: Array | None = None) -> None:
        drawn = _collapsed(settings, DenseStack(jnp.asarray(kernels)), outputs, y)
        numpyro.deterministic("score", drawn.score(drawn.projection))
        numpyro.deterministic("kernel_shares", _shares(drawn.projection, drawn.kernel_weights))
        if new_kernels is not None:
            new = DenseStack(jnp.asarray(new_kernels)).apply(drawn.dual.T)
            score = numpyro.deterministic("score_new", drawn.score(new))
            observe("y_new", drawn.law(score), None)

    new = {"new_kernels": np.concatenate(new_kernels, axis=1)} if len(new_kernels) else {}
    return NumPyroProgram(collapsed, {"kernels": kernels, "y": _observed(problem)}, new)


def _shares(projection: Any, weights: Any) -> Any:
    """Return the part of every kernel in the spread of scores, of all outputs together; see `reading.shares`."""
    variance = projection.var(axis=1)
    spread = jnp.abs(weights) * jnp.sqrt(variance if variance.ndim == 1 else variance.mean(axis=-1))
    return spread / spread.sum()


def _normal_gamma(name: str, precision_name: str, prior: Gamma, shape: tuple[int, ...]) -> Any:
    """Sample Gamma precisions, then zero-mean normal variables that have them."""
    law = dist.Gamma(*prior).expand(shape).to_event(len(shape))
    precision = numpyro.sample(precision_name, law)
    return numpyro.sample(name, dist.Normal(0.0, precision**-0.5).to_event(len(shape)))


def _student_t(prior: Gamma) -> dist.Distribution:
    """Return the marginal law of a zero-mean normal variable whose precision has this prior."""
    return dist.StudentT(2.0 * prior.concentration, 0.0, (prior.rate / prior.concentration) ** 0.5)


def _kernel_weights(prior: Gamma | Dirichlet | SpikeSlab, n_kernels: int) -> Any:
    if isinstance(prior, Gamma):
        return numpyro.sample("kernel_weights", _student_t(prior).expand([n_kernels]).to_event(1))
    if isinstance(prior, Dirichlet):
        concentration = jnp.broadcast_to(jnp.asarray(prior.concentration), (n_kernels,))
        return numpyro.sample("kernel_weights", dist.Dirichlet(concentration))
    with numpyro.plate("kernel", n_kernels):
        inclusion = numpyro.sample("kernel_inclusion", dist.Bernoulli(prior.inclusion))
        slab = numpyro.sample("slab_weights", dist.Normal(0.0, prior.scale))
    return numpyro.deterministic("kernel_weights", inclusion * slab)


class BeyondMargin(dist.Distribution):
    """Label of a known score: the indicator ``y * score > margin``, which is not normalized over y.

    Parameters
    ----------
    score : array
        f.
    margin : float
        ν.

    Notes
    -----
    `sample` returns the side of the score: -1.0 or +1.0, and 0.0, which is no label, within the margin.
    """

    arg_constraints: ClassVar = {"score": constraints.real, "margin": constraints.nonnegative}
    support = signs

    def __init__(self, score: Array, margin: Array | float, *, validate_args: bool | None = None) -> None:
        self.score, self.margin = score, margin
        super().__init__(jnp.shape(score), validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """Return the side of the score; nothing about it is random."""
        side = jnp.where(jnp.abs(self.score) > self.margin, jnp.sign(self.score), 0.0)
        return jnp.broadcast_to(side, sample_shape + self.batch_shape)

    def log_prob(self, value: Array | float) -> Any:
        """Return 0 where the score lies beyond the margin on the side of `value`, -inf elsewhere."""
        return jnp.where(value * self.score > self.margin, 0.0, -jnp.inf)


class MarginalLabel(dist.Distribution):
    r"""Label of a normal score: ``p(y) = P(y f > margin)`` for f ~ N(loc, scale²), not normalized over y.

    Parameters
    ----------
    loc, scale : arrays
        Mean and standard deviation of the score.
    margin : float
        ν.

    Notes
    -----
    `log_prob` is :math:`\log\Phi((ym - \nu)/s)`, m and s being `loc` and `scale`, exact in both tails. `sample`
    draws from the law of a label that was observed: -1.0 and +1.0 with probabilities in the ratio
    :math:`\Phi((-m - \nu)/s) : \Phi((m - \nu)/s)`.

    Examples
    --------
    >>> from bayesmkl._utils.numpyro_session import numpyro_session
    >>> with numpyro_session():
    ...     MarginalLabel(0.5, 2.0, margin=0.5).log_prob(1.0).item()
    -0.6931471805599453
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "margin": constraints.nonnegative,
    }
    support = signs

    def __init__(
        self, loc: Array, scale: Array, margin: Array | float, *, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.margin = loc, scale, margin
        shape = jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(scale))
        super().__init__(shape, validate_args=validate_args)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw labels as they are observed, none of them within the margin."""
        log_odds = self.log_prob(1.0) - self.log_prob(-1.0)
        positive = dist.Bernoulli(logits=log_odds).sample(key, sample_shape)
        return jnp.where(positive == 1, 1.0, -1.0)

    def log_prob(self, value: Array | float) -> Any:
        """Return the log probability that the score lies beyond the margin on the side of `value`."""
        return _log_normal_cdf(jnp.asarray(value * self.loc - self.margin) / self.scale)


@jax.custom_jvp
def _log_normal_cdf(z: Array) -> Any:
    """`log_normal_cdf` whose derivative φ(z)/Φ(z) compiles four times as fast as that of the continued fraction."""
    return log_normal_cdf(z)


@_log_normal_cdf.defjvp
def _log_normal_cdf_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    z, direction = *primals, *tangents
    mean_above_cut = truncated_moments(z, 1.0, 0.0).mean  # z + φ(z)/Φ(z)
    return _log_normal_cdf(z), (mean_above_cut - z) * direction
