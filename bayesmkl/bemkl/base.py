"""Parameters, settings, inference, posterior summaries and docstring entries that all BEMKL estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesmkl._estimator.base import BaseMKL, Holding
from bayesmkl._estimator.program import NumPyroProgram, numpyro_model
from bayesmkl._estimator.shared_docs import ESTIMATOR
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import entries
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
from bayesmkl._utils.progress import step_progress
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
from bayesmkl.bemkl import many_kernels, model, nonnegative
from bayesmkl.bemkl.ascent import (
    TOO_MUCH,
    Fit,
    LoopOptions,
    OnSweep,
    after,
    check_can_sample,
    maximize_elbo,
    rounding_error,
    run_gibbs,
    run_nuts,
    sampling_advice,
)
from bayesmkl.bemkl.draws import PosteriorDraws, kernel_shares, shares_of_draws
from bayesmkl.bemkl.many_kernels import LEAST, MANY
from bayesmkl.bemkl.missing import fit_with_missing_views
from bayesmkl.bemkl.model import Priors, Problem, State, takes
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab, cov_of_weights
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.quality import KernelQualityWarning
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import Labels, Numbers

TOO_LARGE = (
    "The kernels are too large or too close to singular for double precision: normalize them "
    '(`KernelBank(normalize="spherical")`).'
)
TOO_MUCH_ROUNDING = (
    "{} has rounding errors that reach the third digit of posterior variances: the kernels are too large and too "
    'close to singular for double precision. Normalize them (`KernelBank(normalize="spherical")`), or divide all by '
    "one number; in regression, express a tiny target in other units."
)
# What a fit may ask for, the methods that have it ("program" is `numpyro_model`), and what to do where one has not.
OFFERS = {
    "missing views": (("vb",), "Leave incomplete samples out."),
    "nonnegative": (
        ("vb",),
        'With kernel_prior="dirichlet", which needs inference="nuts", weights are positive.',
    ),
    "weights": (("nuts", "program"), 'Use a prior on precisions, kernel_prior="nonsparse" or Gamma(1, 1).'),
    "storage": (("vb",), 'Use storage="dense".'),
    "shared": (
        ("vb", "nuts", "program"),
        'Use multiclass="one-versus-all" for a model of its own for every class.',
    ),
    "one-versus-all": (("vb", "nuts", "gibbs"), "Pass labels that say who belongs to one of the classes."),
    "multinomial": (("vb",), 'Use multiclass="one-versus-all" for a model of its own for every class.'),
    "unlabeled": (("vb",), "Leave the unlabeled samples out."),
    "several columns": (("vb", "nuts", "program"), "Fit a model for every column."),
}


class Settings(NamedTuple):
    """Every option of a fit, checked once and passed on."""

    priors: Priors
    inference: Inference
    loop: LoopOptions
    holding: Holding  # of the training kernels
    predictive: str
    n_init: int
    nonnegative: bool
    integrates: bool  # whether missing views are integrated over
    methods: tuple[str, ...]  # that the estimator has
    asked: tuple[tuple[str, str], ...] = ()  # keys of `OFFERS`, and the parameters that ask for them
    margin: float = 0.0  # ν
    intermediate_scale: float = 1.0  # σ_g
    temperature: float | None = None  # of probabilities; None where it is learned
    task_prior: Any = None  # of τ

    def check(self, method: str, *more: tuple[str, str]) -> None:
        """Raise where `method` does not have what the fit asks for, and `more` once the data are known."""
        for key, feature in (*self.asked, *more):
            having, remedy = OFFERS[key]
            if method in having:
                continue
            names = " or ".join(f'"{name}"' for name in having if name in self.methods and name != "program")
            if method == "program":
                raise ValueError(f"{feature} has no NumPyro program. {remedy}")
            if not names:
                raise ValueError(f"{feature} is not offered by this estimator. {remedy}")
            raise ValueError(f'{feature} needs inference={names}; got inference="{method}". {remedy}')

    def algorithm(self, problem: Any) -> Any:
        """Return the module that updates the factors."""
        if self.nonnegative:
            return nonnegative
        has_form, stack = isinstance(problem.outcome, Labels | Numbers) and problem.y.ndim == 1, problem.stack
        are_many = stack.n_kernels >= LEAST and stack.n_kernels >= MANY * stack.n_rows
        return many_kernels if has_form and are_many and self.loop.backend == "numpy" else model


class FitTask(NamedTuple):
    """Problems of a fit, between the validation of the data and the fitted attributes."""

    problems: list[Any]  # one per model
    stack: Stack  # training kernels
    targets: np.ndarray
    several: bool  # whether fitted attributes have an axis for the models, be it one or more of them
    inits: Sequence[Any] = ()  # where each model starts: "mean", "random" or a posterior
    labels: Sequence[str] = ()  # their names in progress reports
    settings: Settings | None = None
    algorithm: Any = None  # None: that of the settings


def _is_posterior(value: object) -> bool:
    return not isinstance(value, type) and not {"readout", "tasks"}.isdisjoint(getattr(value, "_fields", ()))


@dataclass(eq=False, repr=False)
class _Parameters(BaseMKL):
    """Parameters of all BEMKL estimators."""

    kernels: KernelBank | str | None = None
    _: KW_ONLY
    views: Any = None
    kernel_prior: Any = "nonsparse"
    sample_prior: str | Gamma = "nonsparse"
    bias_prior: str | Gamma = "nonsparse"
    predictive: str = "full"
    inference: str | Inference = "vb"
    init: Any = "mean"
    n_init: int = 1
    max_iter: int = 3000
    tol: float = 1e-6
    storage: str | Storage = "auto"
    kernel_names: Sequence[str] | None = None
    random_state: int | None = None
    verbose: int = 1


class BaseBEMKL(_Parameters):
    """Settings, inference and posterior summaries of all estimators."""

    _takes_sparse = _takes_landmarks = True
    _streams_rows: ClassVar[bool] = True

    nonnegative: Any = False  # a parameter of some

    # Fitted attributes that the next fit may lack.
    _OF_SOME_FITS: ClassVar[tuple[str, ...]] = ("elbo_", "elbo_history_", "sample_stats_")
    # Which inferences and forms of kernels there are; and what has a program where the estimator has none.
    _INFERENCES: ClassVar[tuple[str, ...]] = OF_BEMKL
    _STORAGES: ClassVar[tuple[str, ...]] = STORAGES
    _PROGRAM_INSTEAD: ClassVar[str | None] = None

    # Named priors on precisions; the paper's hyper-parameters (§6.1), whose scale is our 1 / rate.
    PRIORS: ClassVar[dict[str, Gamma]] = {"nonsparse": Gamma(1.0, 1.0), "sparse": Gamma(1e-10, 1e-10)}
    # Priors on the kernel weights themselves, for NUTS.
    KERNEL_PRIORS: ClassVar[dict[str, Any]] = {"dirichlet": Dirichlet(), "spike-slab": SpikeSlab()}
    # Priors of some estimators by name, beside those of all.
    NAMED: ClassVar[dict[str, dict[str, Gamma]]] = {}

    # ------------------------------------------------------------------------------------------ parameters

    def _prior(self, name: str) -> Gamma:
        """Return a prior on precisions, by its name or as a pair of numbers."""
        value, named = (
            getattr(self, name),
            self.NAMED.get(name, {}) | (self.PRIORS if name != "task_prior" else {}),
        )
        if isinstance(value, str) and value in named:
            return named[value]
        if isinstance(value, (tuple, list)) and len(value) == 2 and not isinstance(value, SpikeSlab):
            shape, rate = value
            return Gamma(check_scale(f"{name}.concentration", shape), check_scale(f"{name}.rate", rate))
        of_weights = self.KERNEL_PRIORS if name == "kernel_prior" and "nuts" in self._INFERENCES else {}
        names = ", ".join(f'"{one}"' for one in (*named, *of_weights))
        programs = "Programs take other distributions: `numpyro_model(X, y, priors=...)`."
        raise ValueError(
            f"`{name}` must be {names} or a Gamma(concentration, rate); got {shown(value)}."
            + (f" {programs}" if self._PROGRAM_INSTEAD is None else "")
        )

    def _kernel_prior(self) -> Any:
        """Return the prior on the precisions of the kernel weights, or on the weights themselves."""
        value = self.kernel_prior
        if "nuts" in self._INFERENCES and isinstance(value, str):
            value = self.KERNEL_PRIORS.get(value, value)
        if "nuts" not in self._INFERENCES or not isinstance(value, (Dirichlet, SpikeSlab)):
            return self._prior("kernel_prior")
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

    def _priors(self) -> Priors:
        """Return the priors, of numbers also those on υ and ε."""
        kernel, sample, bias = self._kernel_prior(), self._prior("sample_prior"), self._prior("bias_prior")
        noises = [self._prior(name) for name in ("intermediate_prior", "noise_prior") if hasattr(self, name)]
        return Priors(sample, bias, kernel, *noises)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        init = self.init  # whether a posterior fits the problem is checked when there is one
        posteriors = init if type(init) is tuple else (init,)
        is_word = isinstance(init, str) and init in ("mean", "random")
        if not is_word and not (posteriors and all(map(_is_posterior, posteriors))):
            raise ValueError(f'`init` must be "mean", "random" or a `posterior_`; got {shown(init)}.')

    def _checked(self) -> Settings:
        """Check all parameters before any work, as a mistake in them costs no time then, and return the settings."""
        self._check_parameters()
        settings = self._settings()
        settings.check(settings.inference.name)
        return settings

    def _settings(self) -> Settings:
        """Return the options of a fit, of predictions, or of problems of the last fit, each checked once."""
        inference = self._inference()
        own = inference if isinstance(inference, VB) else VB(step="coordinate")
        storage, integrates = storage_of(self.storage, self._STORAGES), self.missing_views == "integrate"
        backend, is_closed_form = backend_of(storage), isinstance(inference, VB) and not integrates
        loop = LoopOptions(
            max_iter=check_integer("max_iter", self.max_iter, low=1),
            tol=check_number("tol", self.tol, low=0.0, inclusive=True),
            accelerate=own.accelerate,
            step=own.step,
            backend=backend,
        )
        may_compress = is_closed_form and backend == "numpy"
        holding = Holding(storage.kind, backend, storage.rank, may_compress=may_compress)
        priors = self._priors()
        asked = {
            "missing views": '`missing_views="integrate"`' if integrates else "",
            "nonnegative": "`nonnegative=True`" if self.nonnegative else "",
            "weights": "" if isinstance(priors.kernel, Gamma) else f"`kernel_prior` {self.kernel_prior!r}",
            "storage": "" if storage.kind in ("auto", "dense") else f"`storage` {storage.kind!r}",
        }
        if asked["storage"] and integrates:
            raise ValueError(
                f'`storage` {storage.kind!r} needs inference="vb" and missing_views="error"; got '
                f'missing_views={self.missing_views!r}. Use storage="dense".'
            )
        return Settings(
            priors,
            inference,
            loop,
            holding,
            check_choice("predictive", self.predictive, ("full", "paper")),
            check_integer("n_init", self.n_init, low=1),
            bool(self.nonnegative),
            integrates,
            self._INFERENCES,
            tuple((key, feature) for key, feature in asked.items() if feature),
        )

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

    def _gram(self, stack: Stack) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            gram = stack.gram()
        if not np.isfinite(gram).all():
            raise ValueError(f"`X`: the squares of the kernels overflow. {TOO_LARGE}")
        return gram

    # ------------------------------------------------------------------------------------------- inference

    def _fit(self, X: Samples, y: Targets) -> Any:
        """Check the parameters, validate the data, find the posterior of every model and set the attributes."""
        settings = self._checked()
        stack, y = self._prepare(X, y, settings)
        task = self._task(stack, self._gram(stack), y, settings)
        self._store(task, fits := self._infer(task))
        self._warn(settings, fits)
        return self

    def _prepare(self, X: Samples, y: Targets, settings: Settings) -> tuple[Stack, np.ndarray]:
        """Return the training kernels and the targets, validated."""
        return self._fit_stack(X, y, storage=settings.holding)

    def _task(
        self, stack: Stack, gram: Any, y: np.ndarray, settings: Settings, method: str | None = None
    ) -> FitTask:
        """Return the models of validated targets; `method` is "program" where they are not fitted."""
        problems = self._problems_of(stack, gram, y, settings)
        return FitTask(problems, stack, y, False, [self.init], [type(self).__name__], settings)

    def _problems(self, stack: Stack, with_gram: bool = True) -> list[Problem]:
        """Return the problems of the last fit; densities of draws and draws of the prior need no Gram matrix."""
        gram = self._gram(stack) if with_gram else None
        return self._problems_of(stack, gram, self.target_, self._settings())

    def _problems_of(self, stack: Stack, gram: Any, targets: np.ndarray, settings: Settings) -> list[Any]:
        """Return the problem of every model of targets that are as the models see them."""
        raise NotImplementedError

    def _infer(self, task: FitTask) -> list[Fit]:
        """Find the posterior of every model."""
        settings, rng = task.settings or self._settings(), self._rng()
        if isinstance(settings.inference, VB):
            label = task.labels[0] if len(task.labels) == 1 else f"{len(task.labels)} models"
            with step_progress(self.verbose > 0, label, settings.loop.max_iter, "sweep") as report:
                on_sweep = None if report is None else lambda n, elbo: report(n, f"ELBO {elbo:.4f}")
                found = self._maximize(task, settings, rng, on_sweep)
            error = max(
                rounding_error(*pair) for pair in zip(task.problems, (r.state for r in found), strict=True)
            )
            if error > TOO_MUCH:
                warn_user(TOO_MUCH_ROUNDING.format(type(self).__name__), KernelQualityWarning)
            return found
        fits: list[Fit] = []
        for problem, label in zip(task.problems, task.labels, strict=True):
            fits.append(self._sample(problem, settings.inference, rng, label))
            if fits[-1].outcome is Outcome.INTERRUPTED and len(fits) < len(task.problems):
                raise KeyboardInterrupt
        return fits

    def _sample(self, problem: Problem, inference: Any, rng: np.random.Generator, label: str) -> Fit:
        """Draw from the posterior of one model."""
        check_can_sample(problem, f'inference="{inference.name}"')
        is_nuts = isinstance(inference, NUTS)
        total = inference.n_warmup + inference.n_draws
        total *= 1 if is_nuts and inference.chain_method == "vectorized" else inference.n_chains
        with step_progress(self.verbose > 0, label, total, "step") as report:
            return (run_nuts if is_nuts else run_gibbs)(problem, inference, rng, report)

    def _maximize(
        self,
        task: FitTask,
        settings: Settings,
        rng: np.random.Generator | None = None,
        on_sweep: OnSweep | None = None,
    ) -> list[Fit]:
        """Run the loop from `n_init` starts for every problem, one after the other, and keep the highest bounds.

        With missing views kernels are centered first: there the loop itself asks for the start.
        """
        algorithm = task.algorithm or settings.algorithm(task.problems[0])
        options, n_init = settings.loop, settings.n_init
        runs = [
            (problem, partial(self._start, algorithm, settings=settings, rng=rng, init=init))
            for problem, first in zip(task.problems, task.inits, strict=True)
            for init in (first, *["random"] * (n_init - 1))
        ]
        results: list[Fit] = []
        if settings.integrates:
            results = [fit_with_missing_views(algorithm, *run, options, on_sweep)[0] for run in runs]
        else:
            starts = [begin(problem) for problem, begin in runs]
            for (problem, _), start in zip(runs, starts, strict=True):
                report = after(sum(r.n_iter for r in results), on_sweep, len(runs))
                results.append(maximize_elbo(algorithm, problem, start, options, report))
        if not all(np.isfinite(result.elbo_history[0]) for result in results):
            raise ValueError(f"`X`: the first update of the posterior is not finite. {TOO_LARGE}")
        return [
            max(results[first : first + n_init], key=lambda result: result.elbo_history[-1])
            for first in range(0, len(results), n_init)
        ]

    def _start(
        self, algorithm: Any, problem: Any, settings: Settings, rng: np.random.Generator | None, init: Any
    ) -> Any:
        """Return the carry that the loop starts from: deterministic, random, or a posterior given by the user."""
        n_kernels, n_samples = problem.stack.n_kernels, problem.y.shape[-1]
        if isinstance(init, str) and init in ("mean", "random"):
            noise = problem.outcome.initial_noise(n_samples, rng if init == "random" else None)
            return algorithm.init(problem, noise)
        if not takes(problem, init):
            raise ValueError(
                f'`init` must be "mean", "random" or the `posterior_` of such a model, of the same kind of targets; '
                f"got {shown(init)}."
            )
        if init.distances is not None and len(init.distances) != problem.outcome.cut_slopes.shape[1]:
            n_levels = len(problem.outcome.cut_slopes) + 1
            raise ValueError(
                f"`init` must be a posterior of {n_levels} grades; got one of {len(init.distances) + 2}."
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

    numpyro_model = numpyro_model

    def _program(self, X: Samples, y: Targets, X_new: Samples | None) -> NumPyroProgram:
        from bayesmkl.bemkl.program import numpyro_program

        if self._PROGRAM_INSTEAD is not None:
            raise ValueError(f"{type(self).__name__} has no NumPyro program. {self._PROGRAM_INSTEAD}")
        self.set_params(storage=Storage("dense", "numpy"))
        settings = self._checked()
        settings.check("program")
        stack, y = self._prepare(X, y, settings)
        problems = self._task(stack, None, y, settings, "program").problems
        blocks = () if X_new is None else self._row_blocks(X_new, np.arange(stack.n_kernels))
        return numpyro_program(problems, [block.columns(slice(None)) for block in blocks])

    # --------------------------------------------------------------------------------------------- results

    def _store(self, task: FitTask, fits: list[Fit]) -> None:
        """Set the fitted attributes: `_summary` of the posteriors, and how they were found."""
        values = self._summary(task, fits)
        found: dict[str, Any] = {
            "n_iter_": np.array([fit.n_iter for fit in fits]),
            "outcome_": tuple(fit.outcome for fit in fits),
            "posterior_": tuple(fit.state for fit in fits),
        }
        if fits[0].stats is not None:
            found["sample_stats_"] = tuple(fit.stats for fit in fits)
        if fits[0].elbo_history is not None:
            found["elbo_history_"] = histories = tuple(fit.elbo_history for fit in fits)
            values["elbo_"] = float(sum(history[-1] for history in histories))
        for name in self._OF_SOME_FITS:
            self.__dict__.pop(name, None)
        values |= found if task.several else {name: value[0] for name, value in found.items()}
        for name, value in values.items():
            setattr(self, name, value)
        self.converged_ = all(fit.outcome.converged for fit in fits)

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Return posterior moments, of several models each with a leading axis for them, by attribute."""
        single = task.several or 1 in (task.targets.ndim, task.problems[0].y.ndim)
        moments = [self._moments(fit.state, task.stack, single) for fit in fits]
        each = {name: [own[name] for own in moments] for name in moments[0]}
        return {
            **{name: np.array(values) if task.several else values[0] for name, values in each.items()},
            "target_": task.targets,
            "storage_": task.stack.storage,
            "kernel_bytes_": int(task.stack.nbytes),
        }

    def _moments(self, posterior: State | PosteriorDraws, stack: Stack, single: bool) -> dict[str, Any]:
        """Return posterior moments of one model, of a `single` output or several, by the names of the attributes."""
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
            "kernel_shares_": shares[0],
            "kernel_shares_std_": shares[1],
            "intercept_": intercept,
            "dual_coef_": dual,
        }

    def _warn(self, settings: Settings, fits: list[Fit]) -> None:
        """Issue at most one ConvergenceWarning, for the worst outcome, with the remedy."""
        outcomes, loop = [fit.outcome for fit in fits], settings.loop
        failed = [one for one in outcomes if one in (Outcome.NOT_FINITE, Outcome.NOT_IMPROVING)]
        message = None
        if not isinstance(settings.inference, VB):
            message = sampling_advice(fits, settings.inference)
        elif failed:
            message = (
                f"{failed[0].value}; the last good posterior is kept. Kernels of very different scales or near "
                "singular ones cause this: normalize them, or use a prior with a larger rate."
            )
        elif Outcome.MAX_ITER in outcomes and loop.tol > 0.0:
            message = (
                f"stopped after max_iter={loop.max_iter} sweeps with a relative change of the ELBO of "
                f"{max(fit.last_change for fit in fits):.1e}, above tol={loop.tol:g}. Increase `max_iter`, or `tol` "
                "if this is accurate enough."
            )
        if message is not None:
            warn_user(f"{type(self).__name__} {message}", ConvergenceWarning)


