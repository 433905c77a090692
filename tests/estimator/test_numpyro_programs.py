"""Models as NumPyro programs: joint densities by hand, draws from the prior, new rows, what has no program."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import assert_monte_carlo
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, Predictive
from numpyro.infer.reparam import Reparam
from numpyro.infer.util import log_density
from scipy import special, stats

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
)
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.bemkl import Dirichlet, Gamma, SpikeSlab
from bayesmkl.gp import DirichletShares, HalfT, Horseshoe, LogNormal, NestedShares
from bayesmkl.kernels import Gaussian, Linear

pytestmark = pytest.mark.heavy

N, P, K = 9, 2, 3
N_DRAWS = 6000  # everywhere: for every number of them JAX compiles anew
BANK = KernelBank([Gaussian(width=1), Linear()], normalize="trace")


@pytest.fixture(autouse=True)
def session():
    with numpyro_session():
        yield


def table(rng, n_samples=N):
    X = rng.normal(size=(n_samples, 2))
    return X, X[:, 0] + 0.5 * rng.normal(size=n_samples)


def target(kind, y):
    return {
        "two": y > np.median(y),
        "three": np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])),
        "one": 3.0 * y + 7.0,
        "several": np.column_stack([y, y**2, -y]),
    }[kind]


def as_the_model_sees_it(kind, y):
    if kind in ("two", "three"):
        own = target(kind, y)
        return (
            np.where(own, 1.0, -1.0) if kind == "two" else np.where(np.arange(3)[:, None] == own, 1.0, -1.0)
        )
    values = target(kind, y).T
    return (values - values.mean(axis=-1, keepdims=True)) / values.std(axis=-1, keepdims=True)


def joint(program, values):  # one compilation, and not one of every operation
    return float(
        jax.jit(lambda data, values: log_density(program.model, (), data, values)[0])(program.data, values)
    )


def kernels_of(X):
    return BANK.fit_transform(X).transpose(2, 0, 1)


# ------------------------------------------------------------------------------------------------------ densities


def weights_by_hand(prior, rng):
    """Return values of the sites of a prior, the weights that follow, and the log density."""
    if isinstance(prior, HalfT):
        w = rng.gamma(1.0, size=P)
        return (
            {"kernel_weights": w},
            w,
            (np.log(2.0) + stats.t.logpdf(w / prior.scale, prior.df)).sum() - P * np.log(prior.scale),
        )
    if isinstance(prior, DirichletShares):
        total, parts = rng.gamma(1.0), rng.dirichlet(np.ones(P))
        log_p = np.log(2.0) + stats.t.logpdf(total, prior.df, scale=prior.scale)
        log_p += stats.dirichlet.logpdf(parts, np.full(P, prior.concentration))
        return {"total": total, "parts_of_total": parts}, total * np.sqrt(parts), log_p
    if isinstance(prior, NestedShares):
        is_one = prior.groups == "view"  # of all kernels
        total, own = rng.gamma(1.0), rng.gamma(1.0, size=P)
        parts = np.ones(1) if is_one else rng.dirichlet(np.ones(P))
        log_p = np.log(2.0) + stats.t.logpdf(total, prior.df, scale=prior.scale)
        log_p += stats.gamma.logpdf(own, prior.within).sum()
        if not is_one:
            log_p += stats.dirichlet.logpdf(parts, np.full(P, prior.concentration))
        shares = own / own.sum() if is_one else parts
        return {"total": total, "parts_of_total": parts, "own_parts": own}, total * np.sqrt(shares), log_p
    common, own = rng.gamma(1.0), rng.gamma(1.0, size=P)
    log_p = stats.halfcauchy.logpdf(common, scale=prior.scale) + stats.halfcauchy.logpdf(own).sum()
    size = common * own
    weights = prior.slab * size / np.hypot(prior.slab, size)
    return {"common_scale": common, "own_scales": own}, weights, log_p


@pytest.mark.parametrize(
    "prior",
    [
        HalfT(3.0, 0.7),
        DirichletShares(0.8, 5.0, 1.3),
        NestedShares(0.8, 1.4, 5.0, 1.3),
        NestedShares(0.8, 1.4, 5.0, 1.3, "kernel"),
        Horseshoe(0.4, 2.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("kind", "likelihood"),
    [("two", "probit"), ("two", "logit"), ("three", "probit"), ("one", None), ("several", None)],
)
def test_joint_density_of_a_gaussian_process_is_the_one_by_hand(kind, likelihood, prior, rng):
    X, y = table(rng)
    options = {"kernel_prior": prior, "intercept_std": 1.7}
    if likelihood is None:
        model = GPMKLRegressor(BANK, noise_prior=LogNormal(0.4, 0.9, 0.01), **options)
    else:
        model = GPMKLClassifier(BANK, likelihood=likelihood, **options)
    program = model.numpyro_model(X, target(kind, y))
    seen = as_the_model_sees_it(kind, y)
    np.testing.assert_allclose(program.data["y"], seen, rtol=1e-12)
    outputs = seen.shape[:-1]

    values, weights, expected = weights_by_hand(prior, rng)
    z, b = rng.normal(size=(*outputs, P, N)), rng.normal(size=outputs)
    expected += stats.norm.logpdf(z).sum() + stats.norm.logpdf(b, scale=1.7).sum()
    kernels = kernels_of(X)
    units = [np.diag(k).mean() - k.mean() for k in kernels]
    roots = [np.linalg.cholesky(k / c + 1e-10 * np.eye(N) / c) for k, c in zip(kernels, units, strict=True)]
    score = np.asarray(b)[..., None] + sum(w * z[..., m, :] @ roots[m].T for m, w in enumerate(weights))
    if likelihood is None:
        noise = 0.01 + rng.gamma(1.0, size=outputs)
        values["noise_std"] = noise
        expected += stats.lognorm.logpdf(noise - 0.01, 0.9, scale=0.4).sum()
        expected += stats.norm.logpdf(seen, score, np.asarray(noise)[..., None]).sum()
    else:
        law = stats.norm if likelihood == "probit" else stats.logistic
        expected += law.logcdf(seen * score).sum()
    assert joint(program, values | {"whitened": z, "intercept": b}) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["two", "three", "one", "several"])
def test_joint_density_of_bemkl_is_the_one_by_hand(kind, rng):
    X, y = table(rng)
    priors = {"kernel_prior": Gamma(1.5, 0.6), "sample_prior": Gamma(2.0, 1.0), "bias_prior": Gamma(1.0, 0.3)}
    if kind in ("two", "three"):
        model = BEMKLClassifier(BANK, margin=0.3, intermediate_scale=0.7, **priors)
    else:
        model = BEMKLRegressor(
            BANK, intermediate_prior=Gamma(1.2, 2.0), noise_prior=Gamma(3.0, 0.5), **priors
        )
    program, seen = model.numpyro_model(X, target(kind, y)), as_the_model_sees_it(kind, y)
    outputs = seen.shape[:-1]
    a, b, e = rng.normal(size=(*outputs, N)), rng.normal(size=outputs), rng.normal(size=P)
    values = {"dual": a, "intercept": b, "kernel_weights": e}

    def student(x, shape, rate):
        return stats.t.logpdf(x, 2.0 * shape, scale=np.sqrt(rate / shape)).sum()

    expected = student(e, 1.5, 0.6) + student(a, 2.0, 1.0) + student(b, 1.0, 0.3)
    mean = np.asarray(b)[..., None] + a @ np.tensordot(e, kernels_of(X), 1).T
    if kind in ("two", "three"):
        expected += special.log_ndtr((seen * mean - 0.3) / np.sqrt(1.0 + 0.7**2 * e @ e)).sum()
    else:
        u, n = rng.gamma(2.0, size=outputs), rng.gamma(2.0, size=outputs)
        values |= {"intermediate_precision": u, "noise_precision": n}
        expected += (
            stats.gamma.logpdf(u, 1.2, scale=1 / 2.0).sum() + stats.gamma.logpdf(n, 3.0, scale=2.0).sum()
        )
        expected += stats.norm.logpdf(seen, mean, np.sqrt(1.0 / n + e @ e / u)[..., None]).sum()
    assert joint(program, values) == pytest.approx(expected, rel=1e-9)


def test_weights_of_other_priors_have_their_own_sites(rng):
    X, y = table(rng)
    for prior, sites in (
        (Dirichlet(), {"kernel_weights"}),
        (Dirichlet([1.0] * (P - 1) + [2.0]), {"kernel_weights"}),
        (SpikeSlab(), {"kernel_inclusion", "slab_weights"}),
    ):
        model = BEMKLClassifier(BANK, kernel_prior=prior, inference="nuts", intermediate_scale=1.0)
        program = model.numpyro_model(X, y > 0)
        sampled = set()

        def keep(data, model=program.model, sampled=sampled):
            trace = handlers.trace(handlers.seed(model, 0)).get_trace(**data)
            sampled |= {name for name, site in trace.items() if site["type"] == "sample"}

        jax.eval_shape(keep, program.data)
        assert sampled - {"dual", "intercept", "y", "y_sample"} == sites


# ------------------------------------------------------------------------------------------------- draws from it


def draw(program, data):
    predictive = Predictive(program.model, num_samples=N_DRAWS, parallel=True)
    return predictive(jax.random.key(0), **program.data | data)


def drawn(program, **data):
    found = draw(program, data)
    return {name: np.asarray(values) for name, values in found.items()}


def test_prior_draws_of_a_gaussian_process_have_the_moments_of_its_page(rng):
    X, _ = table(rng)
    model = GPMKLRegressor(
        BANK, kernel_prior=HalfT(9.0, 1.5), intercept_std=0.6, noise_prior=LogNormal(0.3, 0.5)
    )
    draws = drawn(model.numpyro_model(X))
    assert_monte_carlo(draws["kernel_weights"] ** 2, 1.5**2 * 9.0 / 7.0)
    assert_monte_carlo(draws["intercept"] ** 2, 0.36)
    assert_monte_carlo(np.log(draws["noise_std"] - 1e-4), np.log(0.3))
    # a weight is the standard deviation around the mean of what its kernel adds
    assert_monte_carlo(draws["parts"].var(axis=-1) / draws["kernel_weights"] ** 2, 1.0)
    np.testing.assert_allclose(
        draws["score"], draws["parts"].sum(axis=1) + draws["intercept"][:, None], rtol=1e-9
    )
    assert_monte_carlo(((draws["y"] - draws["score"]) / draws["noise_std"][:, None]) ** 2, 1.0)
    around = draws["parts"] - draws["parts"].mean(axis=-1, keepdims=True)
    total = around.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        draws["kernel_shares"], (around * total).sum(axis=-1) / (total**2).sum(axis=-1), rtol=1e-6
    )


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_labels_that_are_drawn_have_the_probabilities_of_their_scores(likelihood, rng):
    X, _ = table(rng)
    draws = drawn(GPMKLClassifier(BANK, likelihood=likelihood).numpyro_model(X))
    assert set(np.unique(draws["y"])) == {-1.0, 1.0}
    law = stats.norm if likelihood == "probit" else stats.logistic
    assert_monte_carlo((draws["y"] > 0.0) - law.cdf(draws["score"]), 0.0)


def test_prior_draws_of_bemkl_have_its_moments(rng):
    X, _ = table(rng)
    sharp = {name: Gamma(5.0, 2.0) for name in ("kernel_prior", "sample_prior", "bias_prior")}
    draws = drawn(BEMKLRegressor(BANK, noise_prior=Gamma(3.0, 1.0), **sharp).numpyro_model(X))
    for name in ("kernel_weights", "dual", "intercept"):  # precisions 1 / x of mean 2 / (5 - 1)
        assert_monte_carlo(draws[name] ** 2, 0.5)
    assert_monte_carlo(draws["noise_precision"], 3.0)
    spread = (
        1.0 / draws["noise_precision"]
        + (draws["kernel_weights"] ** 2).sum(axis=1) / draws["intermediate_precision"]
    )
    assert_monte_carlo((draws["y"] - draws["score"]) ** 2 / spread[:, None], 1.0)
    each = draws["kernel_weights"][..., None] * np.einsum("mij,dj->dmi", kernels_of(X), draws["dual"])
    np.testing.assert_allclose(draws["score"], each.sum(axis=1) + draws["intercept"][:, None], rtol=1e-8)
    spreads = each.std(axis=-1)
    np.testing.assert_allclose(
        draws["kernel_shares"], spreads / spreads.sum(axis=1, keepdims=True), rtol=1e-8
    )


MODELS = {
    "GPMKLClassifier": GPMKLClassifier(BANK),
    "GPMKLRegressor": GPMKLRegressor(BANK),
    "BEMKLClassifier": BEMKLClassifier(BANK, intermediate_scale=1.0),
    "BEMKLRegressor": BEMKLRegressor(BANK),
}
KINDS = {"Classifier": ("two", "three"), "Regressor": ("one", "several")}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.slow] if kind == "three" else [])  # as "several"
        for name in MODELS
        for ending, kinds in KINDS.items()
        if name.endswith(ending)
        for kind in kinds
    ],
)
def test_new_rows_that_are_training_rows_have_their_scores(name, kind, rng):
    X, y = table(rng)
    model = MODELS[name]
    before = dict(vars(model))
    program = model.numpyro_model(X, target(kind, y), X[:4].copy())
    assert vars(model) == before
    outputs = (K,) if kind in ("three", "several") else ()
    draws = drawn(program, y=None, **program.new)
    assert draws["score"].shape == draws["y"].shape == (N_DRAWS, *outputs, N)
    assert draws["score_new"].shape == draws["y_new"].shape == (N_DRAWS, *outputs, 4)
    np.testing.assert_allclose(draws["score_new"][:5], draws["score"][:5, ..., :4], atol=2e-3)


def test_new_rows_have_the_prior_variance_of_their_own(rng):
    X, _ = table(rng)
    far = np.array([[3.0, -1.0], [0.2, 2.5]])
    model = GPMKLRegressor(BANK, kernel_prior=HalfT(9.0, 1.0), intercept_std=0.6)
    program = model.numpyro_model(X, X_new=far)
    draws = drawn(program, **program.new)
    bank = KernelBank(BANK.kernels, normalize="trace").fit(X)
    kernels, own = bank.rows_and_diagonal(far)
    units = np.array([np.diag(k).mean() - k.mean() for k in bank.train_stack()])
    squares = draws["kernel_weights"] ** 2
    rest = (draws["score_new"] - draws["intercept"][:, None]) ** 2
    assert_monte_carlo(rest / (squares @ (own / units[:, None])), 1.0)
    cross = np.einsum("dm,mij->dij", squares / units, kernels)
    products = (draws["score_new"] - draws["intercept"][:, None])[:, :, None] * (
        draws["score"] - draws["intercept"][:, None]
    )[:, None]
    assert_monte_carlo((products - cross) / squares.sum(axis=1)[:, None, None], 0.0)


def test_precomputed_kernels_and_a_bank_make_one_program(rng):
    X, y = table(rng, 14)
    stack = KernelBank([Gaussian(width=1)], normalize="spherical").fit(X[:N])
    everything = np.moveaxis(stack.evaluate(X), 0, -1)
    for cls in (GPMKLRegressor, BEMKLRegressor):
        given = cls("precomputed").numpyro_model(everything[:N], y[:N], everything[N:])
        by_bank = cls(KernelBank([Gaussian(width=1)], normalize="spherical")).numpyro_model(
            X[:N], y[:N], X[N:]
        )
        for ours, theirs in zip(given[1:], by_bank[1:], strict=True):
            assert ours.keys() == theirs.keys()
            for key in ours:
                np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-7, atol=1e-9)


class Replaced(Reparam):
    """Another distribution in the place of a site's own."""

    def __init__(self, change):
        self.change = change

    def __call__(self, name, fn, obs):
        return self.change(fn), obs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPMKLRegressor", "BEMKLClassifier"])
