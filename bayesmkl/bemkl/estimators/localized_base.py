"""Gates, the choice of their width, and posterior summaries of both localized BEMKL estimators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator import step_progress
from bayesmkl._estimator.gate_features import (
    UncertainGates,
    bank_apart,
    check_gate_columns,
    features_of,
)
from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import VB, Marginal
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_integer, check_scale, shown
from bayesmkl._utils.warnings import holding_back
from bayesmkl.bemkl.estimators.base import BaseBEMKL, FitTask
from bayesmkl.bemkl.estimators.shared_docs import LOCALIZED
from bayesmkl.bemkl.gate_basis import GateBasis, gate_basis, gate_scale
from bayesmkl.bemkl.inference.loop import Algorithm, LoopOptions, LoopResult, OnSweep, maximize_elbo
from bayesmkl.bemkl.inference.marginal_localized import run_marginal_localized
from bayesmkl.bemkl.inference.runs import Fit, check_can_sample, variational_fit
from bayesmkl.bemkl.models import localized
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.reading.local_weights import (
    LocalDraws,
    aligned,
    gate_means,
    local_draws,
    score_of_local_draws,
    summarize,
)
from bayesmkl.bemkl.reading.predict import ScoreDraws, ScoreMoments
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.quality.checks import KernelQualityWarning
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["BaseLocalizedBEMKL"]

# Widths that are compared, in median distances between two samples; the first one is a constant gate.
WIDTHS = (np.inf, 1.0, 0.5)
# Widths are compared under the margin of the paper. Without one a label says so little that the bound of local gates,
# which has more to approximate, stays below that of constant ones in designs where it should not (three regions and
# twelve kernels, N = 200: above in none of five draws, under the margin in all five).
MARGIN = 1.0
COMPARED = 1e-5  # relative tolerance of bounds that are compared and not kept
CONSTANT = (
    "`gate_columns` must name columns of `X` that differ between samples, as `gate_features` beside precomputed "
    "kernels must; got {}, constant over all {} samples. Gates are functions of them: name others, or use the model "
    "without gates, BEMKLClassifier or BEMKLRegressor."
)


class _Choice(NamedTuple):
    """The models of one width."""

    basis: GateBasis
    task: FitTask
    fits: list[Fit]

    @property
    def bound(self) -> float:
        """Sum of the bounds of all models."""
        return float(sum(fit.elbo_history[-1] for fit in self.fits if fit.elbo_history is not None))


@fill_docs(LOCALIZED)
class BaseLocalizedBEMKL(UncertainGates, BaseBEMKL):
    """Gates of a Gaussian process, whose width is chosen by the bound."""

    _INFERENCES: ClassVar[tuple[str, ...]] = (VB.name, Marginal.name)
    _BY_TARGET: ClassVar[dict[str, Any]] = {"gate_width": 1.0}
    _takes_sparse = False  # gates see samples
    _takes_landmarks = False
    _streams_rows = False

    storage: Any = "dense"
    init: Any = "mean"
    nonnegative = False
    gate_columns: Any
    gate_columns_: np.ndarray | None
    n_gate_features_: int
    gate_basis_: GateBasis
    gate_features_: np.ndarray

    # ------------------------------------------------------------------------------------------- parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_gate_columns(self.gate_columns, self._is_precomputed())
        inference = self._inference()
        if isinstance(inference, Marginal) and inference.approximation != "ep":
            raise ValueError(
                "`approximation` of `inference` must be 'ep' for gates, whose chains know no other evidence of "
                f"labels; got {inference.approximation!r}."
            )
        self._width()
        if self.n_landmarks is not None:
            check_integer("n_landmarks", self.n_landmarks, low=2)

    def _width(self) -> float | None:
        """Return the width of the gates in median distances; None is chosen by the bound."""
        if not isinstance(self.gate_width, str):
            return check_scale("gate_width", self.gate_width)
        if self.gate_width != "auto":
            raise ValueError(
                f'`gate_width` must be "auto" or a positive number; got {shown(self.gate_width)}.'
            )
        return None

    @property
    def _bands_are_narrow(self) -> bool:
        return not isinstance(self._posteriors()[0], LocalDraws)

    def _kernel_prior(self) -> Gamma:
        return self._gamma_prior()

    def _new_bank(self, X: Samples | None = None) -> KernelBank:
        return bank_apart(self, super()._new_bank(X), X)

    # -------------------------------------------------------------------------------------------- inference

    def _fit_local(self, stack: DenseStack, targets: np.ndarray, gate_features: ArrayLike | None) -> None:
        """Fit a model to every row of the targets, with gates of every width, and keep the best width."""
        X = None if self.kernel_bank_ is None else self.kernel_bank_.X_train_
        features = features_of(self, X, gate_features, targets.shape[1], fitting=True)
        scale = gate_scale(features, self.n_landmarks, int(self.random_state or 0))
        if scale.is_constant and (X is None or self.gate_columns is not None):
            raise ValueError(CONSTANT.format(shown(self.gate_columns), len(features)))
        gram, asked = self._gram(stack), self._width()
        widths = WIDTHS if asked is None else (np.inf, asked)
        first, *others = (
            gate_basis(scale, features, w) for w in (widths[:1] if scale.is_constant else widths)
        )
        constant = self._fit_width(stack, gram, targets, first, features, MARGIN)
        with holding_back(KernelQualityWarning):  # of kernels, which are the same
            local = [self._fit_width(stack, gram, targets, basis, features, MARGIN) for basis in others]
            choices = [constant, *local]
            best = max(choices, key=lambda choice: choice.bound) if asked is None else choices[-1]
            if best.task.problems[0].margin != self._local_margin():
                best = self._fit_width(stack, gram, targets, best.basis, features, self._local_margin())
        self.gate_features_ = features
        self.gate_basis_ = best.basis
        self.gate_widths_ = np.array([choice.basis.width / scale.median for choice in choices])
        self.gate_elbos_ = np.array([choice.bound for choice in choices])
        self.gate_width_ = float(best.basis.width / scale.median)
        self.elbo_gain_ = max((choice.bound for choice in local), default=-np.inf) - constant.bound
        self._conclude(best.task, self._as_drawn(best))

    def _as_drawn(self, best: _Choice) -> list[Fit]:
        """Return the variational fits of the best width, or by marginal inference what is drawn from them on."""
        inference = self._inference()
        if not isinstance(inference, Marginal):
            return best.fits
        rng, total, fits = self._rng(), inference.n_warmup + -(-inference.n_points // inference.n_chains), []
        for problem, fit, label in zip(best.task.problems, best.fits, best.task.labels, strict=True):
            check_can_sample(problem, f'inference="{Marginal.name}"')
            with step_progress(self.verbose > 0, label, total, "step") as report:
                fits.append(run_marginal_localized(problem, fit.posterior, inference, rng, report))
        return fits

    def _fit_width(
        self,
        stack: DenseStack,
        gram: np.ndarray,
        targets: np.ndarray,
        basis: GateBasis,
        gate_features: np.ndarray,
        margin: float | None,
    ) -> _Choice:
        """Fit the models of one width; labels have a margin, a target has none."""
        features = basis.features(gate_features)
        problems = [self._local_problem(stack, gram, y, features) for y in targets]
        if margin is not None and problems[0].margin is not None:
            problems = [problem._replace(margin=margin) for problem in problems]
        what = "constant" if features.shape[1] == 1 else f"{basis.width:.2g} wide"
        labels = [f"gates {what}"] * len(problems)
        several, inits = len(problems) > 1, ["mean"] * len(problems)
        own = targets if several else targets[0]
        task = FitTask(problems, stack, own, several, localized, inits, labels)
        options = self._loop_options()
        if problems[0].margin != self._local_margin():  # only the bound is asked for
            options = options._replace(tol=max(options.tol, COMPARED))
        results = self._raise_bounds(task.algorithm, problems, inits, options, self._rng(), labels)
        fits = [variational_fit(result._replace(state=aligned(result.state))) for result in results]
        return _Choice(basis, task, fits)

    def _local_margin(self) -> float | None:
        """Return the margin of the labels; a target has none."""
        return None

    def _local_problem(
        self, stack: Any, gram: Any, y: np.ndarray, features: np.ndarray
    ) -> localized.LocalizedProblem:
        """Return the problem of labels or of a target."""
        raise NotImplementedError

    def _maximize(
        self,
        algorithm: Algorithm,
        runs: list[tuple[Any, Any]],
        options: LoopOptions,
        on_sweep: OnSweep | None = None,
    ) -> list[LoopResult]:
        """Run the loops one after the other."""
        return [maximize_elbo(algorithm, *run, options, on_sweep) for run in runs]

    def _program(self, X: Samples, y: Targets, X_new: Samples | None) -> NumPyroProgram:
        from bayesmkl.bemkl.inference.numpyro_localized import localized_program

        if self._is_precomputed():
            raise ValueError(
                "`kernels` must be a KernelBank: with precomputed kernels gates are functions of `gate_features`, "
                "which `numpyro_model` does not get. Append them to `X` and name them by `gate_columns`."
            )
        self.set_params(inference=VB.name).fit(X, y)  # for the width of the gates
        if len(self._posteriors()) > 1:
            raise ValueError(
                "`y` must have two classes or be one target: there is a model for each of "
                f"{len(self._posteriors())}, and no NumPyro program of them all. For that of one class, pass labels "
                "that say who belongs to it."
            )
        features = self.gate_basis_.features(self.gate_features_)
        problem = self._local_problem(self._training_stack(), None, self.target_, features)
        if X_new is None:
            return localized_program(problem)
        rows = self._validate_rows(X_new)
        blocks = [stack.columns(slice(None)) for stack in self._blocks(rows, np.arange(self.n_kernels_in_))]
        return localized_program(problem, np.concatenate(blocks, axis=1), self._gate_rows(rows, None))

    # ---------------------------------------------------------------------------------------------- results

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Return posterior moments; of several models each has a leading axis for them."""
        each = [self._local_moments(*pair) for pair in zip(task.problems, fits, strict=True)]
        values = {name: np.array([own[name] for own in each]) for name in each[0]}
        if not task.several:
            values = {name: value[0] for name, value in values.items()}
        return values | {
            "target_": task.targets,
            "storage_": task.stack.storage,
            "kernel_bytes_": int(task.stack.nbytes),
        }

    def _local_moments(self, problem: localized.LocalizedProblem, fit: Fit) -> dict[str, Any]:
        """Return posterior moments of one model by the names of the attributes."""
        posterior, n_features = fit.posterior, problem.features.shape[1]
        summary = summarize(problem.stack, problem.features, local_draws(posterior, self._rng()))
        if isinstance(posterior, LocalDraws):
            weights = posterior.weights[:, :, 0]
            mean, cov = weights.mean(axis=0), np.atleast_2d(np.cov(weights.T))
            intercept, dual = posterior.intercept.mean(), posterior.dual.mean(axis=0)
        else:
            readout = posterior.readout
            mean, cov = readout.mean[1::n_features], readout.cov[1::n_features, 1::n_features]
            intercept, dual = readout.mean[0], posterior.dual.mean
        return {
            "kernel_weights_": mean,
            "kernel_weights_std_": np.sqrt(np.diag(cov)),
            "kernel_weights_cov_": cov,
            "kernel_shares_": summary.shares,
            "kernel_shares_std_": summary.shares_std,
            "locality_": summary.locality,
            "locality_interval_": summary.locality_interval,
            "intercept_": intercept,
            "dual_coef_": dual,
        }

    def _posteriors(self) -> Sequence[localized.LocalizedState | LocalDraws]:
        """Return the posterior of every model."""
        check_is_fitted(self, "posterior_")
        posterior: Any = self.posterior_
        return posterior if type(posterior) is tuple else (posterior,)

    def _local_scores(
        self, X: Samples, gate_features: ArrayLike | None
    ) -> Iterator[list[ScoreMoments | ScoreDraws]]:
        """Yield the scores of all models, of a block of rows after the other."""
        posteriors = self._posteriors()
        rule = check_choice("predictive", self.predictive, ("full", "paper"))
        rows = self._validate_rows(X)
        features = self._gate_rows(rows, gate_features)
        first = 0
        for stack in self._blocks(rows, np.arange(self.n_kernels_in_)):
            own = features[first : first + stack.n_rows]
            first += stack.n_rows
            yield [
                score_of_local_draws(stack, own, posterior)
                if isinstance(posterior, LocalDraws)
                else self._local_score(stack, own, posterior, rule)
                for posterior in posteriors
            ]

    def _local_score(
        self, stack: DenseStack, features: np.ndarray, posterior: localized.LocalizedState, rule: str
    ) -> ScoreMoments:
        raise NotImplementedError

    def _scores_of_rows(self, X: Samples, gate_features: ArrayLike | None) -> list[ScoreMoments | ScoreDraws]:
        """Return the scores of all rows, of one model after the other."""
        blocks = zip(*self._local_scores(X, gate_features), strict=True)
        return [
            type(own[0])(*(np.concatenate(fields, axis=-1) for fields in zip(*own, strict=True)))
            for own in blocks
        ]

    def _gate_rows(self, rows: np.ndarray, gate_features: ArrayLike | None) -> np.ndarray:
        """Return the features φ of validated rows."""
        return self.gate_basis_.features(self._features_of_rows(rows, gate_features))

    def gates(
        self, X: Samples | None = None, gate_features: ArrayLike | None = None, return_std: bool = False
    ) -> Any:
        """Return the weight of each kernel at each sample, which has a sign.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.
        %(gate_features)s
        return_std : bool, default=False
            Also return posterior standard deviations, which variational inference makes too small; those of marginal
            inference can be read.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_kernels)
            :math:`E[e_m(z)]`; of more than two classes, (n_classes, n_rows, n_kernels), and so of targets. Known up
            to the sign and the scale of the whole, which `dual_coef_` has too: the mean gates of the training
            samples, `kernel_weights_`, sum to a positive number. By marginal inference gates are in units of their
            root mean square over training samples and kernels.
        std : ndarray of the same shape
            If `return_std`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        posteriors = self._posteriors()
        features = self.gate_basis_.features(self._gate_features(X, gate_features))
        found = [gate_means(posterior, features) for posterior in posteriors]
        mean, std = (np.stack(each) for each in zip(*found, strict=True))
        if len(posteriors) == 1:
            mean, std = mean[0], std[0]
        return (mean, std) if return_std else mean