BEMKL = ESTIMATOR | entries(
    r"""
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted to `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank(scale=True)``,
        which standardizes numbers and compares categories of a DataFrame by agreement.
    inference : {"vb", "nuts", "gibbs"}, VB, NUTS or Gibbs, default="vb"
        Inference method, by name or as an object with options, such as ``inference=NUTS(n_draws=500)``. "vb":
        closed-form updates, fast, with good predictions and intervals that are too narrow. "nuts": Hamiltonian Monte
        Carlo on the collapsed NumPyro model, the reference. "gibbs": blocked Gibbs sampling, also exact in the limit,
        but it mixes more slowly. If you need intervals, use `GPMKLClassifier` or `GPMKLRegressor`.
    nonnegative : bool, default=False
        Restrict the kernel weights to :math:`e \ge 0`. VB only.
    n_init : int, default=1
        Starts of the closed-form updates, the first at `init` and the others random; the highest ELBO is kept.
    max_iter : int, default=3000
        Maximum number of iterations, each an update of all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this for three iterations; 0 does all `max_iter`.
        Newton steps, for large kernels between samples and landmarks, have their own stopping rule
        (`bayesmkl.bemkl.VB`).
    storage : {"auto", "dense", "compressed", "float32", "packed", "streamed"} or Storage, default="auto"
        Storage of training kernels in a closed-form fit, and with a `Storage` also the backend of its
        updates. "auto" stores them dense or compressed, whichever is faster, and streams kernels with landmarks
        that would need more than half of the free memory.
    random_state : int, default=None
        Seed of the random starts, of the samplers, and of the Monte Carlo estimate behind `kernel_shares_`. None is
        a fixed seed.

    kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels)
        Posterior covariance of `e`. With a thousand kernels or more, and more than three per sample, a closed-form
        fit of two classes or one target stores it as a diagonal plus factors; ``np.asarray`` returns the matrix.
    dual_coef_ : ndarray of shape (n_samples,)
        Posterior mean of `a`, one entry per training sample, or per landmark of the bank.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every iteration; "vb" only.
    n_iter_ : int
        Sweeps or Newton steps, or draws of each chain.
    outcome_ : Outcome
        Stopping reason of the inference.
    storage_ : str
        Storage of the training kernels: "dense", "compressed", "float32", "packed" or "streamed".
    kernel_bytes_ : int
        Their size in bytes.
    present_ : ndarray of bool, of shape (n_kernels, n_samples), or None
        Mask of training samples that have the view of each kernel, with ``missing_views="integrate"``; else None.
    training_factors_ : object or None
        The factors of "compressed" kernels of a bank, if predictions use them.

    std : ndarray of the same shape
        Predictive standard deviation, if `return_std`.
    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity (NaN is an absent view with ``missing_views="integrate"``); or for a `predictive` that is not
        known.
    TypeError:numbers
        If `X` or `y` is a sparse matrix, or holds other objects than numbers.
    ConvergenceWarning
        If `tol` was not reached, chains diverge or disagree, or a sampler was interrupted.
    KernelQualityWarning
        If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
    """
)