def test_nuts_runs_also_in_single_precision_and_with_other_laws(name, rng):
    import numpyro.distributions as dist

    X, y = table(rng, 16)
    y = y if name == "GPMKLRegressor" else y > 0
    program = MODELS[name].numpyro_model(X, y, X[:2])
    site, shape = ("total", []) if name == "GPMKLRegressor" else ("kernel_weights", [P])
    change = {site: Replaced(lambda law: dist.HalfNormal(0.5).expand(shape).to_event(len(shape)))}
    if name == "GPMKLRegressor":
        change["y"] = Replaced(lambda law: dist.StudentT(4.0, law.loc, law.scale))
    model = handlers.reparam(program.model, config=change)
    values = {site: np.full(shape, 0.7)}
    trace = handlers.trace(handlers.seed(handlers.substitute(model, values), 0)).get_trace(**program.data)
    assert trace[site]["fn"].log_prob(values[site]) == pytest.approx(
        stats.halfnorm.logpdf(0.7, scale=0.5) * np.prod(shape)
    )
    assert trace["y"]["is_observed"]
    with jax.enable_x64(False):
        sampler = MCMC(NUTS(model), num_warmup=30, num_samples=20, progress_bar=False)
        sampler.run(jax.random.key(0), **program.data)
        draws = sampler.get_samples()
        new = Predictive(model, draws)(jax.random.key(1), **program.data | {"y": None}, **program.new)
    assert draws["score"].dtype == np.float32
    assert np.isfinite(draws["score"]).all()
    assert (np.asarray(draws["kernel_weights"]) > 0.0).all()
    np.testing.assert_allclose(new["score_new"], draws["score"][:, :2], atol=0.05)


# ---------------------------------------------------------------------------------------------- what has no program


def test_indefinite_kernels_and_wrong_rows_are_named(rng):
    X, y = table(rng)
    root = rng.normal(size=(N, N))
    with (
        pytest.raises(ValueError, match=r"kernel 0.* is not positive semidefinite"),
        pytest.warns(match="kernel"),
    ):
        GPMKLRegressor("precomputed").numpyro_model((root + root.T)[..., None], y)
    with pytest.raises(ValueError, match="features"):
        GPMKLRegressor(BANK).numpyro_model(X, y, X[:, :1])
