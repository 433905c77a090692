"""Models of marginal inference with hyperparameters from their priors, data from the model, and posteriors of them.

What is drawn from priors and model here uses none of the package's maps, factors or scales: t and Dirichlet
variables of NumPy, eigenvectors of the kernels. Posteriors come from the functions that the estimators call, with
their defaults. Kernels whose widths are inferred are evaluated by NumPy, too.

Estimators ask for two samples of each class. Data sets without them are drawn anew, and the ranks of the rest stay
uniform: whether a data set is kept depends on its labels alone, and given those the posterior is what it was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from _pseudo_marginal import exact_score, surprise
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.gp.hyperposterior import Draws, Hypermodel, equally_likely
from bayesmkl.gp.widths import LOG_STD, NARROWER, SPREAD
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.outcomes import Gaussian as NormalNoise

VIEWS = {"first": [0, 1, 2], "second": [3, 4]}
KERNELS = [Gaussian(width=2.0), Linear()]  # on each
SIGMA_G = 0.3  # of BEMKL's intermediate outputs under labels, where it is no part of the posterior
LEAST = 2  # samples of each class
N_SCORES = 32  # that the exact evidence of a point is estimated with
N_SHOWN = 4  # training scores
WIDTHS = "GPMKLRegressor, widths"

Values = dict[str, np.ndarray]


class Ranked(NamedTuple):
    """Weighted draws of one quantity, (n_draws, entries), and what they are worth."""

    values: np.ndarray
    weights: np.ndarray
    n_effective: float


class Case(NamedTuple):
    """A data set, the true quantities, and how many sets were drawn before one had enough of both classes."""

    y: np.ndarray
    truth: Values
    n_rejected: int


class Posterior(NamedTuple):
    """Draws of every quantity, with k-hat, effective number and weight of what did not converge."""

    ranked: dict[str, Ranked]
    points: Draws
    model: Hypermodel


def inputs(n_samples: int) -> np.ndarray:
    """Return the fixed points."""
    return np.random.default_rng(0).standard_normal((n_samples, 5))


def kernels(n_samples: int) -> np.ndarray:
    """Evaluate a Gaussian and a linear kernel on each of two views, (4, n_samples, n_samples)."""
    bank = KernelBank(KERNELS, views=VIEWS)
    return np.ascontiguousarray(np.moveaxis(bank.fit_transform(inputs(n_samples)), -1, 0))


class Score(NamedTuple):
    """A score given kernel weights, whitened by the root of its covariance."""

    weights: np.ndarray
    root: np.ndarray
    whitened: np.ndarray


class Simulation:
    """One model on fixed inputs; what both processes share."""

    def __init__(self, stack: np.ndarray, is_regression: bool, options: Marginal) -> None:
        self.kernels, self.is_regression, self.options = stack, is_regression, options
        self.n_kernels, self.n_samples = stack.shape[:2]
        self.shown = np.linspace(0, self.n_samples - 1, N_SHOWN).astype(int)

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, Values]:
        """Draw targets, and the quantities that need no data but them."""
        raise NotImplementedError

    def infer(self, y: np.ndarray, seed: int) -> Posterior:
        """Draw from the posterior as the estimator does."""
        raise NotImplementedError

    def simulate(self, rng: np.random.Generator) -> Case:
        """Draw parameters from the prior, then targets."""
        n_rejected = 0
        while True:
            y, truth = self._draw(rng)
            if self.is_regression or LEAST <= (y > 0.0).sum() <= len(y) - LEAST:
                return Case(y, truth, n_rejected)
            n_rejected += 1

    def evidence_ratio(self, model: Hypermodel, weights: np.ndarray, noise: np.ndarray) -> float:
        """Return the log evidence of kernel weights over that of none, under the same noise."""
        return _log_evidence(model, weights, noise) - _log_evidence(model, 0.0 * weights, noise)

    def true_evidence(self, found: Posterior, truth: Values) -> np.ndarray:
        """Return the log evidence ratio at the true parameters."""
        return np.array([self.evidence_ratio(found.model, truth["signed"], truth["noise"][:1])])

    def _of_points(self, points: Draws, model: Hypermodel) -> dict[str, Ranked]:
        """Read what depends on hyperparameters alone."""
        values = [model.values(u) for u in points.coordinates]
        weights, widths = np.split(np.array([own for own, _ in values]), [self.n_kernels], axis=1)
        noise = np.array([parameters[0] for _, parameters in values])
        without = np.array([_log_evidence(model, 0.0 * values[0][0], own) for own in _few(noise)])
        ratio = np.array([point.log_evidence for point in points.points]) - without
        read = {"weight": np.abs(weights), "evidence": ratio[:, None]}
        if widths.size:
            read["width"] = widths
        if self.is_regression:
            read["noise"] = noise
        return {name: Ranked(own, points.weights, points.ess) for name, own in read.items()}

    def correct(self, found: Posterior, n_draws: int, rng: np.random.Generator) -> dict[str, Ranked]:
        """Draw from the exact posterior by weighting points by unbiased estimates of the exact evidence."""
        points, model = found.points, found.model
        chosen = equally_likely(points.weights, n_draws, rng)
        log_weights, rows = np.empty(n_draws), []
        for at, i in enumerate(chosen):
            weights, parameters = model.values(points.coordinates[i])
            root, whitened, log_weights[at], _ = exact_score(
                model, weights, parameters[0], points.points[i], N_SCORES, rng
            )
            rows.append(self._parts_given(model, Score(weights, root, whitened), rng))
        probability = np.exp(log_weights - logsumexp(log_weights))
        worth = min(1.0 / float((probability**2).sum()), points.ess)
        read = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        for name in ("weight", "evidence"):
            read[name] = found.ranked[name].values[chosen]
        return {name: Ranked(own, probability, worth) for name, own in read.items()}

    def _parts_given(self, model: Hypermodel, given: Score, rng: np.random.Generator) -> Values:
        """Draw what there is behind a score, by Matheron's rule, and return its quantities."""
        raise NotImplementedError


