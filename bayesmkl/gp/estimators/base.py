"""Parameters, inference and posterior summaries of the additive Gaussian process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.program import NumPyroProgram, numpyro_model
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.memory import available_memory, format_bytes, require_memory
from bayesmkl._utils.options import Marginal, inference_of
from bayesmkl._utils.progress import announce, step_progress
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale
from bayesmkl._utils.warnings import warn_user
from bayesmkl.gp.conditioning import Factored
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.design import (
    FittedDesign,
    GroupLabels,
    apart_from_design,
    check_design,
    check_known_columns,
    learn_groups,
    number_groups,
)
from bayesmkl.gp.drawing import check_many, draw_hyperparameters, with_kernels_to_choose
from bayesmkl.gp.effects import DesignRows, TaskPrior, Tasks
from bayesmkl.gp.estimators.by_landmarks import (
    NOT_SETTLED,
    Induced,
    check_with_landmarks,
    few_points,
    induce,
    read_samples,
    refuse_program,
    with_landmarks,
)
from bayesmkl.gp.estimators.completion import CompletingMKL
from bayesmkl.gp.estimators.settings import GPMKL, check_learned, checked_weight_prior, counted, of_kernels
from bayesmkl.gp.evidence import ep_evidence, exact_evidence, laplace_evidence, student_evidence
from bayesmkl.gp.hyperposterior import Draws, Hypermodel, members, share_error
from bayesmkl.gp.hyperpriors import HalfT, NestedShares, ParameterPriors, WeightPrior, WithDesign
from bayesmkl.gp.reading import (
    KEPT,
    HyperDraws,
    LeftOut,
    PriorParts,
    Reading,
    ScoreMoments,
    likely_points,
    part_bytes,
    read,
    score_moments,
)
from bayesmkl.gp.selection import SpikeSlabWeights
from bayesmkl.gp.unknown_points import CompletedKernels
from bayesmkl.gp.widths import WidthPrior
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.packed import unheld
from bayesmkl.kernels.tables import read_frame
from bayesmkl.kernels.views import TOGETHER
from bayesmkl.outcomes import Gaussian, Heteroscedastic, StudentT
from bayesmkl.outcomes.base import Likelihood, repeated

LEAST_POINTS = 100  # where there is nothing to infer
REFIT_DRAWS = 500  # where no more is asked than predictions
EVIDENCES = {"ep": ep_evidence, "laplace": laplace_evidence}
EVIDENCE_OF: dict[tuple[type, str], Any] = {(Gaussian, name): exact_evidence for name in EVIDENCES}
EVIDENCE_OF[StudentT, "ep"] = student_evidence
REMEDY = "Use fewer kernels or samples, or a smaller `n_draws` of `inference`."
KNOWN_BYTES = 2**29  # of factors that models keep for their next predictions, all models together
FEW_BYTES = 2**25  # up to which factors have double precision: 40 of them at 323 samples
KNOWN_LOCK = threading.Lock()


class _KnownScores(NamedTuple):
    """What predictions need of the training scores.

    Attributes
    ----------
    covariance : Additive
        Without training kernels where there are `posteriors`.
    completed : CompletedKernels or None
    draws : HyperDraws
    posteriors : list of list of Factored, optional
        See `score_moments`.
    """

    covariance: Additive
    completed: CompletedKernels | None
    draws: HyperDraws
    posteriors: list[list[Factored]] | None = None


# By models, so that files, pickles and copies hold nothing of it: the posterior that it belongs to, and its bytes.
KNOWN: WeakKeyDictionary[BaseGPMKL, tuple[HyperDraws, _KnownScores, int]] = WeakKeyDictionary()


@fill_docs(GPMKL)
class BaseGPMKL(CompletingMKL):
    """An additive Gaussian process whose kernel weights are inferred."""

    _OUTCOME: ClassVar[str] = "numbers"  # or "labels", "counts", "grades", "times"
    _takes_offset: ClassVar[bool] = False

    posterior_: HyperDraws
    likelihood_: Likelihood
    parameters_: dict[str, Any]
    design_: FittedDesign | None = None
    group_labels_: tuple[GroupLabels, ...] = ()  # of groups that are text
    effects_: np.ndarray
    target_: np.ndarray
    elpd_i_: np.ndarray
    log_evidence_: float
    y_mean_: Any  # of numbers and counts alone, as the next
    y_scale_: Any

    # ------------------------------------------------------------------------------------------ parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._inference()
        self._weight_prior()
        self._likelihood()
        check_scale("intercept_std", self.intercept_std)
        check_design(self.design, self._is_precomputed(), self._takes_offset)
        if isinstance(self.kernels, KernelBank):
            check_with_landmarks(self, self.kernels)
            if self._learns:
                check_learned(self, self.kernels)

    def _numbered(self, X: Any) -> Any:
        self.group_labels_ = ()
        if self.design is not None:
            named = (("group_columns", self.design.group_columns), ("task_column", self.design.task_column))
            check_known_columns(X, self.design)
            self.group_labels_ = sum((learn_groups(columns, X, name) for name, columns in named), ())
        return number_groups(X, self.group_labels_)

    def _columns_beside(self) -> list[np.ndarray]:
        return [] if self.design_ is None else [np.array(self.design_.columns, dtype=int)]

    def _fit_stack(
        self, X: Samples, y: Targets, *, counts: np.ndarray | None = None, **check_y: Any
    ) -> tuple[Any, np.ndarray]:
        self.design_, self.group_labels_, self.sample_weight_ = None, (), counts
        stack, y = super()._fit_stack(X, y, counts=counts, **check_y)
        alone = self.together and not self._has_together
        announce(self.verbose > 1 and alone, "no views together: fewer than two views vary")
        return stack, y

    def _validate_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "kernel_names_")
        if isinstance(X, CheckedTable):
            return X.values
        X = check_known_columns(read_frame(X), self.design_)
        return super()._validate_rows(number_groups(X, self.group_labels_))

    def _new_bank(self, X: Any = None) -> KernelBank:
        bank = super()._new_bank(X)
        if X is None:
            return bank
        bank, self.design_ = apart_from_design(
            bank, X, self.design, self.n_features_in_, self.group_labels_, self.sample_weight_
        )
        return with_landmarks(self, bank, X)

    def _inference(self) -> Marginal:
        """Return the options of the inference, checked."""
        found: Any = inference_of(self.inference, (Marginal.name,))
        return found

    def _weight_prior(self) -> Any:
        return checked_weight_prior(self.kernel_prior, self.KERNEL_PRIORS)

    def _likelihood(self) -> Likelihood:
        """Return the likelihood, checked, as far as it is known without data."""
        raise NotImplementedError

    def _covariance(self, stack: Stack, units: np.ndarray | None = None) -> Additive:
        effects = tasks = None
        if self.design_ is not None and self.design_.has_effects:
            X = self.kernel_bank_.X_train_  # type: ignore[union-attr]
            effects, task = self.design_.effects(X), self.design_.task(X)
            tasks = None if task is None else Tasks(task, len(self.design_.tasks))
        if units is None:
            pseudo = self.pseudo_samples_
            units = kernel_units(stack, self.sample_weight_) if pseudo is None else pseudo.units
        return Additive(stack, units, float(self.intercept_std), effects, tasks, self.sample_weight_)

    def _hypermodel(
        self, stack: DenseStack, targets: np.ndarray, options: Marginal, kept: np.ndarray | None = None
    ) -> Hypermodel:
        """Return all that is not inferred; `targets` are (n_outputs, n_samples), `kept` as in `_refit`."""
        likelihood = self.likelihood_
        noise = likelihood.likelihood if isinstance(likelihood, Heteroscedastic) else likelihood
        evidence = EVIDENCE_OF.get((type(noise), options.approximation), EVIDENCES[options.approximation])
        power = self._power(targets)
        if self.sample_weight_ is not None:
            likelihood, targets = repeated(likelihood, targets, self.sample_weight_)
        covariance, prior = self._covariance(stack), self._hyperprior(kept, stack.learned)
        return Hypermodel(
            covariance, likelihood, targets, prior, ParameterPriors(likelihood.priors), evidence, power=power
        )

    def _power(self, targets: np.ndarray) -> float:
        """Return the power of the evidence of all outputs; `targets` are (n_outputs, n_samples)."""
        return 1.0

    def _hyperprior(self, kept: np.ndarray | None = None, learned: tuple[Any, ...] = ()) -> WeightPrior:
        """Return the prior of the weights of all kernels or of those at some positions, of the design and of widths.

        Kernels whose widths are inferred are `learned`, see `bayesmkl.kernels.stacks.base.Stack`.
        """
        prior, design = self._weight_prior(), self.design_
        if isinstance(prior, SpikeSlabWeights | NestedShares):
            prior = of_kernels(prior, list(self.kernel_names_), self._kernel_views(), kept)
        widths = WidthPrior(learned) if learned else None
        if design is None or not design.groups:
            return prior if widths is None else WithDesign(prior, HalfT(), 0, width_prior=widths)
        tasks = TaskPrior(len(design.tasks), design.equal_tasks) if design.has_tasks else None
        return WithDesign(prior, design.group_prior, len(design.terms), tasks, widths)

    def _prepare(
        self, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
    ) -> tuple[DenseStack, np.ndarray]:
        """Validate parameters, then data; return training kernels and targets, (n_outputs, n_samples)."""
        self._check_parameters()  # first: a mistake in them costs no time
        return self._read(*counted(self, X, y, sample_weight))

    def _read(self, X: Samples, y: Targets, counts: np.ndarray | None) -> tuple[DenseStack, np.ndarray]:
        """Do the same with samples that count and their weights, parameters being validated."""
        raise NotImplementedError

    numpyro_model = numpyro_model

    def _program(self, X: Samples, y: Targets, X_new: Samples | None) -> NumPyroProgram:
        from bayesmkl.gp.program import explicit_program

        stack, targets = self._prepare(X, y)
        refuse_program(self)
        self.training_kernels_ = stack.columns(slice(None)) if self.kernel_bank_ is None else None
        n_bytes = 16.0 * stack.n_kernels * stack.n_train**2
        require_memory(n_bytes, f"the program of {stack.n_kernels} kernels", "Use fewer kernels or samples.")
        new: list[Any] = []
        if X_new is not None:
            rows = self._validate_rows(X_new)
            stacks, diagonals = zip(*self._rows(rows), strict=True)
            kernels = [block.columns(slice(None)) for block in stacks]
            new = [np.concatenate(blocks, axis=1) for blocks in (kernels, diagonals)]
            new.append(None if self.design_ is None else self.design_.rows(rows))
        with self._naming_kernels():
            return explicit_program(self._hypermodel(stack, targets, self._inference()), *new)

    # ------------------------------------------------------------------------------------------- inference

    def _infer(
        self,
        stack: DenseStack,
        targets: np.ndarray,
        options: Marginal,
        kept: np.ndarray | None = None,
        induced: Induced | None = None,
        views: list[str] | None = None,
    ) -> tuple[int, Draws, Reading]:
        """Find the posterior of the hyperparameters and read from it; `targets` are (n_outputs, n_samples)."""
        rng, parts_rng = self._rng().spawn(2)  # hyperparameters do not depend on how many samples there are
        model = with_kernels_to_choose(self._hypermodel(stack, targets, options, kept))
        if induced is not None:
            model = induced.within(model)
        check_many(model, options)
        n_bytes = min(part_bytes(model.covariance, options.n_draws * len(targets)), KEPT)
        what = f"{options.n_draws * len(targets)} draws of {stack.n_kernels} functions at {stack.n_train} samples"
        require_memory(n_bytes, what, REMEDY)
        announce(self.verbose > 1, f"{what}: {format_bytes(int(n_bytes))}")
        with blas_threads_for(stack.n_train), self._naming_kernels():
            prior = PriorParts(model.covariance, options.n_draws, len(targets), parts_rng)
            start = None if induced is None else induced.start
            drawn, n_evaluations = draw_hyperparameters(model, options, rng, self.verbose > 0, start)
            with step_progress(self.verbose > 0, "drawing scores", options.most_points, "point") as report:
                reading = read(model, drawn, prior, rng, report, views)
            return n_evaluations + len(drawn.weights), drawn, reading

    @contextmanager
    def _naming_kernels(self) -> Iterator[None]:
        """Raise by its name for a kernel that no function can have as its covariance."""
        try:
            yield
        except np.linalg.LinAlgError as error:
            if not isinstance(error.args[0], int):
                raise
            name = self.kernel_names_[error.args[0]]
            of_others = ", because a kernel of a view is not" if name == TOGETHER else ""
            raise ValueError(
                f"`X`: kernel {name!r} is not positive semidefinite{of_others}, so it is not a covariance of a "
                "Gaussian process. Leave it out, or replace its negative eigenvalues by zero."
            ) from error

    def _find_posterior(self, stack: DenseStack, targets: np.ndarray) -> None:
        """Set the fitted attributes, and warn at most once; `targets` are (n_outputs, n_samples)."""
        options, induced, self.pseudo_samples_, self.landmark_loss_ = self._inference(), None, None, 0.0
        if self._has_landmarks:
            with self._naming_kernels():
                induced = induce(self, targets, self._rng().spawn(3)[2])
            self.pseudo_samples_, stack = induced.pseudo, DenseStack(induced.pseudo.matrices())
        found = self._infer(stack, targets, options, induced=induced, views=self._kernel_views())
        n_evaluations, weighted, reading = found
        draws, several = reading.draws, len(targets) > 1
        if induced is None and not isinstance(options.n_read, str):
            counts = 1.0 if self.sample_weight_ is None else self.sample_weight_
            draws = draws._replace(predictive=likely_points(draws, options.n_read, counts))
        self.target_ = targets if several else targets[0]
        self.training_kernels_ = stack.columns(slice(None)) if self.kernel_bank_ is None else None
        self.posterior_ = draws
        self.parameters_ = self._mean_parameters()
        weights = draws.kernel_weights[draws.point]
        self.kernel_weights_, self.kernel_weights_std_ = weights.mean(axis=0), weights.std(axis=0, ddof=1)
        self.kernel_shares_ = draws.shares.mean(axis=0)
        self.kernel_shares_std_ = draws.shares.std(axis=0, ddof=1)
        self.dual_coef_ = reading.dual if several else reading.dual[0]
        self.intercept_ = reading.intercept if several else float(reading.intercept[0])
        self.effects_ = reading.effects if several else reading.effects[0]
        if induced is not None:
            squares = draws.kernel_weights**2
            lost = squares @ induced.remainder.unexplained / squares.sum(axis=1)
            self.landmark_loss_ = float(draws.probability @ lost)
            announce(
                self.verbose > 0, f"Landmarks miss {self.landmark_loss_:.1%} of the scores' prior variance."
            )
        left_out = reading.left_out if induced is None else read_samples(self, induced, targets)
        self.log_evidence_ = self._in_nats(weighted.log_evidence)
        self._read_left_out(targets, left_out)
        self.pareto_k_, self.ess_, self.rhat_ = weighted.pareto_k, weighted.ess, weighted.rhat
        self.unconverged_ = weighted.unconverged
        alike = np.full(draws.n_draws, 1.0 / draws.n_draws)
        shares = draws.shares @ members(self._hyperprior(), self.n_kernels_in_)
        self.share_mcse_ = np.nan if weighted.are_chains else share_error(shares, alike, draws.point)
        self.n_evaluations_ = n_evaluations
        self.outcome_, self.converged_ = weighted.outcome, weighted.converged
        advice = weighted.advice("hyperparameters", "scale")
        if induced is not None and not induced.converged:
            self.converged_, advice = False, NOT_SETTLED
        if advice is not None:
            warn_user(f"{type(self).__name__} {advice}", ConvergenceWarning)

    def _refit(
        self, stack: DenseStack, kept: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float, bool]:
        """Return what `elpd_i_`, `log_evidence_`, `pareto_k_` and `converged_` would be with other training kernels.

        Kernels are those at the positions `kept`, None: all. Weights of samples multiply the first.
        """
        options = self._inference()
        if not np.isfinite(kernel_units(stack, self.sample_weight_)).any():
            options = replace(options, n_points=LEAST_POINTS)  # nothing to infer but the noise
        targets = self._targets_of_outputs()
        _, weighted, reading = self._infer(
            stack, targets, replace(options, n_draws=min(options.n_draws, REFIT_DRAWS)), kept
        )
        elpd_i = self._counted(self._log_predictive(targets, reading.left_out.each, reading.left_out.joint))
        return elpd_i, self._in_nats(weighted.log_evidence), weighted.pareto_k, weighted.converged

    def _read_left_out(self, targets: np.ndarray, left_out: LeftOut) -> None:
        """Set what is found by leaving samples out."""
        self.elpd_i_ = self._log_predictive(targets, left_out.each, left_out.joint)

    def _log_predictive(
        self, targets: np.ndarray, log_of_each: np.ndarray, log_of_all: np.ndarray
    ) -> np.ndarray:
        """Return log densities of samples from those of each output, (n_outputs, n_samples), and of all together."""
        raise NotImplementedError

    def _counted(self, of_samples: np.ndarray) -> np.ndarray:
        """Return what samples, the last axis, add to a sum over all copies of them."""
        return of_samples if self.sample_weight_ is None else of_samples * self.sample_weight_

    def _in_nats(self, log_evidence: float) -> float:
        """Return the log evidence of the target in its own units."""
        shape = len(self._targets_of_outputs()), self.target_.shape[-1]
        return log_evidence - float(self._counted(np.broadcast_to(self._log_units(), shape)).sum())

    # ------------------------------------------------------------------------------------------ predictions

    def _mean_parameters(self) -> dict[str, Any]:
        """Return posterior means of the likelihood's parameters by name, of every output if there are several."""
        draws = self.posterior_
        mean = np.tensordot(draws.probability, draws.parameters, 1)
        return dict(zip(self.likelihood_.names, mean.T if len(mean) > 1 else mean[0].tolist(), strict=True))

    @property
    def _has_outputs(self) -> bool:
        """Whether the target has an axis of outputs."""
        return np.ndim(self.intercept_) == 1

    def _targets_of_outputs(self) -> np.ndarray:
        """Return what the likelihood sees, with an axis of outputs."""
        return self.target_ if self._has_outputs else self.target_[None]

    def _moments(self, X: Samples, of_all: bool = False) -> ScoreMoments:
        """Return moments of the scores of rows, their offsets included, at the points that predictions need.

        Or at all points, for quantiles: fewer points have the same moments, and other tails.
        """
        X = self._validate_rows(X)
        if of_all and self.pseudo_samples_ is None:
            draws, posteriors = self.posterior_._replace(predictive=np.empty(0)), None
            covariance, completed = self._training_covariance()
        else:
            covariance, completed, draws, posteriors = self._known_scores()
        rows = self._rows(X) if completed is None else self._completed_rows(X, completed)
        found = []
        with blas_threads_for(covariance.stack.n_train):
            for kernels, diagonal, of_rows in self._with_design(X, rows):
                one = score_moments(covariance, draws, kernels, diagonal, of_rows, posteriors)
                if len(draws.predictive) and not self._learns:  # their mean is that of all points
                    shift = self._means_of(kernels, of_rows) - np.tensordot(one.probability, one.mean, 1)
                    one = one._replace(mean=one.mean + shift)
                found.append(one)
        mean, variance = (
            np.concatenate([getattr(one, name) for one in found], axis=-1) for name in ("mean", "variance")
        )
        return found[0]._replace(mean=mean + self._offsets(X), variance=variance)

    def _known_scores(self) -> _KnownScores:
        """Return what predictions need of the training scores, factorized once and kept if there is room for it."""
        with KNOWN_LOCK:
            kept = KNOWN.get(self)
        if kept is not None and kept[0] is self.posterior_:
            return kept[1]
        covariance, completed = self._training_covariance()
        draws = self.posterior_ if self.pseudo_samples_ is None else few_points(self.posterior_)
        points, _ = draws.of_predictions
        n_kernels, n_train = covariance.stack.n_kernels, covariance.stack.n_train
        n_entries = len(points) * draws.parameters.shape[1] * n_train**2
        of_completed = 0 if completed is None else 32 * n_kernels * n_train**2
        found = _KnownScores(covariance, completed, draws)
        free = available_memory()
        room = KNOWN_BYTES if free is None else min(KNOWN_BYTES, free // 2)
        with blas_threads_for(n_train):
            precision: type[np.floating] = np.float64
            if 8 * n_entries >= FEW_BYTES and 4 * n_entries + of_completed <= room:
                precision = draws.precision_of_predictions(covariance)
            n_bytes = np.dtype(precision).itemsize * n_entries + of_completed
            if n_bytes > room:
                return found
            posteriors = list(draws.factorized(covariance, points, precision))
        if not self._learns:  # nothing is asked of it any more
            covariance = covariance._replace(stack=unheld(n_kernels, n_train))
        found = found._replace(covariance=covariance, posteriors=posteriors)
        with KNOWN_LOCK:
            for oldest in list(KNOWN):
                if sum(size for *_, size in KNOWN.values()) + n_bytes > KNOWN_BYTES:
                    KNOWN.pop(oldest)
            KNOWN[self] = self.posterior_, found, n_bytes
        return found

    def _training_covariance(self) -> tuple[Additive, CompletedKernels | None]:
        """Return the covariance of the training scores, and completed kernels where samples may lack views."""
        completed = None if self.kernel_centers_ is None else self._completed_training()
        if len(self.posterior_.units):  # nothing else is asked of training kernels
            return self._covariance(unheld(*self.dual_coef_.shape[-2:]), self.posterior_.units), completed
        return self._covariance(
            self._stored_training() if completed is None else completed.training
        ), completed

    def _covariance_and_rows(self, X: np.ndarray) -> tuple[Additive, Iterator[tuple[Any, Any, Any]]]:
        """Return the covariance of the training scores, and kernels, diagonals and effects of blocks of rows."""
        covariance, completed = self._training_covariance()
        rows = self._rows(X) if completed is None else self._completed_rows(X, completed)
        return covariance, self._with_design(X, rows)

    def _with_design(
        self, X: np.ndarray, blocks: Iterable[tuple[Any, Any]]
    ) -> Iterator[tuple[Any, Any, DesignRows | None]]:
        """Yield blocks of rows, kernels and diagonals, with what the design says of them."""
        for kernels, diagonal in blocks:
            own, X = X[: kernels.n_rows], X[kernels.n_rows :]
            yield kernels, diagonal, None if self.design_ is None else self.design_.rows(own)

    def _means_of(self, rows: Any, design_rows: DesignRows | None) -> np.ndarray:
        """Return posterior mean scores of a block of rows without offsets, (n_outputs, n_rows)."""
        task = None if design_rows is None else design_rows.task
        duals = self.dual_coef_ if self._has_outputs or task is not None else self.dual_coef_[None]
        score = np.stack([rows.apply(dual[..., None]).sum(axis=0) for dual in duals])
        if task is not None:
            score = score[task, np.arange(len(task))][None]
        score = score + np.atleast_1d(self.intercept_)[:, None]
        return score if design_rows is None else score + np.atleast_2d(self.effects_) @ design_rows.basis.T

    def _mean_scores(self, X: Samples) -> np.ndarray:
        """Return posterior mean scores of rows, (n_outputs, n_rows)."""
        if self._learns:
            return overall(self._moments(X))[0]
        X, blocks = self._validate_rows(X), None
        if self.kernel_centers_ is None:
            blocks = ((rows, None) for rows in self._blocks(X, np.arange(self.n_kernels_in_)))
        of_blocks = self._with_design(X, self._completed_rows(X) if blocks is None else blocks)
        means = [self._means_of(rows, of_rows) for rows, _, of_rows in of_blocks]
        return np.concatenate(means, axis=1) + self._offsets(X)

    def _offsets(self, X: np.ndarray) -> Any:
        """Return what is added to the scores of validated rows as it is, (n_rows,), or zero."""
        if self.design_ is None or self.design_.offset_column is None:
            return 0.0
        return self.design_.offsets(X)

    def predict_latent(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the latent score `f` of new samples, an offset included.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Also return standard deviations.

        Returns
        -------
        mean : ndarray of shape (n_rows,), or (n_rows, n_outputs) of several outputs
            Posterior mean, in the units that the likelihood sees.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        if not return_std:
            return by_row(self._mean_scores(X))
        mean, variance = overall(self._moments(X))
        return by_row(mean), by_row(np.sqrt(variance))

    # ------------------------------------------------------------------------------------------- the target

    def _replicate(self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw training targets of scores in the units of the user, (n_draws, n_outputs, n_samples).

        `parameters`, (n_draws, n_outputs, n_parameters), are those of the likelihood.
        """
        return self._in_units(self._draw_targets(score, parameters, rng))

    def _draw_targets(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw the same as the likelihood sees them."""
        by_parameter = np.moveaxis(parameters, -1, 0)[..., None]
        return self.likelihood_.sample(score, by_parameter, rng, self._targets_of_outputs())

    def _target_in_units(self) -> np.ndarray:
        """Return training targets in the units of the user, (n_samples,) or (n_samples, n_outputs)."""
        raise NotImplementedError

    def _log_units(self) -> Any:
        """Return what the log densities that the likelihood sees are above those of targets of the user.

        It has an axis of outputs and one of samples, or is a number.
        """
        return 0.0

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        """Return drawn targets, (..., n_outputs, n_samples), in the units of the user."""
        return values

    def _score_units(self) -> np.ndarray:
        """Return what scores are multiplied by to be in the units of the user, (n_outputs,)."""
        return np.ones(self.posterior_.score.shape[1])

    # ------------------------------------------------------------------------------------------- the prior

    def _draw_prior(
        self, n_draws: int, n_outputs: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw kernel weights with what the design has after them, and parameters of the likelihood.

        These are (n_draws, n_outputs, n_parameters).
        """
        learned = self._stored_training().learned if self._learns else ()
        prior = self._hyperprior(learned=learned)
        of_parameters = ParameterPriors(self.likelihood_.priors)
        n_parameters = len(of_parameters.each)
        own = rng.standard_normal((n_draws, prior.n_coordinates(self.n_kernels_in_)))
        rest = rng.standard_normal((n_draws, n_outputs, n_parameters))
        return np.array([prior.weights(u).values for u in own]), of_parameters.parameters(rest).values

    def _draw_prior_scores(self, weights: np.ndarray, n_outputs: int, rng: np.random.Generator) -> np.ndarray:
        """Draw training scores of given kernel weights, (n_draws, n_outputs, n_samples)."""
        covariance = self._covariance(self._stored_training())
        functions = covariance.draw_parts(rng, len(weights) * n_outputs)
        if self._learns:
            for at, own in enumerate(weights):
                covariance.color(own, functions, np.arange(at * n_outputs, (at + 1) * n_outputs))
        parts = np.moveaxis(functions, -1, 0)
        parts = parts.reshape(len(weights), n_outputs, *parts.shape[1:])
        intercept = float(self.intercept_std) * rng.standard_normal((len(weights), n_outputs, 1))
        score = intercept + np.array(
            [covariance.weigh_parts(w, own).sum(axis=1) for w, own in zip(weights, parts, strict=True)]
        )
        if covariance.effects is None:
            return score
        std = covariance.effects.stds(np.array([covariance.split(w)[1] for w in weights]))
        drawn = std[:, None] * rng.standard_normal((len(weights), n_outputs, std.shape[-1]))
        return score + drawn @ covariance.effects.basis.T


def by_row(outputs: np.ndarray) -> np.ndarray:
    """Return (n_rows, n_outputs), or (n_rows,) of a single output."""
    return outputs[0] if len(outputs) == 1 else outputs.T


def overall(moments: ScoreMoments) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of scores over all draws, each of shape (n_outputs, n_rows)."""
    mean = np.tensordot(moments.probability, moments.mean, 1)
    square = np.tensordot(moments.probability, moments.variance + (moments.mean - mean) ** 2, 1)
    return mean, square
