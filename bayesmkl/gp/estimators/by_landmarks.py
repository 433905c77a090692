r"""Fits of many samples through landmarks: what an estimator does with pseudo-samples in place of its samples.

Under other likelihoods than the normal one, the variational posterior is the prior times a normal site for every
sample (Adam, Chang, Khan and Solin 2021, Dual parameterization of sparse variational Gaussian processes), and the
evidence has the lower bound

.. math:: \log Z(\lambda, \nu; \eta) + \sum_i E_q[\log p(y_i \mid f_i) - \log t_i(f_i)], \qquad
   t_i(f) = N(\nu_i / \lambda_i \mid f, 1 / \lambda_i) .

`Z` is the collapsed bound of the sites as observations, `bayesmkl.gp.landmarks`. The bound is at its maximum
over `q` where

.. math:: \lambda_i = -E_q[\partial^2 \log p(y_i \mid f_i)], \qquad
   \nu_i = E_q[\partial \log p(y_i \mid f_i)] + \lambda_i E_q[f_i] ,

to which natural-gradient steps of size one lead. Each pass over the samples takes one, and sums what the sites are to
the features; with these sums hyperparameters climb :math:`\log Z` and their prior at no further cost. Expectations of
the densities less the sites have no slope by `q` at the maximum, so that nothing is missing in the gradient, and the
posterior of the hyperparameters is that with the sites held. First rounds are over some samples only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg.blas import strmm

from bayesmkl._numerics.linalg import spd_inverse_root
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.progress import announce
from bayesmkl.gp.conditioning import Sites, cavity
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.drawing import climb
from bayesmkl.gp.estimators.settings import is_spike_slab
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_height
from bayesmkl.gp.hyperpriors import ParameterPriors
from bayesmkl.gp.landmarks import (
    LEAST_LANDMARKS,
    LOG_2PI,
    Features,
    PseudoSamples,
    Remainder,
    Sums,
    allot,
    between_weights,
    feature_blocks,
    gather,
    landmark_features,
    pseudo_samples,
)
from bayesmkl.gp.reading import HyperDraws, LeftOut, average_left_out, leave_out
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.landmarks import distinct_rows
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian, Heteroscedastic, Logit, Probit
from bayesmkl.outcomes.base import Likelihood, no_parameters

if TYPE_CHECKING:
    from bayesmkl.gp.estimators.base import BaseGPMKL

FIRST_SAMPLES, SAMPLES_PER_FEATURE = 4000, 4  # of the first round
GROWTH = 10  # of samples from one round to the next
MOST_PASSES = 30
MOST_STEPS = 25  # of hyperparameters between two passes
TOL = 1e-2  # largest root mean square change of a site, in standard deviations of its score
NARROW, NODES_OF_NARROW, NODES = (
    0.5,
    8,
    20,
)  # of a normal score: standard deviation, and nodes below it and above
LEAST_PRECISION = 1e-10
SLACK = 0.1  # nats by which the bound may fall without shorter steps
SHORTEST = 0.125
TINY = float(np.finfo(float).tiny)


class Predictor(NamedTuple):
    """Moments of scores from features, given hyperparameters and sites.

    Attributes
    ----------
    scales : ndarray of shape (n_features,)
        Prior variances of weights of features.
    of_kernels : ndarray of shape (n_kernels,)
        Factors of kernels.
    mean : ndarray of shape (n_features,)
    root : ndarray of shape (n_features, n_features)
        Upper triangular, in single precision and Fortran order: features times it, squared and summed, is the
        posterior variance, of which no digits cancel.
    """

    scales: np.ndarray
    of_kernels: np.ndarray
    mean: np.ndarray
    root: np.ndarray

    def moments(self, block: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return moments of the scores of a block of rows.

        Parameters
        ----------
        block : ndarray of shape (n_rows, n_features)
        diagonal : ndarray of shape (n_kernels, n_rows)

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        variance : ndarray of shape (n_rows,)
            Of what landmarks know.
        rest : ndarray of shape (n_rows,)
            Variance that they do not explain.
        """
        left = strmm(1.0, self.root, block.astype(np.float32).T, trans_a=1, overwrite_b=1).T
        variance = np.einsum("ij,ij->i", left, left).astype(float)
        rest = self.of_kernels @ diagonal + self.scales[0] - block**2 @ self.scales
        return block @ self.mean, np.maximum(variance, TINY), np.maximum(rest, 0.0)