OUTCOMES = BEMKL | entries(
    r"""
    kernel_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of each kernel weight. "nonsparse" is Gamma(concentration=1, rate=1), "sparse" is
        Gamma(1e-10, 1e-10), which switches most kernels off.
    sample_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of each sample weight.
    bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of the intercept.
    nonnegative : bool, default=False
        Restrict the kernel weights to :math:`e \ge 0`.
    predictive : {"full", "paper"}, default="full"
        "full" uses the whole posterior for predictions; "paper" ignores the variance of the intermediate outputs.
    inference : "vb" or VB, default="vb"
        Closed-form updates, the only inference available; ``VB(accelerate=False)`` for plain iterations.
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates; a posterior is a `posterior_` of the same kernels and samples.
    storage : {"auto", "dense", "compressed", "float32", "packed", "streamed"} or Storage, default="auto"
        Storage of training kernels, and with a `Storage` also the backend of the updates. "auto" stores them dense or
        compressed, whichever is faster, and streams kernels with landmarks that would need more than half of the free
        memory.
    random_state : int, default=None
        Seed of the random starts and of the Monte Carlo estimate behind `kernel_shares_`. None is a fixed seed.

    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of each kernel's share of the score; means sum to one. Intervals of
        variational posteriors are too narrow.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of `e`: known up to a common sign with `dual_coef_`.
    elbo_ : float
        Evidence lower bound in nats.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every iteration.
    n_iter_ : int
        Sweeps.
    outcome_ : Outcome
        Stopping reason of the loop.
    converged_ : bool
        Whether `tol` was reached.

    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity; or for a `predictive` that is not known.
    ConvergenceWarning
        If `tol` was not reached.
    """
)