class _Additive(Simulation):
    """The process of GPMKL: a total, shares of views and of kernels within views, and the part "views together"."""

    def __init__(self, stack: np.ndarray, is_regression: bool, options: Marginal) -> None:
        own = {"normalize_y": False} if is_regression else {}
        self.estimator, X = self._of_inputs(stack, is_regression, own | {"inference": options})
        self.stack, _ = self.estimator._prepare(X, np.arange(len(X)) % 2)
        stack = self.stack.columns(slice(None))  # with the products of views, the last kernel
        super().__init__(stack, is_regression, options)
        self.view = np.append(np.repeat(np.arange(len(VIEWS)), len(KERNELS)), len(VIEWS))
        self.weight_prior, self.noise_prior = self.estimator._weight_prior(), NormalNoise().noise_prior
        self.intercept_std = self.estimator.intercept_std
        self.units, self.roots = _units_and_roots(stack)

    def _of_inputs(self, stack: np.ndarray, is_regression: bool, own: dict[str, Any]) -> tuple[Any, Any]:
        """Return an estimator, and what it is fitted to."""
        kind = GPMKLRegressor if is_regression else GPMKLClassifier
        views = np.repeat(list(VIEWS), len(KERNELS))
        return kind("precomputed", kernel_views=views, **own), np.moveaxis(stack, 0, -1)

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, Values]:
        prior = self.weight_prior
        total = prior.scale * abs(rng.standard_t(prior.df))
        of_views = rng.dirichlet(np.full(len(VIEWS) + 1, prior.concentration))
        own = rng.gamma(prior.within, size=self.n_kernels)
        weights = total * np.sqrt(of_views[self.view] * own / np.bincount(self.view, own)[self.view])
        median, log_std, least = self.noise_prior
        noise = np.array([least + median * np.exp(log_std * rng.standard_normal())])
        unit = np.einsum("mij,mj->mi", self.roots, rng.standard_normal((self.n_kernels, self.n_samples)))
        parts = weights[:, None] * unit
        score = parts.sum(axis=0) + self.intercept_std * rng.standard_normal()
        size = noise if self.is_regression else 1.0
        y = score + size * rng.standard_normal(self.n_samples)
        y = y if self.is_regression else np.sign(y)
        truth = {"weight": weights, "signed": weights, "noise": noise[: int(self.is_regression)]}
        truth |= self._of_parts(parts, score)
        return y, truth | {"likelihood": np.array([self._log_likelihood(y, score, noise)])}

    def _of_parts(self, parts: np.ndarray, score: np.ndarray) -> Values:
        around = parts - parts.mean(axis=1, keepdims=True)
        products = around @ around.sum(axis=0)
        return {
            "share": products / products.sum(),
            "size": np.array([score.std()]),
            "score": score[self.shown],
        }

    def _log_likelihood(self, y: np.ndarray, scores: np.ndarray, noise: np.ndarray) -> Any:
        log_p = norm.logpdf(y, scores, noise) if self.is_regression else log_ndtr(y * scores)
        return log_p.sum(axis=-1)

    def infer(self, y: np.ndarray, seed: int) -> Posterior:
        self.estimator.random_state = seed
        _, points, reading = self.estimator._infer(self.stack, y[None], self.options)
        model = self.estimator._hypermodel(self.stack, y[None], self.options)
        draws = reading.draws
        scores, noise = draws.score[:, 0], draws.parameters[draws.point, 0]
        read = {
            "share": draws.shares,
            "size": scores.std(axis=1, keepdims=True),
            "score": scores[:, self.shown],
            "likelihood": self._log_likelihood(y, scores, noise)[:, None],
        }
        return Posterior(_equal(read, points) | self._of_points(points, model), points, model)

    def _parts_given(self, model: Hypermodel, given: Score, rng: np.random.Generator) -> Values:
        (weights, root, whitened), y = given, model.targets[0]
        score = root @ whitened
        unit = np.einsum("mij,mj->mi", self.roots, rng.standard_normal((self.n_kernels, self.n_samples)))
        parts = weights[:, None] * unit
        intercept = self.intercept_std * rng.standard_normal()
        dual = surprise(root, whitened, parts.sum(axis=0) + intercept)
        parts += (weights**2 / self.units)[:, None] * (self.kernels @ dual)
        found = self._of_parts(parts, score)
        return found | {"likelihood": np.array([self._log_likelihood(y, score, np.ones(1))])}


