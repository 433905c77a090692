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

**NUTS** works on softened variables: a Student t variable x (a_i, b, e_m) is written x = w + w³/6. In x itself the
heavy tails make trajectories long; through a normal quantile function, or with its precision as a variable, x grows
exponentially and the likelihood becomes too stiff for one step size. The cubic keeps both within bounds.

The two mirror images (a, e) and (-a, -e), and what little is known of the scale (c a, e / c), stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import (
    NUTS,
    DiscreteHMCGibbs,
)
from numpyro.infer.reparam import Reparam

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.truncated_normal import log_normal_cdf, truncated_moments
from bayesmkl._utils.devices import numpyro_session
from bayesmkl._utils.options import NUTS as NUTSOptions
from bayesmkl.bemkl.ascent import check_can_sample
from bayesmkl.bemkl.gibbs import Chains, run_chains
from bayesmkl.bemkl.model import Problem
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab
from bayesmkl.gp.program import Grade, law_of_parameter, observe, signs
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Grades


def literal_model(problem: Problem) -> None:
    """Sample every variable of the paper's generative story and observe the labels or targets.

    Parameters
    ----------
    problem : Problem
        Of labels or numbers of one output, with a Gamma prior on the precisions of the kernel weights.
        Its numbers may be traced: pass it through ``jax.jit`` as an argument.

    Notes
    -----
    Sites: sample_precision, dual (N,); intercept_precision, intercept (); kernel_precision, kernel_weights (P,);
    intermediate (P, N); y (N,); latent (N,) in classification; intermediate_precision and noise_precision () in
    regression.
    """
    priors, stack = problem.priors, problem.stack
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
        For priors that cannot be sampled.

    Notes
    -----
    Sites are those of `collapsed_model`, and deterministic ones: score (N,), the mean score m_i, and kernel_shares
    (P,). New rows add score_new and y_new.
    """
    (problem,) = problems
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
    """Return the part of every kernel in the spread of scores, of all outputs together; see `draws`."""
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
    >>> from bayesmkl._utils.devices import numpyro_session
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


# --------------------------------------------------------------------------------------------------------------- NUTS


STATISTICS = {
    "diverging": "diverging",
    "acceptance_rate": "accept_prob",
    "n_steps": "num_steps",
    "energy": "energy",
}


class CubicTransform(dist.transforms.ParameterFreeTransform):
    """x = w + w³/6, a bijection of the real line.

    Examples
    --------
    >>> with numpyro_session():
    ...     CubicTransform()(3.0)
    7.5
    """

    domain = constraints.real
    codomain = constraints.real

    def __call__(self, x: Array) -> Any:
        """Return the variable of w."""
        return x + x**3 / 6.0

    def _inverse(self, y: Array) -> Any:
        return 2.0 * jnp.sqrt(2.0) * jnp.sinh(jnp.arcsinh(1.5 * y / jnp.sqrt(2.0)) / 3.0)

    def log_abs_det_jacobian(self, x: Array, y: Array | None, intermediates: Array | None = None) -> Any:
        """Return the log derivative by w."""
        return jnp.log1p(0.5 * x**2)


class _Softened(Reparam):
    """Sample w, at the site `<name>_softened`, in the place of x = w + w³/6."""

    def __call__(self, name: str, fn: dist.Distribution, obs: Array) -> tuple[None, Any]:
        cubic = CubicTransform()
        w = numpyro.sample(f"{name}_softened", dist.TransformedDistribution(fn, cubic.inv))
        return None, cubic(w)


def softened_model(problem: Problem) -> None:
    """`collapsed_model` with its Student t variables softened; they stay deterministic sites under their names."""
    names = ["dual", "intercept"] + ["kernel_weights"] * isinstance(problem.priors.kernel, Gamma)
    handlers.reparam(collapsed_model, config={name: _Softened() for name in names})(problem)


def fit_nuts(
    problem: Problem, options: NUTSOptions, seed: int, on_block: Callable[[int, str], None] | None = None
) -> Chains:
    """Draw from the posterior by NUTS.

    Parameters
    ----------
    problem : Problem
        With any kernel prior; under SpikeSlab the switches are drawn in turn, NUTS moves the rest.
    options : NUTS
        Chains run one after the other, or all at once with ``chain_method="vectorized"``.
    seed : int
    on_block : callable, optional
        See `run_chains`.

    Returns
    -------
    Chains
        Statistics are diverging, acceptance_rate, n_steps (leapfrog steps) and energy.
    """
    vectorized = options.chain_method == "vectorized"
    switches = isinstance(problem.priors.kernel, SpikeSlab)
    with numpyro_session():
        problem = jax.tree.map(jnp.asarray, problem)
        kernel, scan, constrain = _programs(options.target_accept, options.n_warmup, switches, vectorized)
        keys = jax.random.split(jax.random.key(seed), options.n_chains)

        def start(group: list[int]) -> Any:
            key = keys[jnp.array(group)] if vectorized else keys[group[0]]
            return kernel.init(key, options.n_warmup, None, (problem,), {})

        def advance(state: Any, n: int, keep: bool) -> Any:
            state, (z, stats) = jax.block_until_ready(scan(state, problem, n))
            if not keep:
                return state, {}, {}
            z, stats = jax.tree.map(lambda v: jnp.moveaxis(v, 0, 1) if vectorized else v[None], (z, stats))
            return state, constrain(z, problem), stats

        everyone = list(range(options.n_chains))
        groups = [everyone] if vectorized else [[c] for c in everyone]
        return run_chains(start, advance, groups, options, on_block)


@functools.lru_cache(maxsize=8)
def _programs(target_accept: float, n_warmup: int, switches: bool, vectorized: bool) -> tuple[Any, Any, Any]:
    """Return NUTS, its compiled steps, and what turns its variables into those of the model.

    Fits of equal shape share them: compiling takes longer than sampling.

    NumPyro's kernel remembers whether it was started for one chain or for several at once, so each has its own.
    """
    kernel: Any = NUTS(softened_model, target_accept_prob=target_accept)
    if switches:
        kernel = DiscreteHMCGibbs(kernel, modified=True)

    @functools.partial(jax.jit, static_argnums=2)
    def scan(state: Any, problem: Problem, n: int) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (problem,), {})
            hmc = getattr(state, "hmc_state", state)
            return state, (state.z, {ours: getattr(hmc, theirs) for ours, theirs in STATISTICS.items()})

        return jax.lax.scan(step, state, None, length=n)

    @jax.jit
    def constrain(z: Array, problem: Problem) -> dict[str, Any]:
        values = jax.vmap(jax.vmap(kernel.postprocess_fn((problem,), {})))(z)
        return {name: values[name] for name in _sites(problem)}

    return kernel, scan, constrain


def _sites(problem: Problem) -> list[str]:
    names = ["dual", "intercept", "kernel_weights"]
    if problem.outcome.has_noise:
        names += ["intermediate_precision", "noise_precision"]
    return names + ["kernel_inclusion"] * isinstance(problem.priors.kernel, SpikeSlab)
