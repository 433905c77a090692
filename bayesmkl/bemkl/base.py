"""Parameters, inferences and posterior summaries that all BEMKL estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._estimator import BaseMKL, Holding, announce, step_progress
from bayesmkl._estimator.program import NumPyroProgram, numpyro_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.options import (
    NUTS,
    OF_BEMKL,
    STORAGES,
    VB,
    Inference,
    Storage,
    backend_of,
    inference_of,
    storage_of,
)
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import (
    LARGEST,
    SMALLEST,
    check_choice,
    check_integer,
    check_number,
    check_scale,
    shown,
)
from bayesmkl._utils.warnings import warn_user
from bayesmkl.bemkl.ascent import Algorithm, LoopOptions, LoopResult, OnSweep, maximize_elbo
from bayesmkl.bemkl.draws import KernelShares, PosteriorDraws, kernel_shares, shares_of_draws
from bayesmkl.bemkl.missing import fit_with_missing_views
from bayesmkl.bemkl.model import Problem, State, takes
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab, cov_of_weights
from bayesmkl.bemkl.runs import (
    TOO_MUCH,
    Fit,
    check_can_sample,
    rounding_error,
    run_gibbs,
    run_nuts,
    sampling_advice,
    variational_fit,
)
from bayesmkl.kernels.quality import KernelQualityWarning
from bayesmkl.kernels.stacks.base import KernelStack

TOO_LARGE = (
    "The kernels are too large or too close to singular for double precision: normalize them "
    '(`KernelBank(normalize="spherical")`).'
)
TOO_MUCH_ROUNDING = (
    "{} has rounding errors that reach the third digit of posterior variances: the kernels are too large and too "
    'close to singular for double precision. Normalize them (`KernelBank(normalize="spherical")`), or divide all by '
    "one number; in regression, express a tiny target in other units."
)


class FitTask(NamedTuple):
    """Problems of a fit, between the validation of the data and the fitted attributes."""

    problems: list[Any]  # one per model
    stack: KernelStack  # training kernels
    targets: np.ndarray
    several: bool  # whether fitted attributes have an axis for the models, be it one or more of them
    algorithm: Any = None
    inits: Sequence[Any] = ()  # where each model starts: "mean", "random" or a posterior
    labels: Sequence[str] = ()  # their names in progress reports


def _after(on_sweep: OnSweep | None, done: int, n_models: int) -> OnSweep | None:
    """Report sweeps of one of several models, on average over all, after those that are `done`."""
    return on_sweep and (lambda n, elbo: on_sweep((done + n) // n_models, elbo))


def _is_posterior(value: object) -> bool:
    return not isinstance(value, type) and not {"readout", "tasks"}.isdisjoint(getattr(value, "_fields", ()))


class BaseBEMKL(BaseMKL):
    """Parameters, inference and posterior summaries of both tasks."""

    _takes_sparse = _takes_landmarks = True
    _streams_rows: ClassVar[bool] = True

    nonnegative: bool = False  # a parameter of some

    # Fitted attributes that the next fit may lack.
    _OF_SOME_FITS: ClassVar[tuple[str, ...]] = ("elbo_", "elbo_history_", "sample_stats_")
    # Which inferences and forms of kernels there are.
    _INFERENCES: ClassVar[tuple[str, ...]] = OF_BEMKL
    _STORAGES: ClassVar[tuple[str, ...]] = STORAGES

    # Named priors on precisions; the paper's hyper-parameters (§6.1), whose scale is our 1 / rate.
    PRIORS: ClassVar[dict[str, Gamma]] = {"nonsparse": Gamma(1.0, 1.0), "sparse": Gamma(1e-10, 1e-10)}
    # Priors on the kernel weights themselves, for NUTS.
    KERNEL_PRIORS: ClassVar[dict[str, Any]] = {"dirichlet": Dirichlet(), "spike-slab": SpikeSlab()}

    # ------------------------------------------------------------------------------------------ parameters

    def _prior(self, name: str) -> Gamma:
        value = getattr(self, name)
        if isinstance(value, str) and value in self.PRIORS:
            return self.PRIORS[value]
        if isinstance(value, (tuple, list)) and len(value) == 2 and not isinstance(value, SpikeSlab):
            shape, rate = value
            return Gamma(check_scale(f"{name}.concentration", shape), check_scale(f"{name}.rate", rate))
        others = ', "dirichlet", "spike-slab"' if name == "kernel_prior" else ""
        raise ValueError(
            f'`{name}` must be "nonsparse", "sparse"{others} or a Gamma(concentration, rate); got {shown(value)}. '
            "Programs take other distributions: `numpyro_model(X, y, priors=...)`."
        )

    def _kernel_prior(self) -> Any:
        value = self.kernel_prior
        value = self.KERNEL_PRIORS.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, (Dirichlet, SpikeSlab)):
            return self._prior("kernel_prior")
        if not isinstance(self._inference(), NUTS):
            raise ValueError(
                f'`kernel_prior` {value!r} has no closed-form updates: it needs inference="nuts"; '
                f"got inference={self.inference!r}."
            )
        for field, entry in value._asdict().items():
            listed = isinstance(entry, Sequence | np.ndarray) and not isinstance(entry, str | bytes)
            values = list(entry) if listed else [entry]
            real = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
            entries = np.array(values if real else [np.nan], dtype=np.float64)
            highest = 1.0 if field == "inclusion" else LARGEST
            if not (entries.size and ((entries > SMALLEST) & (entries < highest)).all()):
                limits = "strictly between 0 and 1" if field == "inclusion" else "positive and finite"
                raise ValueError(f"`kernel_prior.{field}` must be {limits}; got {shown(entry)}.")
        return value

    def _gamma_prior(self) -> Gamma:
        """Return the prior on the precisions of kernel weights, of estimators that have closed-form updates alone."""
        value = self.kernel_prior
        if isinstance(value, (Dirichlet, SpikeSlab)) or (isinstance(value, str) and value not in self.PRIORS):
            raise ValueError(
                f'`kernel_prior` must be "nonsparse", "sparse" or a Gamma(concentration, rate); got {shown(value)}.'
            )
        return self._prior("kernel_prior")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._loop_options()
        init = self.init  # whether a posterior fits the problem is checked when there is one
        posteriors = init if type(init) is tuple else (init,)
        is_word = isinstance(init, str) and init in ("mean", "random")
        if not is_word and not (posteriors and all(map(_is_posterior, posteriors))):
            raise ValueError(f'`init` must be "mean", "random" or a `posterior_`; got {shown(init)}.')
        check_integer("n_init", self.n_init, low=1)
        self._settings()

    def _settings(self) -> tuple[Any, ...]:
        """Return the checked priors, and what else the models of an estimator are made with."""
        raise NotImplementedError

    def _inference(self) -> Inference:
        """Return the options of the inference, checked."""
        return inference_of(self.inference, self._INFERENCES)

    def _inits(self, n_models: int, what: str = "model") -> list[Any]:
        """Return the start of each of several models."""
        if not isinstance(self.init, tuple) or hasattr(self.init, "_fields"):
            return [self.init] * n_models
        if len(self.init) != n_models:
            raise ValueError(
                f"`init` must hold one posterior per {what} ({n_models}); got {len(self.init)} of them."
            )
        return list(self.init)

    def _loop_options(self) -> LoopOptions:
        """Return the options of VB, once they are checked, and checked against each other."""
        check_choice("predictive", self.predictive, ("full", "paper"))
        inference = self._inference()
        own = inference if isinstance(inference, VB) else VB(step="coordinate")
        options = LoopOptions(
            max_iter=check_integer("max_iter", self.max_iter, low=1),
            tol=check_number("tol", self.tol, low=0.0, inclusive=True),
            accelerate=own.accelerate,
            step=own.step,
            backend=self._storage().backend,
        )
        if self.missing_views == "integrate":
            self._check_inference('`missing_views="integrate"`', ["vb"], "Or leave incomplete samples out.")
        if self.nonnegative:
            self._check_inference(
                "`nonnegative=True`", ["vb"], 'kernel_prior="dirichlet" has positive weights.'
            )
        return options

    def _storage(self) -> Holding:
        """Check `storage` against what the fit does with the kernels."""
        storage = storage_of(self.storage, self._STORAGES)
        backend = backend_of(storage)
        is_closed_form = isinstance(self._inference(), VB) and self.missing_views == "error"
        if storage.kind not in ("auto", "dense") and not is_closed_form:
            raise ValueError(
                f'`storage` {storage.kind!r} needs inference="vb" and missing_views="error"; got '
                f"inference={self.inference!r} and missing_views={self.missing_views!r}. Use "
                'storage="dense".'
            )
        return Holding(
            storage.kind,
            backend,
            storage.rank,
            may_compress=is_closed_form and backend == "numpy",
            announce=partial(announce, True) if self.verbose > 0 else None,
        )

    def _check_inference(self, feature: str, allowed: Sequence[str], remedy: str) -> None:
        """Raise for inferences that do not have a feature."""
        if self._inference().name not in allowed:
            *others, last = (f'"{name}"' for name in allowed)
            raise ValueError(
                f"{feature} needs inference={' or '.join(filter(None, [', '.join(others), last]))}; "
                f"got inference={self.inference!r}. {remedy}"
            )

    def _gram(self, stack: KernelStack) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            gram = stack.gram()
        if not np.isfinite(gram).all():
            raise ValueError(f"`X`: the squares of the kernels overflow. {TOO_LARGE}")
        return gram

    # ------------------------------------------------------------------------------------------- inference

    def _infer(self, task: FitTask) -> list[Fit]:
        """Find the posterior of every model."""
        algorithm, problems, inits, labels = task.algorithm, task.problems, task.inits, task.labels
        options, rng = self._loop_options(), self._rng()
        if isinstance(self._inference(), VB):
            found = self._raise_bounds(algorithm, problems, inits, options, rng, labels)
            return list(map(variational_fit, found))
        fits: list[Fit] = []
        for problem, label in zip(problems, labels, strict=True):
            fits.append(self._sample(problem, rng, label))
            if fits[-1].outcome is Outcome.INTERRUPTED and len(fits) < len(problems):
                raise KeyboardInterrupt
        return fits

    def _sample(self, problem: Problem, rng: np.random.Generator, label: str) -> Fit:
        """Draw from the posterior of one model."""
        inference: Any = self._inference()
        check_can_sample(problem, f'inference="{inference.name}"')
        is_nuts = isinstance(inference, NUTS)
        total = inference.n_warmup + inference.n_draws
        total *= 1 if is_nuts and inference.chain_method == "vectorized" else inference.n_chains
        with step_progress(self.verbose > 0, label, total, "step") as report:
            return (run_nuts if is_nuts else run_gibbs)(problem, inference, rng, report)

    def _raise_bounds(
        self,
        algorithm: Algorithm,
        problems: list[Any],
        inits: Sequence[Any],
        options: LoopOptions,
        rng: np.random.Generator,
        labels: Sequence[str],
    ) -> list[LoopResult]:
        """Run the closed-form loop from `n_init` starts for every problem and keep the highest bounds."""
        runs = self._runs(algorithm, problems, inits, options, rng)
        label = labels[0] if len(labels) == 1 else f"{len(labels)} models"
        with step_progress(self.verbose > 0, label, options.max_iter, "sweep") as report:
            on_sweep = None if report is None else lambda n, elbo: report(n, f"ELBO {elbo:.4f}")
            results = self._maximize(algorithm, runs, options, on_sweep)
        best = self._highest(results)
        error = max(rounding_error(*pair) for pair in zip(problems, (r.state for r in best), strict=True))
        if error > TOO_MUCH:
            warn_user(TOO_MUCH_ROUNDING.format(type(self).__name__), KernelQualityWarning)
        return best

    def _runs(
        self,
        algorithm: Algorithm,
        problems: list[Any],
        inits: Sequence[Any],
        options: LoopOptions,
        rng: np.random.Generator | None = None,
    ) -> list[tuple[Any, Any]]:
        """Return pairs of a problem and a start, `n_init` of them for every problem; `rng` is for random ones.

        With missing views kernels are centered first: there the second is what finds a start for a problem.
        """
        n_init = check_integer("n_init", self.n_init, low=1)
        each = [[init] + ["random"] * (n_init - 1) for init in inits]
        begin = partial(self._start, algorithm, rng=rng, options=options)
        late = self.missing_views == "integrate"
        return [
            (problem, partial(begin, init=init) if late else begin(problem, init=init))
            for problem, own in zip(problems, each, strict=True)
            for init in own
        ]

    def _highest(self, results: list[LoopResult]) -> list[LoopResult]:
        """Return the run with the highest bound of every problem."""
        if not all(np.isfinite(result.elbo_history[0]) for result in results):
            raise ValueError(f"`X`: the first update of the posterior is not finite. {TOO_LARGE}")
        return [
            max(results[first : first + self.n_init], key=lambda result: result.elbo_history[-1])
            for first in range(0, len(results), self.n_init)
        ]

    def _maximize(
        self,
        algorithm: Algorithm,
        runs: list[tuple[Any, Any]],
        options: LoopOptions,
        on_sweep: OnSweep | None = None,
    ) -> list[LoopResult]:
        """Run the loops of pairs of a problem and a start, one after the other."""
        if self.missing_views == "integrate":
            return [fit_with_missing_views(algorithm, *run, options, on_sweep)[0] for run in runs]
        results: list[LoopResult] = []
        for run in runs:
            done = sum(result.n_iter for result in results)
            results.append(maximize_elbo(algorithm, *run, options, _after(on_sweep, done, len(runs))))
        return results

    def _start(
        self, algorithm: Any, problem: Any, init: Any, rng: np.random.Generator | None, options: LoopOptions
    ) -> Any:
        """Return the carry that the loop starts from: deterministic, random, or a posterior given by the user."""
        n_kernels, n_samples = problem.stack.n_kernels, problem.y.shape[-1]
        if isinstance(init, str) and init in ("mean", "random"):
            return algorithm.init(problem, self._initial_noise(n_samples, rng if init == "random" else None))
        if not takes(problem, init):
            raise ValueError(
                f'`init` must be "mean", "random" or the `posterior_` of such a model, of the same kind of targets; '
                f"got {shown(init)}."
            )
        n_outputs, expected = problem.y.shape[:-1], (*problem.y.shape[:-1], n_kernels, n_samples)
        if init.intermediate.mean.shape != expected:
            shape = init.intermediate.mean.shape
            outputs = f" and {n_outputs[0]} outputs" if n_outputs else ""
            raise ValueError(
                f"`init` must be a posterior over {n_kernels} kernels and {n_samples} samples{outputs}; got one over "
                f"{shape[-2]} and {shape[-1]}{f' and {shape[0]}' if n_outputs else ''}."
            )
        if init.dual.mean.shape[-1] != problem.stack.n_train:
            raise ValueError(
                f"`init` must be a posterior with {problem.stack.n_train} sample weights, one per landmark or "
                f"training sample; got one with {init.dual.mean.shape[-1]}."
            )
        return algorithm.carry(problem, init)

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        raise NotImplementedError

    numpyro_model = numpyro_model

    def _program(self, X: Samples, y: Targets, X_new: Samples | None) -> NumPyroProgram:
        from bayesmkl.bemkl.program import numpyro_program

        if self.nonnegative:
            raise ValueError(
                "`nonnegative` must be False: there is no NumPyro program of nonnegative weights that are normal. "
                'With kernel_prior="dirichlet", which needs inference="nuts", weights are positive.'
            )
        if self.missing_views == "integrate":
            raise ValueError(
                '`missing_views` must be "error": there is no NumPyro program of missing views. Leave samples that '
                "lack views out."
            )
        self.set_params(storage=Storage("dense", "numpy"))
        stack, y = self._prepare(X, y)
        problems = self._task(stack, None, y).problems
        blocks = () if X_new is None else self._row_blocks(X_new, np.arange(stack.n_kernels))
        return numpyro_program(problems, [block.columns(slice(None)) for block in blocks])

    # --------------------------------------------------------------------------------------------- results

    def _conclude(self, task: FitTask, fits: list[Fit]) -> None:
        """Set the fitted attributes, and warn at most once."""
        self._store(task, fits)
        self._warn(fits)

    def _store(self, task: FitTask, fits: list[Fit]) -> None:
        """Set the fitted attributes: `_summary` of the posteriors, and how they were found."""
        values = self._summary(task, fits)
        found: dict[str, Any] = {
            "n_iter_": np.array([fit.n_iter for fit in fits]),
            "outcome_": tuple(fit.outcome for fit in fits),
            "posterior_": tuple(fit.posterior for fit in fits),
        }
        if fits[0].stats is not None:
            found["sample_stats_"] = tuple(fit.stats for fit in fits)
        if fits[0].elbo_history is not None:
            found["elbo_history_"] = histories = tuple(fit.elbo_history for fit in fits)
            values["elbo_"] = float(sum(history[-1] for history in histories if history is not None))
        for name in self._OF_SOME_FITS:
            self.__dict__.pop(name, None)
        values |= found if task.several else {name: value[0] for name, value in found.items()}
        for name, value in values.items():
            setattr(self, name, value)
        self.converged_ = all(fit.outcome.converged for fit in fits)

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Return posterior moments, of several models each with a leading axis for them, by attribute."""
        single = task.several or task.targets.ndim == 1
        moments = [self._moments(fit.posterior, task.stack, single) for fit in fits]
        each = {name: [own[name] for own in moments] for name in moments[0]}
        return {
            **{name: np.array(values) if task.several else values[0] for name, values in each.items()},
            "target_": task.targets,
            "storage_": task.stack.storage,
            "kernel_bytes_": int(task.stack.nbytes),
        }

    def _moments(self, posterior: State | PosteriorDraws, stack: KernelStack, single: bool) -> dict[str, Any]:
        """Return posterior moments of one model, of a `single` output or several, by the names of the attributes."""
        shares: KernelShares
        if isinstance(posterior, PosteriorDraws):
            flat = posterior.flat()
            shares = shares_of_draws(stack, flat)
            mean, cov = flat.kernel_weights.mean(axis=0), np.atleast_2d(np.cov(flat.kernel_weights.T))
            intercept, dual = flat.intercept.mean(axis=0), flat.dual.mean(axis=0)
        else:
            readout, n_outputs = posterior.readout, len(np.atleast_2d(posterior.dual.mean))
            shares = kernel_shares(stack, posterior.dual, readout, self._rng())
            mean, cov = readout.mean[n_outputs:], cov_of_weights(readout.cov, n_outputs)
            intercept, dual = readout.mean[:n_outputs], np.atleast_2d(posterior.dual.mean)
            if single:
                intercept, dual = intercept[0], dual[0]
        return {
            "kernel_weights_": mean,
            "kernel_weights_std_": np.sqrt(cov.diagonal()),
            "kernel_weights_cov_": cov,
            "kernel_shares_": shares.mean,
            "kernel_shares_std_": shares.std,
            "intercept_": intercept,
            "dual_coef_": dual,
        }

    def _warn(self, fits: list[Fit]) -> None:
        """Issue at most one ConvergenceWarning."""
        if isinstance(self._inference(), VB):
            options = self._loop_options()
            self._report([fit.outcome for fit in fits], options, max(fit.last_change for fit in fits))
            return
        message = sampling_advice(fits, self._inference())
        if message is not None:
            warn_user(f"{type(self).__name__} {message}", ConvergenceWarning)