class FoundSites(NamedTuple):
    """Sites, and what they make of the samples.

    Attributes
    ----------
    sites : Sites
        Of the samples.
    pseudo : PseudoSamples
    targets : ndarray of shape (1, n_pseudo)
    remainder : Remainder
    converged : bool
        Whether they have settled.
    coordinates : ndarray of shape (n_coordinates,)
        Hyperparameters at their mode.
    """

    sites: Sites
    pseudo: PseudoSamples
    targets: np.ndarray
    remainder: Remainder
    converged: bool
    coordinates: np.ndarray


def predictor_of(pseudo: PseudoSamples, intercept_std: float, weights: np.ndarray, sites: Sites) -> Predictor:
    """Condition weights of features on the sites of pseudo-samples.

    Parameters
    ----------
    pseudo : PseudoSamples
    intercept_std : float
        Of the prior.
    weights : ndarray of shape (n_kernels,)
    sites : Sites
        Of the pseudo-samples.
    """
    scales = pseudo.scales(weights, intercept_std)
    loadings = pseudo.loadings * np.sqrt(scales)
    told = (loadings.T * sites.precision) @ loadings
    np.einsum("ii->i", told)[...] += 1.0
    inverse_root, _, pull = spd_inverse_root(told, loadings.T @ sites.linear, overwrite=True)
    root = np.sqrt(scales)[:, None] * inverse_root
    return Predictor(
        scales, weights**2 / pseudo.units, np.sqrt(scales) * pull, np.asfortranarray(root, dtype=np.float32)
    )


def find_sites(
    bank: KernelBank,
    features: Features,
    X: Any,
    y: np.ndarray,
    likelihood: Likelihood,
    model_of: Callable[[PseudoSamples, np.ndarray, Remainder], Hypermodel],
    rng: np.random.Generator,
) -> FoundSites:
    """Find sites and the mode of the hyperparameters, over some samples, over more of them, and over all.

    Parameters
    ----------
    bank : KernelBank
    features : Features
        Of the bank.
    X : ndarray of shape (n_samples, n_columns)
        Validated samples.
    y : ndarray of shape (n_samples,)
    likelihood : Likelihood
        Without parameters.
    model_of : callable
        Makes a model of pseudo-samples.
    rng : numpy.random.Generator
        Of the samples of the first rounds.
    """
    size = max(FIRST_SAMPLES, SAMPLES_PER_FEATURE * features.size)
    problem, start = _Problem(bank, features, X, y, likelihood, model_of), _State(None, None)
    while size < len(y) / 2:
        some = np.sort(rng.choice(len(y), size, replace=False))
        _, start = _climb(problem._replace(X=X[some], y=y[some]), start)
        size *= GROWTH
    return _climb(problem, start)[0]


class _Problem(NamedTuple):
    """What `find_sites` is given, of the samples of a round."""

    bank: KernelBank
    features: Features
    X: Any
    y: np.ndarray
    likelihood: Likelihood
    model_of: Callable[[PseudoSamples, np.ndarray, Remainder], Hypermodel]


class _State(NamedTuple):
    coordinates: np.ndarray | None
    predictor: Predictor | None


