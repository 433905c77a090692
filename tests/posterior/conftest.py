"""Small fitted models that the tests of the posterior share."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import Gibbs
from bayesmkl.bemkl.draws import shares_of_draws, variational_draws
from bayesmkl.kernels import Gaussian, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

N_SAMPLES = 40


@pytest.fixture(scope="session")
def features():
    rng = np.random.default_rng(20)
    return pd.DataFrame(rng.normal(size=(N_SAMPLES, 3)), columns=["größe", "noise 1", "noise 2"])


@pytest.fixture(scope="session")
def bank():
    return KernelBank([Gaussian(width=1), Polynomial(1)], views="each")


@pytest.fixture(scope="session")
def binary_model(features, bank):
    return BEMKLClassifier(bank, margin=1.0, intermediate_scale=1.0).fit(
        features, np.where(features["größe"] > 0, "big", "small")
    )


@pytest.fixture(scope="session")
def sparse_model(features, bank):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stops at max_iter by intention
        model = BEMKLClassifier(bank, kernel_prior="sparse", max_iter=200, intermediate_scale=1.0)
        return model.fit(features, np.where(features["größe"] > 0, "big", "small"))


@pytest.fixture(scope="session")
def several_model(features, bank):
    sizes = np.array(["small", "middle", "big"])[np.digitize(features["größe"], [-0.5, 0.5])]
    return BEMKLClassifier(bank, multiclass="one-versus-all", intermediate_scale=1.0).fit(features, sizes)


@pytest.fixture(scope="session")
def shared_model(features, bank):
    sizes = np.array(["small", "middle", "big"])[np.digitize(features["größe"], [-0.5, 0.5])]
    return BEMKLClassifier(bank, margin=1.0, tol=1e-4, intermediate_scale=1.0).fit(features, sizes)


@pytest.fixture(scope="session")
def multinomial_model(features, bank):
    sizes = np.array(["small", "middle", "big"])[np.digitize(features["größe"], [-0.5, 0.5])]
    return BEMKLClassifier(bank, multiclass="multinomial", tol=1e-4, intermediate_scale=1.0).fit(
        features, sizes
    )


@pytest.fixture(scope="session")
def labels(features):
    """Two labels per sample."""
    return np.column_stack([features["größe"] > 0.0, features["noise 1"] > 0.3]).astype(int)


@pytest.fixture(scope="session")
def label_model(features, bank, labels):
    return BEMKLClassifier(bank, tol=1e-4, intermediate_scale=1.0).fit(features, labels)


@pytest.fixture(scope="session")
def targets(features):
    """Two targets per sample."""
    noise = np.random.default_rng(8).normal(scale=0.3, size=(N_SAMPLES, 2))
    return np.column_stack([3.0 * features["größe"] + 10.0, features["noise 1"]]) + noise


@pytest.fixture(scope="session")
def target_model(features, bank, targets):
    return BEMKLRegressor(bank, tol=1e-4).fit(features, targets)


@pytest.fixture(scope="session")
def unlabeled_model(features, bank):
    sizes = np.where(features["größe"] > 0, "big", "small").astype("<U7")
    sizes[np.arange(N_SAMPLES) % 3 == 0] = "unknown"
    return BEMKLClassifier(bank, unlabeled_label="unknown", tol=1e-4, intermediate_scale=1.0).fit(
        features, sizes
    )


@pytest.fixture(scope="session")
def incomplete(features):
    """The features, of which some samples lack the first or the second."""
    found = features.copy()
    found.iloc[:6, 0] = np.nan
    found.iloc[6:14, 1] = np.nan
    return found


@pytest.fixture(scope="session")
def incomplete_model(features, incomplete, bank):
    model = BEMKLClassifier(bank, missing_views="integrate", tol=1e-4, intermediate_scale=1.0)
    return model.fit(incomplete, np.where(features["größe"] > 0, "big", "small"))


@pytest.fixture(scope="session")
def regression_model(features, bank):
    return BEMKLRegressor(bank).fit(features, 3.0 * features["größe"] + 10.0)


def sampled(model, posterior, **attributes):
    """Return a copy of a fitted model that has these draws for its posterior."""
    copied = copy.deepcopy(model)
    stack = DenseStack(model.kernel_bank_.train_stack())
    shares = shares_of_draws(stack, posterior.flat())
    copied.posterior_, copied.kernel_shares_, copied.kernel_shares_std_ = posterior, *shares
    weights = posterior.flat().kernel_weights
    copied.kernel_weights_, copied.kernel_weights_std_ = weights.mean(axis=0), weights.std(axis=0, ddof=1)
    for name, value in attributes.items():
        setattr(copied, name, value)
    return copied


@pytest.fixture(scope="session")
def gibbs_model(features, bank):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too short to mix, by intention
        model = BEMKLClassifier(
            bank, inference=Gibbs(n_chains=2, n_draws=150, n_warmup=100), intermediate_scale=1.0
        )
        return model.fit(features, np.where(features["größe"] > 0, "big", "small"))


@pytest.fixture(scope="session")
def gibbs_several_model(features, bank):
    sizes = np.array(["small", "middle", "big"])[np.digitize(features["größe"], [-0.5, 0.5])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = {"inference": Gibbs(n_chains=1, n_draws=60, n_warmup=30)}
        return BEMKLClassifier(bank, multiclass="one-versus-all", **chains, intermediate_scale=1.0).fit(
            features, sizes
        )


@pytest.fixture(scope="session")
def gibbs_regression_model(features, bank):
    noise = np.random.default_rng(3).normal(scale=0.5, size=N_SAMPLES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BEMKLRegressor(bank, inference=Gibbs(n_chains=2, n_draws=150, n_warmup=100))
        return model.fit(features, 3.0 * features["größe"] + 10.0 + noise)


@pytest.fixture(scope="session")
def nuts_model(gibbs_model):
    """The chains of Gibbs sampling with statistics as NUTS has them."""
    rng, shape = np.random.default_rng(6), gibbs_model.posterior_.intercept.shape
    diverging = np.zeros(shape, dtype=bool)
    diverging[0, 10] = diverging[1, 99] = True
    stats = {
        "diverging": diverging,
        "acceptance_rate": rng.uniform(0.9, 1.0, shape),
        "n_steps": np.full(shape, 31),
        "energy": rng.normal(size=shape),
    }
    return sampled(gibbs_model, gibbs_model.posterior_, inference="nuts", sample_stats_=stats)


@pytest.fixture(scope="session")
def chains_of_shared_model(shared_model):
    """Independent draws of the weights of all classes, as if a sampler had left them."""
    draws = variational_draws(shared_model.posterior_, 300, np.random.default_rng(0))
    chains = draws.map(lambda values: values.reshape(3, 100, *values.shape[2:]))
    model = sampled(shared_model, chains, inference="nuts")
    del model.elbo_history_, model.elbo_
    return model
