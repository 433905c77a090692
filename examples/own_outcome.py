"""Give a model an outcome that bayesmkl does not have, as a NumPyro model: here proportions, with a beta likelihood.

python examples/own_outcome.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

numpyro.enable_x64()  # before JAX computes anything

# Your data: proportions between 0 and 1 that depend on the first of three views.
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
views = {"first": [0, 1], "second": [2, 3], "third": [4, 5]}
mean = 1 / (1 + np.exp(-2 * np.sin(X[:, 0]) - X[:, 1]))
y = rng.beta(20 * mean, 20 * (1 - mean))

# The estimator computes the kernels. Only the factors of the kernels are needed from it.
bank = KernelBank(Gaussian(width=2), views=views)
program = GPMKLRegressor(bank, together=False).numpyro_model(X, y)
factors = program.data["factors"]  # Cholesky factors, (n_kernels, n_samples, n_samples)


def proportions(factors, y=None):
    """Sum one function per view; the logit of the mean proportion is that sum."""
    size = factors.shape[:2]
    weights = numpyro.sample("kernel_weights", dist.HalfNormal(2.0).expand(size[:1]).to_event(1))
    whitened = numpyro.sample("whitened", dist.Normal().expand(size).to_event(2))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 3.0))
    precision = numpyro.sample("precision", dist.LogNormal(3.0, 1.0))
    parts = weights[:, None] * jnp.einsum("mij,mj->mi", factors, whitened)
    mean = jax.nn.sigmoid(parts.sum(axis=0) + intercept)
    centered = parts - parts.mean(axis=1, keepdims=True)
    numpyro.deterministic("shares", centered @ centered.sum(axis=0) / (centered.sum(axis=0) ** 2).sum())
    numpyro.sample("y", dist.Beta(precision * mean, precision * (1.0 - mean)), obs=y)


sampler = MCMC(
    NUTS(proportions, target_accept_prob=0.9),
    num_warmup=500,
    num_samples=500,
    num_chains=2,
    chain_method="vectorized",
    progress_bar=False,
)
sampler.run(jax.random.key(0), factors, y)
shares = np.asarray(sampler.get_samples()["shares"])
for view, own in zip(views, shares.T, strict=True):
    low, high = np.quantile(own, [0.03, 0.97])
    print(f"share of the {view} view: {own.mean():.2f} [{low:.2f}, {high:.2f}]")