def _climb(problem: _Problem, state: _State) -> tuple[FoundSites, _State]:
    """Alternate between sites and hyperparameters until neither moves."""
    found, features = _pass(problem, state.predictor, None, 1.0), problem.features
    equal, _, of_equal = pseudo_samples(features, found.equal)  # type: ignore[arg-type]
    size, bound = 1.0, -np.inf
    for n_passes in range(1, MOST_PASSES + 1):
        if n_passes > 1:
            found = _pass(problem, state.predictor, found.sites, size)
        sites = found.sites
        pseudo, targets, remainder = pseudo_samples(features, found.weighted, equal.units)
        constant = found.gain + 0.5 * float(np.log(sites.precision).sum())
        remainder = remainder._replace(unexplained=of_equal.unexplained, constant=constant)
        model = problem.model_of(pseudo, targets, remainder)
        coordinates = climb(model, state.coordinates, MOST_STEPS)[0]
        point, _ = evaluate_height(model, coordinates, None)
        if point.log_density < bound - SLACK:
            size = max(0.5 * size, SHORTEST)
        bound = point.log_density
        weights = model.weights(coordinates)
        predictor = predictor_of(pseudo, model.covariance.intercept_std, weights, point.sites[0])
        converged = found.change <= TOL
        state = _State(coordinates, predictor)
        if converged:
            break
    remainder = remainder._replace(turn=between_weights(equal, pseudo))
    return FoundSites(sites, pseudo, targets, remainder, converged, coordinates), state


class _Pass(NamedTuple):
    sites: Sites
    gain: float
    change: float
    weighted: Sums
    equal: Sums | None


def _pass(problem: _Problem, predictor: Predictor | None, old: Sites | None, size: float) -> _Pass:
    """Step to new sites, and sum what they are to the features."""
    features, y = problem.features, problem.y
    precision, linear = np.empty(len(y)), np.empty(len(y))
    weighted, equal = Sums(features, 1), Sums(features, 1) if old is None else None
    gain = moved = 0.0
    for rows, block, diagonal in feature_blocks(problem.bank, features, problem.X):
        mean, variance = np.zeros(len(block)), np.ones(len(block))
        if predictor is not None:
            mean, own, rest = predictor.moments(block, diagonal)
            variance = own + rest
        log_density, first, second = expected(problem.likelihood, y[rows], mean, variance)
        new = np.maximum(-second, LEAST_PRECISION)
        at = first + new * mean
        if old is not None:
            steps = new - old.precision[rows], at - old.linear[rows]
            new, at = old.precision[rows] + size * steps[0], old.linear[rows] + size * steps[1]
            sd = np.sqrt(variance)
            moved += float(((sd * (steps[1] - mean * steps[0])) ** 2 + (variance * steps[0]) ** 2).sum())
        precision[rows], linear[rows] = new, at
        log_site = 0.5 * (np.log(new) - LOG_2PI - new * ((mean - at / new) ** 2 + variance))
        gain += float((log_density - log_site).sum())
        weighted.add(block, diagonal, at[None] / new, new)
        if equal is not None:
            equal.add(block, diagonal, np.zeros((1, len(block))))
    change = np.inf if old is None else float(np.sqrt(moved / len(y)))
    return _Pass(Sites(precision, linear), gain, change, weighted, equal)