class _Widths(_Additive):
    """The same with the kernels that `GPMKLRegressor` has by default; log widths are drawn with the weights."""

    def _of_inputs(self, stack: np.ndarray, is_regression: bool, own: dict[str, Any]) -> tuple[Any, Any]:
        X = inputs(stack.shape[1])
        self.standard = (X - X.mean(axis=0)) / X.std(axis=0)
        return GPMKLRegressor(views=VIEWS, **own), X

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, Values]:
        widths = [_log_widths(len(columns), rng) for columns in VIEWS.values()]
        self.units, self.roots = _units_and_roots(self._kernels_at(widths))
        y, truth = super()._draw(rng)
        width = np.concatenate(widths)
        return y, truth | {"width": width, "signed": np.append(truth["weight"], width)}

    def _kernels_at(self, widths: list[np.ndarray]) -> np.ndarray:
        """Evaluate the kernels of views, and the product of the centered Gaussian ones."""
        found, together = [], 1.0
        for columns, own in zip(VIEWS.values(), widths, strict=True):
            z = self.standard[:, columns]
            squares = (z[:, None] - z) ** 2
            median = np.median(np.sqrt(squares.sum(axis=-1))[np.triu_indices(len(z), 1)])
            gaussian = np.exp(-0.5 * squares @ np.exp(-2.0 * own) / median**2)
            directions = z / np.linalg.norm(z, axis=1, keepdims=True)
            found += [gaussian, directions @ directions.T]
            around = gaussian - gaussian.mean(axis=0)
            together = together * (around - around.mean(axis=1, keepdims=True))
        return np.array([*found, together])


def _log_widths(n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Draw log widths of the columns of a view, in units of the median distance."""
    level, own = rng.standard_normal(), SPREAD * rng.standard_normal(n_columns)
    level *= LOG_STD if level > 0.0 else NARROWER / n_columns
    return level + own + 0.5 * np.log(np.exp(-2.0 * own).mean())


def _log_evidence(model: Hypermodel, weights: np.ndarray, noise: np.ndarray) -> float:
    matrix = model.covariance.matrix(weights)
    return float(model.evidence(model.likelihood, model.targets[0], matrix, noise).log_evidence)


def _few(noise: np.ndarray) -> np.ndarray:
    """Return the noise of every point, or of one where there is none."""
    return noise if noise.shape[1] else noise[:1]


def _equal(read: Values, points: Draws) -> dict[str, Ranked]:
    """Take draws of scores as equally likely; they are worth no more than the points that they were made of."""
    n_draws = len(next(iter(read.values())))
    weights, worth = np.full(n_draws, 1.0 / n_draws), min(float(n_draws), points.ess)
    return {name: Ranked(own, weights, worth) for name, own in read.items()}


def _units_and_roots(stack: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean variances `c` of functions, and `R` with ``R R' = K / c`` of every kernel, by eigenvectors."""
    around = stack - stack.mean(axis=1, keepdims=True)
    units = np.einsum("mii->m", around) / stack.shape[1]
    values, vectors = np.linalg.eigh(stack)
    return units, vectors * np.sqrt(np.maximum(values, 0.0) / units[:, None])[:, None, :]


MODELS: dict[str, tuple[type[Simulation], bool]] = {
    "GPMKLClassifier": (_Additive, False),
    "GPMKLRegressor": (_Additive, True),
    WIDTHS: (_Widths, True),
}


def make(name: str, n_samples: int, options: Marginal) -> Simulation:
    """Make one of `MODELS` on so many fixed inputs."""
    kind, is_regression = MODELS[name]
    return kind(kernels(n_samples), is_regression, options)
