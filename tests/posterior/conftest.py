"""Small fitted models that the tests of the posterior share."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian, Polynomial

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
    return BEMKLClassifier(bank).fit(features, np.where(features["größe"] > 0, "big", "small"))


@pytest.fixture(scope="session")
def sparse_model(features, bank):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stops at max_iter by intention
        model = BEMKLClassifier(bank, kernel_prior="sparse", max_iter=200)
        return model.fit(features, np.where(features["größe"] > 0, "big", "small"))


@pytest.fixture(scope="session")
def several_model(features, bank):
    sizes = np.array(["small", "middle", "big"])[np.digitize(features["größe"], [-0.5, 0.5])]
    return BEMKLClassifier(bank).fit(features, sizes)


@pytest.fixture(scope="session")
def regression_model(features, bank):
    return BEMKLRegressor(bank).fit(features, 3.0 * features["größe"] + 10.0)