def expected(
    likelihood: Likelihood, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return expected log densities under normal scores, and those of their two derivatives, each (n_rows,).

    Parameters
    ----------
    likelihood : Likelihood
        Without parameters.
    y : ndarray of shape (n_rows,)
    mean, variance : ndarray of shape (n_rows,)
        Of the scores.
    """
    sd, nothing = np.sqrt(variance), np.zeros(0)
    found = np.zeros((3, len(y)))
    for n_nodes, rows in ((NODES_OF_NARROW, sd < NARROW), (NODES, sd >= NARROW)):
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        own, total = y[rows], np.zeros((3, np.count_nonzero(rows)))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            score = mean[rows] + node * sd[rows]
            slopes = likelihood.derivatives(own, score, nothing, 2)
            total[0] += weight * likelihood.log_density(own, score, nothing)
            total[1] += weight * slopes.first
            total[2] += weight * slopes.second
        found[:, rows] = total
    return found[0], found[1], found[2]


POINT_ENTRIES = 2**23  # of the covariances at all points of the posterior that predictions are made from
LEFT_OUT_ENTRIES = 2**20  # the same where samples are left out
LEFT_OUT_PRODUCTS = 2**34  # numbers that are multiplied for it
ALLOTTING_SAMPLES, ALLOTTING_ROUNDS, ALLOTTING_STEPS = 16_000, 3, 25
FEWEST_POINTS = 4
NOT_SETTLED = (
    "finished before the sites of its samples settled, so its bound is looser than possible. Use a `kernel_prior` "
    "with a smaller scale, or other landmarks."
)
REMEDY = "Use fewer landmarks or kernels."
MOST_COMPARED = 3000  # samples, beyond which a bank without landmarks gets some
TOTAL_LANDMARKS = 256  # of all kernels together, of such a bank
CATEGORICAL = 2  # in codes of columns
ALL_PAIRS = "Compare with all training samples (`landmarks=None`)."
FEWER_SAMPLES = (
    f"Fit to at most {MOST_COMPARED} samples, or compare all of them, which takes hours: `landmarks=None` and "
    "`inference=Marginal(total_landmarks=None)`."
)


def check_with_landmarks(model: BaseGPMKL, bank: KernelBank) -> None:
    """Raise for parameters that need all pairs of samples, where a bank has landmarks.

    Parameters
    ----------
    model : BaseGPMKL
    bank : KernelBank
    """
    if bank.landmarks is not None:
        _refuse_pairs(model, "a bank that has `landmarks`", ALL_PAIRS)


def with_landmarks(model: BaseGPMKL, bank: KernelBank, X: CheckedTable) -> KernelBank:
    """Give a bank landmarks if these are asked for, or samples are too many to be compared with each other.

    Parameters
    ----------
    model : BaseGPMKL
    bank : KernelBank
        Which is changed and returned.
    X : CheckedTable
        Training samples.

    Raises
    ------
    ValueError
        For parameters that need all pairs of samples, with the number of samples that will do.
    """
    n_samples, total = len(X.values), model._inference().total_landmarks
    if bank.landmarks is not None or total is None or (total == "auto" and n_samples <= MOST_COMPARED):
        return bank
    _refuse_pairs(model, f"landmarks, which {n_samples} samples are compared with", FEWER_SAMPLES)
    if model.sample_weight_ is not None:
        raise ValueError(f"`sample_weight` must be None with {n_samples} samples. {FEWER_SAMPLES}")
    seen = [columns for _, functions in bank.kernels_on(X) for _, columns in functions]
    columns, codes = np.unique(np.concatenate(seen)), X.codes
    bank.landmarks = min(
        TOTAL_LANDMARKS if total == "auto" else total, len(distinct_rows(X.values[:, columns]))
    )
    if codes is not None and (codes[columns] == CATEGORICAL).any():  # which have no centers
        bank.landmark_selection = "random"
    announce(model.verbose > 0, f"{n_samples} samples are compared with {bank.landmarks} landmarks.")
    return bank


def _total(model: BaseGPMKL) -> int | None:
    """Return how many landmarks all kernels have together; None: each has all."""
    total, bank = model._inference().total_landmarks, model.kernel_bank_
    if total != "auto":
        return total  # type: ignore[return-value]
    given = isinstance(model.kernels, KernelBank) and model.kernels.landmarks is not None
    return None if given else max(TOTAL_LANDMARKS, LEAST_LANDMARKS * bank.n_kernels_)  # type: ignore[union-attr]


def _refuse_pairs(model: BaseGPMKL, where: str, remedy: str) -> None:
    """Raise for parameters that need all pairs of samples."""
    likelihood, sampler = model._likelihood(), model._inference().sampler
    has_sets = is_spike_slab(model.kernel_prior, model.KERNEL_PRIORS)
    known = model._takes_landmarks and isinstance(likelihood, Gaussian | Probit | Logit)
    for name, is_wrong, wanted, value, instead in (
        ("kernel_prior", has_sets, 'not be "spike-slab"', "spike-slab", 'Use "nested" or "horseshoe". '),
        ("likelihood", not known, "be normal, probit or logit", likelihood, ""),
        ("design", model.design is not None, "be None", model.design, "Make its columns views of the bank. "),
        ("sampler` of `inference", sampler != "importance", 'be "importance"', sampler, ""),
        ("missing_views", model.missing_views != "error", 'be "error"', model.missing_views, ""),
        ("kernels", model._learns, "have given widths", "one that is learned", ""),
    ):
        if is_wrong:
            raise ValueError(f"`{name}` must {wanted} with {where}; got {value!r}. {instead}{remedy}")


def refuse_program(model: BaseGPMKL) -> None:
    """Raise for a program of the model where kernels of all samples are not known."""
    if model._has_landmarks:
        raise ValueError(
            "`kernels` must be a bank with `landmarks=None` for a program of all training samples. Fit the model to "
            "some of them."
        )
    if model._learns:
        raise ValueError(
            "`kernels` must have given widths for a program, which holds kernels as data; got a Gaussian whose width "
            "is learned. Use KernelBank(scale=True), or Gaussian(relative_width=1)."
        )


class KnownNoise(Heteroscedastic):
    """Normal noise of known precisions, the last field of the targets: what sites are to pseudo-samples."""

    names = priors = ()

    def of_samples(self, y: Any, parameters: Any) -> Any:
        """Return standard deviations; there are no parameters."""
        return super().of_samples(y, np.ones(1))

    def pull(self, y: Any, by_samples: Any) -> Any:
        """Return slopes by the parameters: none."""
        return no_parameters(by_samples[0])


class Induced(NamedTuple):
    """Samples as pseudo-samples.

    Attributes
    ----------
    pseudo : PseudoSamples
    likelihood : Likelihood
        Of pseudo-samples.
    targets : ndarray of shape (n_outputs, n_fields, n_pseudo)
        Of pseudo-samples, with the positions of their task and their precisions.
    remainder : Remainder
    sites : Sites or None
        Of the samples; None: those of normal noise.
    converged : bool
        Whether sites have settled.
    start : ndarray of shape (n_coordinates,) or None
        Hyperparameters near the mode, if some are known.
    """

    pseudo: PseudoSamples
    likelihood: Any
    targets: np.ndarray
    remainder: Remainder
    sites: Sites | None = None
    converged: bool = True
    start: np.ndarray | None = None

    def within(self, model: Hypermodel) -> Hypermodel:
        """Return the model of the pseudo-samples."""
        return model._replace(
            likelihood=self.likelihood,
            targets=self.targets,
            remainder=self.remainder,
            evidence=exact_evidence,
        )


def induce(model: BaseGPMKL, targets: np.ndarray, rng: np.random.Generator) -> Induced:
    """Read the training samples, and make pseudo-samples of them.

    Parameters
    ----------
    model : BaseGPMKL
        Whose bank is fitted.
    targets : ndarray of shape (n_outputs, n_samples)
        Numbers, or labels -1 and +1.
    rng : numpy.random.Generator
        Of samples from which the first sites are found.

    Raises
    ------
    ValueError
        For several outputs of other likelihoods than the normal one.
    """
    bank: Any = model.kernel_bank_
    total = _total(model)
    if total is not None and total < LEAST_LANDMARKS * bank.n_kernels_:
        raise ValueError(
            f"`total_landmarks` of `inference` must be at least {LEAST_LANDMARKS} for each of {bank.n_kernels_} "
            f"kernels; got {total}."
        )
    n_features = min(bank.n_kernels_ * len(bank.basis_), np.inf if total is None else total)
    require_memory(32.0 * n_features**2, f"products of {n_features} features of landmarks", REMEDY)
    start: np.ndarray | None = None
    if total is None:
        features = landmark_features(bank)
    else:
        features, start = _allotted(model, total, targets, rng)
    if isinstance(model.likelihood_, Gaussian):
        found = pseudo_samples(features, gather(bank, features, bank.X_train_, targets))
        return _with_fields(*found, Heteroscedastic(Gaussian()))._replace(start=start)
    if len(targets) > 1:
        fewer = FEWER_SAMPLES if targets.shape[1] > MOST_COMPARED else "Or use `landmarks=None`."
        raise ValueError(
            f"`y` must have two classes with landmarks; got {len(targets)} classes or labels. Fit one model for "
            f"each, as sklearn.multiclass.OneVsRestClassifier does. {fewer}"
        )

    def model_of(pseudo: PseudoSamples, seen: np.ndarray, remainder: Remainder) -> Hypermodel:
        model.pseudo_samples_ = pseudo
        own = _with_fields(pseudo, seen, remainder, KnownNoise(Gaussian()))
        return own.within(model._hypermodel(DenseStack(pseudo.matrices()), targets, model._inference()))

    found_sites = find_sites(bank, features, bank.X_train_, targets[0], model.likelihood_, model_of, rng)
    own = _with_fields(found_sites.pseudo, found_sites.targets, found_sites.remainder, KnownNoise(Gaussian()))
    return own._replace(
        sites=found_sites.sites, converged=found_sites.converged, start=found_sites.coordinates
    )


def _allotted(
    model: BaseGPMKL, total: int, targets: np.ndarray, rng: np.random.Generator
) -> tuple[Features, np.ndarray | None]:
    """Return features of so many landmarks in total, by the kernel weights of a fit to some samples, and its mode.

    Labels are numbers there, with normal noise: no more than the sizes of the kernel weights is wanted.
    """
    bank: Any = model.kernel_bank_
    some: Any = slice(None)
    if len(bank.X_train_) > ALLOTTING_SAMPLES:
        some = np.sort(rng.choice(len(bank.X_train_), ALLOTTING_SAMPLES, replace=False))
    noise, at = Heteroscedastic(Gaussian()), None
    counts = [min(total // bank.n_kernels_, len(bank.basis_))] * bank.n_kernels_
    for _ in range(ALLOTTING_ROUNDS):
        features = landmark_features(bank, counts)
        found = pseudo_samples(features, gather(bank, features, bank.X_train_[some], targets[:, some]))
        own = _with_fields(*found, noise)
        model.pseudo_samples_ = own.pseudo
        fitted = own.within(model._hypermodel(DenseStack(own.pseudo.matrices()), targets, model._inference()))
        fitted = fitted._replace(parameter_prior=ParameterPriors(noise.priors))
        at = climb(fitted, at, ALLOTTING_STEPS)[0]
        counts = allot(bank, fitted.values(at)[0] ** 2 / own.pseudo.units, total)
    return landmark_features(bank, counts), at


def _with_fields(pseudo: PseudoSamples, seen: np.ndarray, remainder: Remainder, likelihood: Any) -> Induced:
    fields = np.stack([seen, np.zeros_like(seen), np.full_like(seen, pseudo.precision)], axis=1)
    return Induced(pseudo, likelihood, fields, remainder)


def few_points(draws: HyperDraws, n_entries: int = POINT_ENTRIES, fewest: int = FEWEST_POINTS) -> HyperDraws:
    """Return equally likely hyperparameters of as few points as many predictions can afford.

    Parameters
    ----------
    draws : HyperDraws
        Of pseudo-samples.
    n_entries : int
        Of the covariances of pseudo-samples at all points together, at most.
    fewest : int
        Points there are in any case.
    """
    wanted = max(n_entries // draws.site_precision.shape[-1] ** 2, fewest)
    if wanted >= len(draws.kernel_weights):
        return draws
    sizes = np.linalg.norm(draws.kernel_weights[draws.point], axis=1)
    order = np.argsort(sizes, kind="stable")  # so that they are spread over small and large functions
    chosen = order[((np.arange(wanted) + 0.5) / wanted * len(order)).astype(int)]
    points, point = np.unique(draws.point[chosen], return_inverse=True)
    of_points = (
        "kernel_weights",
        "parameters",
        "site_precision",
        "site_linear",
        "cavity_mean",
        "cavity_variance",
        "group_std",
        "task_values",
    )
    return draws._replace(point=point, **{name: getattr(draws, name)[points] for name in of_points})


def mean_duals(covariance: Additive, draws: HyperDraws) -> tuple[np.ndarray, np.ndarray]:
    """Return mean weights of pseudo-samples, (n_outputs, n_kernels, n_pseudo), and intercepts, (n_outputs,).

    Parameters
    ----------
    covariance : Additive
        Of the pseudo-samples.
    draws : HyperDraws
    """
    found = draws.factorized(covariance, np.arange(len(draws.probability)))
    each = np.array([[posterior.dual for posterior in own] for own in found])
    each *= draws.probability[:, None, None]
    duals = [covariance.part_duals(draws.weights, own) for own in each.swapaxes(0, 1)]
    return np.stack(duals), covariance.intercept_std**2 * each.sum(axis=(0, 2))


def left_out_of_samples(
    model: BaseGPMKL, induced: Induced, covariance: Additive, targets: np.ndarray
) -> LeftOut:
    r"""Return log densities of left-out targets, by few hyperparameters.

    A sample is taken out of what landmarks know, and the variance of its score that they do not explain is added
    again.

    Parameters
    ----------
    model : BaseGPMKL
    induced : Induced
    covariance : Additive
        Of the pseudo-samples.
    targets : ndarray of shape (n_outputs, n_samples)
    """
    bank: Any = model.kernel_bank_
    n_entries = min(LEFT_OUT_ENTRIES, LEFT_OUT_PRODUCTS // targets.shape[-1])
    draws, pseudo = few_points(model.posterior_, n_entries, 1), induced.pseudo
    shape = len(draws.kernel_weights), len(targets)
    predictors = [
        [
            predictor_of(pseudo, covariance.intercept_std, weights, Sites(*own))
            for own in zip(draws.site_precision[at], draws.site_linear[at], strict=True)
        ]
        for at, weights in enumerate(draws.weights)
    ]
    found = np.empty((*shape, targets.shape[-1]))
    for rows, block, diagonal in feature_blocks(bank, pseudo.features, bank.X_train_):
        for at, k in np.ndindex(shape):
            y, own = targets[k, rows], draws.parameters[at, k]
            mean, variance, rest = predictors[at][k].moments(block, diagonal)
            if induced.sites is None:
                slopes = model.likelihood_.derivatives(y, np.zeros_like(y), own, 2)
                site = Sites(-slopes.second, slopes.first)
            else:
                site = Sites(*(values[rows] for values in induced.sites))
            left = cavity(_Known(mean, variance), site)  # type: ignore[arg-type]
            left = left._replace(precision=1.0 / (1.0 / left.precision + rest))
            found[at, k, rows] = leave_out(model.likelihood_, y, left, own)[0]
    return average_left_out(draws.probability, found, model._power(targets) * found)


def read_samples(model: BaseGPMKL, induced: Induced, targets: np.ndarray) -> LeftOut:
    """Set what a fit says of landmarks rather than of pseudo-samples, and return leave-one-out densities.

    `dual_coef_` and `intercept_` are those of the points from which all is predicted.

    Parameters
    ----------
    model : BaseGPMKL
        With `posterior_`, which is set anew.
    induced : Induced
    targets : ndarray of shape (n_outputs, n_samples)
    """
    covariance = model._covariance(DenseStack(induced.pseudo.matrices()))
    duals, intercept = mean_duals(covariance, few_points(model.posterior_))
    model.pseudo_samples_ = induced.pseudo._replace(dual=duals)
    bank: Any = model.kernel_bank_
    n_landmarks = len(bank.basis_)
    of_kernels = [induced.pseudo.of_landmarks(m, duals[:, m], n_landmarks) for m in range(duals.shape[1])]
    duals = np.stack(of_kernels, axis=1)
    several = len(targets) > 1
    model.dual_coef_ = duals if several else duals[0]
    model.intercept_ = intercept if several else float(intercept[0])
    left_out = left_out_of_samples(model, induced, covariance, targets)
    draws = model.posterior_
    model.posterior_ = draws._replace(
        cavity_mean=draws.cavity_mean[..., :0], cavity_variance=draws.cavity_variance[..., :0]
    )
    return left_out


class _Known(NamedTuple):
    """Means and variances of scores, each of shape (n_samples,)."""

    mean: np.ndarray
    variance: np.ndarray
