"""BEMKL as scikit-learn estimators: validate, run the loop, store what it found."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from bayesmkl._estimator import BaseMKL, sweep_progress
from bayesmkl._numerics.validation import check_choice, check_integer, check_number
from bayesmkl.bemkl import binary, regression
from bayesmkl.bemkl._moments import Gamma
from bayesmkl.bemkl.loop import LoopOptions, LoopResult, maximize_elbo
from bayesmkl.bemkl.predict import ScoreMoments, log_probabilities, predict_score
from bayesmkl.bemkl.shares import kernel_shares
from bayesmkl.kernels.stack import DenseStack

__all__ = ["BEMKLClassifier", "BEMKLRegressor"]

TOO_LARGE = (
    "The kernels are too large or too close to singular for double precision: normalize them "
    '(`KernelBank(normalize="spherical")`).'
)
HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)


class _BaseBEMKL(BaseMKL):
    """Parameters, loop and posterior summaries of both tasks."""

    # Named priors on precisions; the paper's hyper-parameters (§6.1), whose scale is our 1 / rate.
    PRIORS: ClassVar[dict[str, Gamma]] = {"nonsparse": Gamma(1.0, 1.0), "sparse": Gamma(1e-10, 1e-10)}

    def _prior(self, name: str) -> Gamma:
        value = getattr(self, name)
        if isinstance(value, str) and value in self.PRIORS:
            return self.PRIORS[value]
        if isinstance(value, (tuple, list)) and len(value) == 2:
            concentration, rate = value
            return Gamma(
                check_number(f"{name}.concentration", concentration, low=0.0),
                check_number(f"{name}.rate", rate, low=0.0),
            )
        raise ValueError(
            f'`{name}` must be "nonsparse", "sparse" or a Gamma(concentration, rate); got {value!r}.'
        )

    def _loop_options(self) -> LoopOptions:
        check_choice("predictive", self.predictive, ("full", "paper"))
        return LoopOptions(
            max_iter=check_integer("max_iter", self.max_iter, low=1),
            tol=check_number("tol", self.tol, low=0.0, inclusive=True),
            accelerate=bool(self.accelerate),
            backend=self._backend(self.backend),
        )

    def _run(self, algorithm: Any, problem: Any, start: Any, options: LoopOptions, label: str) -> LoopResult:
        with sweep_progress(self.verbose > 0, label, options.max_iter) as on_sweep:
            result = maximize_elbo(algorithm, problem, start, options, on_sweep)
        if not np.isfinite(result.elbo_history[0]):
            raise ValueError(f"`X`: the first update of the posterior is not finite. {TOO_LARGE}")
        return result

    def _gram(self, stack: DenseStack) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            gram = stack.gram()
        if not np.isfinite(gram).all():
            raise ValueError(f"`X`: the squares of the kernels overflow. {TOO_LARGE}")
        return gram

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(0 if self.random_state is None else self.random_state)

    def _start(self, algorithm: Any, problem: Any, init: Any) -> Any:
        """Carry that the loop starts from: deterministic, random, or a posterior given by the user."""
        n_kernels, n_samples = problem.stack.n_kernels, problem.y.shape[0]
        if isinstance(init, str) and init in ("mean", "random"):
            rng = self._rng() if init == "random" else None
            return algorithm.init(problem, self._initial_noise(n_samples, rng))
        state_type = algorithm.STATE
        if not isinstance(init, state_type):
            raise ValueError(
                f'`init` must be "mean", "random" or a {state_type.__name__} such as `posterior_`; got {init!r}.'
            )
        if init.intermediate.mean.shape != (n_kernels, n_samples):
            raise ValueError(
                f"`init` must be a posterior over {n_kernels} kernels and {n_samples} samples; "
                f"got one over {init.intermediate.mean.shape[0]} and {init.intermediate.mean.shape[1]}."
            )
        return algorithm.carry(init)

    def _store(self, results: list[LoopResult], stack: DenseStack, single: bool) -> None:
        """Set the fitted attributes, with a leading class axis unless `single`."""
        readouts = [r.state.readout for r in results]
        shares = [kernel_shares(stack, r.state.dual, r.state.readout, self._rng()) for r in results]
        values: dict[str, Any] = {
            "kernel_weights_": np.array([q.mean[1:] for q in readouts]),
            "kernel_weights_std_": np.array([np.sqrt(q.variance[1:]) for q in readouts]),
            "kernel_weights_cov_": np.array([q.cov[1:, 1:] for q in readouts]),
            "kernel_shares_": np.array([s.mean for s in shares]),
            "kernel_shares_std_": np.array([s.std for s in shares]),
            "intercept_": np.array([q.mean[0] for q in readouts]),
            "dual_coef_": np.array([r.state.dual.mean for r in results]),
            "n_iter_": np.array([r.n_iter for r in results]),
            "elbo_history_": tuple(r.elbo_history for r in results),
            "outcome_": tuple(r.outcome for r in results),
            "posterior_": tuple(r.state for r in results),
        }
        for name, value in values.items():
            setattr(self, name, value[0] if single else value)
        self.elbo_ = float(sum(r.elbo_history[-1] for r in results))
        self.converged_ = all(r.outcome.converged for r in results)

    def _warn(self, results: list[LoopResult], options: LoopOptions) -> None:
        self._report([r.outcome for r in results], options, max(r.last_change for r in results))

    def _predict_score(self, stack: DenseStack, state: Any, intermediate_variance: float) -> ScoreMoments:
        rule = check_choice("predictive", self.predictive, ("full", "paper"))
        return predict_score(stack, state.dual, state.readout, intermediate_variance, rule)


class BEMKLClassifier(ClassifierMixin, _BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for classification.

    Every kernel maps a sample to an intermediate output with weights `a` over the training samples, shared by all
    kernels; the kernel weights `e` combine these outputs to a score, and the label is the side of a margin on
    which the score lies:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, \sigma_g^2), \qquad
       f_i \mid b, e, g_i \sim N(e^\top g_i + b, 1), \qquad y_i f_i > \nu .

    A variational posterior over all of them is found in closed-form updates [1]_.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank()``.
    kernel_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of each kernel weight. "nonsparse" is Gamma(concentration=1, rate=1), "sparse" is
        Gamma(1e-10, 1e-10), which switches most kernels off.
    sample_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of each sample weight; "sparse" keeps few relevance samples.
    bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precision of the intercept.
    margin : float, default=1.0
        :math:`\nu \ge 0`. The paper leaves its value open.
    intermediate_scale : float, default=1.0
        :math:`\sigma_g`, standard deviation of the intermediate outputs; 1 in the paper.
    predictive : {"full", "paper"}, default="full"
        "full" carries all of the posterior into predictions; "paper" leaves the variance of the intermediate
        outputs out, as printed in §4.3.
    init : {"mean", "random"} or posterior, default="mean"
        Where the updates start: at the mean of the paper's random start (so that results do not depend on the
        order of samples or kernels), at a random start, or at a `posterior_` of the same samples and kernels.
    max_iter : int, default=1000
        Most sweeps over all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this in three sweeps. With 0, all `max_iter`
        sweeps are done; ``accelerate=False, tol=0, max_iter=200`` is the paper's loop.
    accelerate : bool, default=True
        Anderson acceleration between sweeps; the ELBO still never falls.
    backend : {"auto", "numpy", "jax"}, default="auto"
        "auto" is JAX where it finds an accelerator, else NumPy.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int, default=None
        Seed of the random start and of the Monte Carlo estimate behind `kernel_shares_`. None is a fixed seed.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels. With more than two, one model is fitted per class (one-versus-all), and the attributes marked * get
        a leading axis of length n_classes (or are tuples of that length).
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,) *
        Posterior mean and standard deviation of each kernel's part of the score, see `shares`: the numbers to
        read first. Means sum to one.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,) *
        Posterior mean and standard deviation of `e`: known up to a common sign with `dual_coef_`.
    kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels) *
        Posterior covariance of `e`.
    intercept_ : float *
        Posterior mean of `b`.
    dual_coef_ : ndarray of shape (n_samples,) *
        Posterior mean of `a`, one entry per training sample.
    elbo_ : float
        Evidence lower bound in nats (summed over the one-versus-all models).
    elbo_history_ : ndarray of shape (n_iter_,) *
        ELBO after every sweep.
    n_iter_ : int *
        Sweeps done.
    outcome_ : Outcome *
        Why the sweeps ended.
    converged_ : bool
        Whether `tol` was reached everywhere.
    posterior_ : BinaryState *
        All factors of the variational posterior.
    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, where `X` had them.

    See Also
    --------
    BEMKLRegressor : The same model of a real-valued target.

    Notes
    -----
    One sweep costs :math:`O(PN^2 + N^3 + P^3 + P^2 N)` for `P` kernels and `N` samples; all kernels take
    :math:`8PN^2` bytes. Variational posteriors are too narrow as a rule; the standard deviations are lower
    bounds of the uncertainty rather than estimates of it.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> X, y = load_iris(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)[50:]
    >>> bank = KernelBank([Gaussian(width=1), Linear()], views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = BEMKLClassifier(bank).fit(X, y[50:])
    >>> print(dict(zip(model.kernel_names_, model.kernel_shares_.round(2).tolist())))
    {...'linear · petal': ...}
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        kernels: Any = None,
        *,
        kernel_prior: Any = "nonsparse",
        sample_prior: Any = "nonsparse",
        bias_prior: Any = "nonsparse",
        margin: float = 1.0,
        intermediate_scale: float = 1.0,
        predictive: str = "full",
        init: Any = "mean",
        max_iter: int = 1000,
        tol: float = 1e-6,
        accelerate: bool = True,
        backend: str = "auto",
        kernel_names: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.kernel_prior = kernel_prior
        self.sample_prior = sample_prior
        self.bias_prior = bias_prior
        self.margin = margin
        self.intermediate_scale = intermediate_scale
        self.predictive = predictive
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.backend = backend
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> BEMKLClassifier:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Returns
        -------
        self : BEMKLClassifier

        Raises
        ------
        ValueError
            For invalid parameters or data; the message names the argument and the remedy.

        Warns
        -----
        ConvergenceWarning
            If `tol` was not reached.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        options = self._loop_options()
        priors = binary.BinaryPriors(
            self._prior("sample_prior"), self._prior("bias_prior"), self._prior("kernel_prior")
        )
        margin = check_number("margin", self.margin, low=0.0, inclusive=True)
        noise = check_number("intermediate_scale", self.intermediate_scale, low=0.0)
        stack, y = self._fit_stack(X, y)
        signs = self._encode(y)
        problem = binary.BinaryProblem(stack, self._gram(stack), signs[0], priors, margin, noise**-2)
        inits = self._inits(len(signs))

        results = []
        for label, sign, init in zip(self.classes_[-len(signs) :], signs, inits, strict=True):
            one = problem._replace(y=sign)
            results.append(self._run(binary, one, self._start(binary, one, init), options, f"class {label}"))

        self._store(results, stack, single=len(signs) == 1)
        self._warn(results, options)
        return self

    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Set `classes_` and return targets of -1 and +1, one row per binary model."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` must hold at least two classes; got one class only: {self.classes_[0]!r}. "
                "Check how the training samples were selected."
            )
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return np.array([np.where(codes == k, 1.0, -1.0) for k in positive])

    def _inits(self, n_models: int) -> list[Any]:
        if isinstance(self.init, tuple) and not hasattr(self.init, "_fields"):
            if len(self.init) != n_models:
                raise ValueError(
                    f"`init` must hold one posterior per class ({n_models}); got {len(self.init)} of them."
                )
            return list(self.init)
        return [self.init] * n_models

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """How far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))

    def _scores(self, X: Any) -> list[ScoreMoments]:
        stack = self._row_stack(X)
        states = (self.posterior_,) if len(self.classes_) == 2 else self.posterior_
        return [self._predict_score(stack, state, self.intermediate_scale**2) for state in states]

    def predict_latent(self, X: Any, return_std: bool = False) -> Any:
        """Predict the latent score `f` of new samples.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Predictive mean.
        std : ndarray of the same shape
            Predictive standard deviation, if `return_std`.
        """
        scores = self._scores(X)
        mean = np.stack([s.mean for s in scores], axis=1)
        std = np.sqrt(1.0 + np.stack([s.variance for s in scores], axis=1))
        if len(scores) == 1:
            mean, std = mean[:, 0], std[:, 0]
        return (mean, std) if return_std else mean

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of each class against the rest, given a score beyond the margin.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case. Finite where probabilities round to 0 and 1.
        """
        log_p = [log_probabilities(s, self.margin) for s in self._scores(X)]
        odds = np.stack([p[:, 1] - p[:, 0] for p in log_p], axis=1)
        return odds[:, 0] if odds.shape[1] == 1 else odds

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`. For more than two classes, the one-versus-all probabilities normalized to
            sum to one.
        """
        scores = self._scores(X)
        if len(scores) == 1:
            return np.exp(log_probabilities(scores[0], self.margin))
        log_p = np.stack([log_probabilities(s, self.margin)[:, 1] for s in scores], axis=1)
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.
        """
        odds = self.decision_function(X)
        return self.classes_[(odds > 0.0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)]


class BEMKLRegressor(RegressorMixin, _BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for regression.

    As `BEMKLClassifier`, with the target in the place of the score and both noise precisions learned:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, 1/\upsilon), \qquad
       y_i \mid b, e, g_i \sim N(e^\top g_i + b, 1/\varepsilon) .

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        As in `BEMKLClassifier`.
    kernel_prior, sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of kernel weights, sample weights and intercept.
    intermediate_prior, noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions :math:`\upsilon` of the intermediate outputs and :math:`\varepsilon` of the target.
    normalize_y : bool, default=True
        Standardize the target first, so that priors mean the same whatever its units. Predictions are in the
        original units; weights, `posterior_` and `elbo_` are those of the standardized target.
    predictive : {"full", "paper"}, default="full"
        "full" carries all of the posterior into the predictive standard deviation; "paper" leaves the variance of
        the intermediate outputs out, and its intervals are too narrow.
    init : {"mean", "random"} or posterior, default="mean"
        Where the updates start.
    max_iter : int, default=1000
        Most sweeps over all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this in three sweeps; 0 does all `max_iter` sweeps.
    accelerate : bool, default=True
        Anderson acceleration between sweeps; the ELBO still never falls.
    backend : {"auto", "numpy", "jax"}, default="auto"
        "auto" is JAX where it finds an accelerator, else NumPy.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int, default=None
        Seed of the random start and of the Monte Carlo estimate behind `kernel_shares_`. None is a fixed seed.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of each kernel's part of the score; means sum to one.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of `e`.
    kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels)
        Posterior covariance of `e`.
    intercept_ : float
        Posterior mean of `b`.
    dual_coef_ : ndarray of shape (n_samples,)
        Posterior mean of `a`.
    y_mean_, y_scale_ : float
        Mean and standard deviation by which the target was standardized (0 and 1 without `normalize_y`).
    elbo_ : float
        Evidence lower bound in nats.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every sweep.
    n_iter_ : int
        Sweeps done.
    outcome_ : Outcome
        Why the sweeps ended.
    converged_ : bool
        Whether `tol` was reached.
    posterior_ : RegressionState
        All factors of the variational posterior.
    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, where `X` had them.

    See Also
    --------
    BEMKLClassifier : The model of the paper.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = 3.0 * X[:, 0] + rng.normal(scale=0.1, size=80)
    >>> bank = KernelBank([Linear(), Gaussian(width=1)], normalize="trace")
    >>> model = BEMKLRegressor(bank).fit(X, y)
    >>> mean, std = model.predict([[1.0, 0.0]], return_std=True)
    >>> bool(abs(mean[0] - 3.0) < 0.2), mean.shape, std.shape
    (True, (1,), (1,))
    """

    def __init__(
        self,
        kernels: Any = None,
        *,
        kernel_prior: Any = "nonsparse",
        sample_prior: Any = "nonsparse",
        bias_prior: Any = "nonsparse",
        intermediate_prior: Any = "nonsparse",
        noise_prior: Any = "nonsparse",
        normalize_y: bool = True,
        predictive: str = "full",
        init: Any = "mean",
        max_iter: int = 1000,
        tol: float = 1e-6,
        accelerate: bool = True,
        backend: str = "auto",
        kernel_names: Any = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.kernel_prior = kernel_prior
        self.sample_prior = sample_prior
        self.bias_prior = bias_prior
        self.intermediate_prior = intermediate_prior
        self.noise_prior = noise_prior
        self.normalize_y = normalize_y
        self.predictive = predictive
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.backend = backend
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> BEMKLRegressor:
        """Fit the posterior.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        self : BEMKLRegressor

        Raises
        ------
        ValueError
            For invalid parameters or data; the message names the argument and the remedy.

        Warns
        -----
        ConvergenceWarning
            If `tol` was not reached.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        options = self._loop_options()
        priors = regression.RegressionPriors(
            *(self._prior(f"{name}_prior") for name in ("sample", "bias", "kernel", "intermediate", "noise"))
        )
        stack, y = self._fit_stack(X, y, y_numeric=True)
        self.y_mean_, self.y_scale_ = _location_and_scale(y) if self.normalize_y else (0.0, 1.0)
        target = (y - self.y_mean_) / self.y_scale_
        problem = regression.RegressionProblem(stack, self._gram(stack), target, priors)

        start = self._start(regression, problem, self.init)
        result = self._run(regression, problem, start, options, "regression")

        self._store([result], stack, single=True)
        self._warn([result], options)
        return self

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return what is added to the starting intermediate outputs: N(0, 1), or its mean."""
        return np.zeros(n_samples) if rng is None else rng.standard_normal(n_samples)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        return_std : bool, default=False
            Also return standard deviations of the target, its noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            Predictive mean, in the units of the target.
        std : ndarray of shape (n_rows,)
            Predictive standard deviation, if `return_std`.
        """
        stack, state = self._row_stack(X), self.posterior_
        full = self.predictive == "full"
        score = self._predict_score(stack, state, float(state.intermediate_precision.mean_reciprocal))
        mean = self.y_mean_ + self.y_scale_ * score.mean
        if not return_std:
            return mean
        noise = state.noise_precision.mean_reciprocal if full else 1.0 / state.noise_precision.mean
        return mean, self.y_scale_ * np.sqrt(float(noise) + score.variance)


def _location_and_scale(y: np.ndarray) -> tuple[float, float]:
    scale = float(y.std())
    return float(y.mean()), scale if scale > 0.0 else 1.0
