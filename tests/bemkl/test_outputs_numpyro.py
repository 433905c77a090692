"""The NumPyro program of several outputs with shared kernel weights, against densities written in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpyro.infer.util import log_density
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl import NUTS
from bayesmkl.bemkl.classifier import SharedWeights, class_model_of
from bayesmkl.bemkl.draws import PosteriorDraws, log_likelihood, log_prior_terms
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.program import collapsed_model
from bayesmkl.datasets import load_iris
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

pytestmark = pytest.mark.heavy

N, P, K = 7, 3, 2


@pytest.mark.parametrize("kind", ["labels", "targets"])
def test_density_of_all_outputs_is_a_product_that_counts_shared_weights_once(rng, kind):
    roots = rng.normal(size=(P, N, N))
    stack = DenseStack(roots @ roots.mT / N)
    gram = stack.gram()
    values = {
        "dual": rng.normal(size=(K, N)),
        "intercept": rng.normal(size=K),
        "kernel_weights": rng.normal(size=P),
    }
    if kind == "labels":
        y = rng.choice([-1.0, 1.0], size=(K, N))
        joint = Problem(stack, gram, y, Priors(), Labels(0.7), 1.6)
        alone = [Problem(stack, gram, row, Priors(), Labels(0.7), 1.6) for row in y]
        noises = {}
    else:
        y = rng.normal(size=(K, N))
        joint = Problem(stack, gram, y, Priors(), Numbers())
        alone = [Problem(stack, gram, row, Priors(), Numbers()) for row in y]
        noises = {name: rng.gamma(2.0, size=K) for name in ("intermediate_precision", "noise_precision")}
    with numpyro_session():
        found = float(log_density(collapsed_model, (joint,), {}, values | noises)[0])
    draws = [
        PosteriorDraws(
            values["kernel_weights"][None],
            values["intercept"][c : c + 1],
            values["dual"][c : c + 1],
            **{name: noise[c : c + 1] for name, noise in noises.items()},
        )
        for c in range(K)
    ]
    expected = sum(log_likelihood(*pair).sum() for pair in zip(alone, draws, strict=True))
    terms = [log_prior_terms(*pair) for pair in zip(alone, draws, strict=True)]
    expected += sum(sum(own.values()) for own in terms) - terms[1]["kernel_weights"]
    assert found == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.slow
def test_shared_classes_by_nuts_agree_with_the_closed_form():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)
    X, y = StandardScaler().fit_transform(X)[rows], y[rows]
    bank = KernelBank([Gaussian(width=1.5), Linear()], views={"sepal": [0, 1], "petal": [2, 3]})
    nuts = BEMKLClassifier(bank, inference=NUTS(n_chains=2, n_draws=2000), intermediate_scale=1.0).fit(
        X[:50], y[:50]
    )
    closed = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X[:50], y[:50])
    assert nuts.outcome_ in (Outcome.MIXED, Outcome.NOT_MIXED, Outcome.DIVERGING)
    assert isinstance(class_model_of(nuts.posterior_), SharedWeights)
    assert nuts.posterior_.dual.shape == (2, 2000, 3, 50)
    assert nuts.kernel_shares_.argmax() == closed.kernel_shares_.argmax() == 2  # Gaussian of the petals
    assert nuts.intercept_.shape == (3,)
    np.testing.assert_allclose(nuts.intercept_, nuts.posterior_.intercept.mean(axis=(0, 1)))
    difference = np.abs(nuts.predict_proba(X[50:]) - closed.predict_proba(X[50:]))
    assert difference.mean() < 0.03


def test_scores_of_draws_are_those_of_every_output(rng):
    rows = DenseStack(rng.normal(size=(P, 5, N)))
    draws = PosteriorDraws(
        rng.normal(size=(2, 4, P)), rng.normal(size=(2, 4, K)), rng.normal(size=(2, 4, K, N))
    )
    model, flat = class_model_of(draws), draws.flat()
    settings = BEMKLClassifier(margin=1.0, intermediate_scale=1.3)._settings()
    mean, std = model.moments(model.scores(rows, (draws,), settings, "full"))
    scores = np.einsum("sm,mrt,sct->scr", flat.kernel_weights, rows.kernels, flat.dual)
    scores += flat.intercept[..., None]
    np.testing.assert_allclose(mean, scores.mean(axis=0).T, rtol=1e-12)
    noise = (1.0 + 1.3**2 * (flat.kernel_weights**2).sum(axis=1)).mean()
    np.testing.assert_allclose(std, np.sqrt(scores.var(axis=0) + noise).T, rtol=1e-12)