MULTITASK = OUTCOMES | entries(
    r"""
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates; a posterior is a `posterior_` of the same kernels, tasks and samples.
    storage : {"auto", "dense"} or Storage, default="auto"
        ``Storage(backend=...)`` selects where the updates run; the kernels of all tasks are one dense array.

    tasks_ : ndarray of shape (n_tasks,)
        Names of the tasks: columns of a data frame, sorted values of `tasks`, or numbers.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_tasks, n_kernels)
        Posterior mean and standard deviation of every task's weights.
    kernel_weights_cov_ : ndarray of shape (n_tasks, n_kernels, n_kernels)
        Posterior covariance of every task's weights.
    common_kernel_weights_, common_kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of the common weights; not set if tasks are separate.
    common_kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels)
        Posterior covariance of the common weights; not set if tasks are separate.
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_tasks, n_kernels)
        Posterior mean and standard deviation of each kernel's share of the scores of each task; interpret these
        first. The means of a task sum to one.
    task_spread_ : float
        Typical distance of a task's weight from the common one, :math:`\mathrm E[\tau]^{-1/2}`; 0 if tasks share
        their weights, not set if they are separate.
    task_influence_ : ndarray of shape (n_tasks,)
        Influence of each task on the common weights; one minus their sum is the influence of the prior. Not set if
        tasks are separate.
    intercept_ : ndarray of shape (n_tasks,)
        Posterior mean of every task's intercept.
    dual_coef_ : ndarray of shape (n_tasks, n_samples)
        Posterior mean of every task's sample weights; 0 for samples that lack the task.
    task_samples_ : tuple of ndarray of shape (n_samples_of_task,)
        Positions of the training samples of every task.
    elbo_ : float
        Evidence lower bound in nats. It favors closely tied tasks even if they are unrelated, so do not choose
        `relation` by it.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every iteration; a tuple of one per task if they are separate.
    n_iter_ : int, or ndarray of shape (n_tasks,) if tasks are separate
        Sweeps.
    outcome_ : Outcome, or tuple of them if tasks are separate
        Stopping reason of the loop.
    converged_ : bool
        Whether `tol` was reached, everywhere.

    X:training : array-like or DataFrame of shape (n_samples, n_features), or kernels
        Samples of all tasks. With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
    X:again : array-like or DataFrame of shape (n_rows, n_features), or kernels
        As in `predict`.
    tasks : array-like of shape (n_rows,), optional
        Name of the task to predict each row in; None predicts every row in all tasks.
    tasks:training : array-like of shape (n_samples,), optional
        Name of the task of every sample.
    tasks:again : array-like of shape (n_rows,), optional
        As in `predict`.
    tasks:rows : array-like of shape (n_rows,), optional
        Name of the task of every row.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows.
    ValueError:X
        If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
        infinity; if `tasks` does not name a task of the training samples for every row; or for a `predictive`
        that is not known.
    ValueError:score
        If `y` does not have a column per task of the model, or `tasks` the task of every row, or no task has two
        values; and for an `X` that `predict` refuses.
    TypeError:score
        If `X` or `y` is a sparse matrix, or holds unsupported objects.
    """
)
