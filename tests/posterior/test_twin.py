"""A model against its NumPyro twin, through the public function."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import NUTS
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import check_twin

BANK = KernelBank([Gaussian(width=1), Linear()], views="each")


def samples(n=20):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.heavy
@pytest.mark.parametrize("task", ["numbers", "labels", "classes", "precomputed"])
def test_bound_is_that_of_the_program(task):
    X, y = samples()
    bank = BANK
    if task == "precomputed":
        X, bank = BANK.fit_transform(X), "precomputed"
    if task in ("labels", "classes"):
        y = np.digitize(y, [0.0] if task == "labels" else [-0.5, 0.5])
        model = BEMKLClassifier(bank, multiclass="one-versus-all", intermediate_scale=0.5).fit(X, y)
    else:
        model = BEMKLRegressor(bank).fit(X, y)
    found = check_twin(model, X, y, nuts=None, n_particles=2048)
    assert found.bound == model.elbo_
    assert found.deviation < 3.0
    assert found.standard_error < 0.02 * abs(found.bound)
    assert found.shares["share"].sum() == pytest.approx(3.0 if task == "classes" else 1.0)
    model.elbo_ = model.elbo_ + 6.0 * found.standard_error  # a bound that is wrong
    assert check_twin(model, X, y, nuts=None, n_particles=2048).deviation > 3.0


@pytest.mark.heavy
def test_shares_of_nuts_are_beside_the_models():
    X, y = samples(12)
    bank = KernelBank([Linear()], views="each")
    model = BEMKLRegressor(bank).fit(X, y)
    with pytest.warns(ConvergenceWarning):  # so few draws
        found = check_twin(model, X, y, nuts=NUTS(n_chains=1, n_warmup=100, n_draws=100))
    assert found.shares.columns.tolist() == [
        "kernel",
        "view",
        "share",
        "share_std",
        "nuts_share",
        "nuts_share_std",
    ]
    by_name = found.shares.set_index("kernel")["share"]
    np.testing.assert_allclose(by_name[model.kernel_names_], model.kernel_shares_)
    assert found.shares["nuts_share"].sum() == pytest.approx(1.0)


def test_what_has_no_twin_is_refused():
    X, y = samples()
    model = BEMKLRegressor(BANK).fit(X, y)
    with pytest.raises(ValueError, match="must be the samples and targets that `model` was fitted to"):
        check_twin(model, X, y[::-1])
    with pytest.raises(ValueError, match="must be the samples and targets that `model` was fitted to"):
        check_twin(model, X[::-1], y)
    with pytest.raises(ValueError, match="`n_particles` must be a whole number >= 2; got 1"):
        check_twin(model, X, y, n_particles=1)
    two = BEMKLRegressor(BANK).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="its targets share the kernel weights"):
        check_twin(two, X, np.column_stack([y, y]))
    with pytest.raises(TypeError, match="`model` must be a BEMKL model; got GPMKLRegressor"):
        check_twin(GPMKLRegressor(BANK).fit(X, y), X, y)
