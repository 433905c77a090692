"""BEMKL as scikit-learn estimators: validate, run the loop, store what it found."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from bayesmkl._estimator import encode_labels
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.validation import check_number
from bayesmkl.bemkl import binary, regression
from bayesmkl.bemkl.base import BaseBEMKL
from bayesmkl.bemkl.predict import ScoreDraws, ScoreMoments, binary_log_odds, log_probabilities
from bayesmkl.kernels.stack import DenseStack

__all__ = ["BEMKLClassifier", "BEMKLRegressor"]

HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)


class BEMKLClassifier(ClassifierMixin, BaseBEMKL):
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
    kernel_prior : {"nonsparse", "sparse"}, Gamma, "dirichlet", "spike-slab", Dirichlet or SpikeSlab
        Prior on the precision of each kernel weight. "nonsparse", the default, is Gamma(concentration=1, rate=1),
        "sparse" is Gamma(1e-10, 1e-10), which switches most kernels off; the samplers need a concentration of at
        least 0.5. With ``inference="nuts"`` also a prior on the weights themselves: "dirichlet" (weights are
        positive and sum to one) or "spike-slab" (each kernel is in or out).
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
        outputs out, as printed in §4.3. Of the closed form only: draws need no rule.
    inference : {"vb", "nuts", "gibbs", "svi"}, default="vb"
        How the posterior is found. "vb": the closed-form updates, fast, its predictions good and its intervals too
        narrow. "nuts": Hamiltonian Monte Carlo on the collapsed NumPyro model, the reference. "gibbs": blocked
        Gibbs sampling, exact in the limit as well, slower to forget where it was. "svi": a normal distribution
        fitted to the collapsed model by stochastic gradients, starting from "vb"; do not read shares from it.
    init : {"mean", "random"} or posterior, default="mean"
        Where the updates start: at the mean of the paper's random start (so that results do not depend on the
        order of samples or kernels), at a random start, or at a `posterior_` of the same samples and kernels.
    n_init : int, default=1
        Starts of the closed-form updates, the first at `init` and the others random; the highest ELBO is kept. The
        bound can have several local maxima.
    max_iter : int, default=1000
        Most sweeps over all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this in three sweeps. With 0, all `max_iter`
        sweeps are done; ``accelerate=False, tol=0, max_iter=200`` is the paper's loop.
    accelerate : bool, default=True
        Anderson acceleration between sweeps; the ELBO still never falls.
    backend : {"auto", "numpy", "jax"}, default="auto"
        Of the closed-form updates. "auto" is JAX where it finds an accelerator, else NumPy.
    n_chains, n_warmup, n_draws : int, default=4, 1000, 1000
        For "nuts" and "gibbs": chains, their steps before the first draw that counts, and draws of each. "svi" takes
        `n_draws` draws from its result.
    target_accept : float, default=0.99
        For "nuts": acceptance rate that the step size aims at. Higher means fewer divergences and more work.
    chain_method : {"sequential", "vectorized"}, default="sequential"
        For "nuts": one chain after the other, or all in one batch, which pays on a GPU.
    n_steps : int, default=10000
        For "svi": steps of the optimizer.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int, default=None
        Seed of the random starts, of the samplers, and of the Monte Carlo estimate behind `kernel_shares_`. None is
        a fixed seed.
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
        Evidence lower bound in nats (summed over the one-versus-all models); "vb" and "svi" only.
    elbo_history_ : ndarray of shape (n_iter_,) *
        ELBO after every sweep ("vb"), or its mean over blocks of steps ("svi").
    n_iter_ : int *
        Sweeps, draws of each chain, or optimizer steps.
    outcome_ : Outcome *
        How the inference ended.
    converged_ : bool
        Whether `tol` was reached, or the chains agree, everywhere.
    posterior_ : BinaryState or PosteriorDraws *
        All factors of the variational posterior, or the draws of the other inferences: arrays of shape (n_chains,
        n_draws, ...), in which of two mirror images (a, e) and (-a, -e) the one is kept whose kernel weights point
        with the others (`draws`).
    sample_stats_ : dict of str to ndarray of shape (n_chains, n_draws) *
        The sampler's own statistics (diverging, acceptance_rate, n_steps, energy for "nuts"; log_variational for
        "svi"); not set by "vb".
    target_ : ndarray of shape (n_samples,) *
        Training labels as the model sees them, -1 and +1.
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
    Interrupting "nuts" or "gibbs" (Ctrl-C) ends the fit with the finished chains, or the finished draws of the first,
    and a warning that says what was kept; before the first draws it raises KeyboardInterrupt as usual.

    Under "nuts" and "gibbs" the raw score and raw weights have very heavy tails, as their scale is known only through
    the priors: the standard deviations of `predict_latent` and `kernel_weights_std_` are then those of the draws, and
    differ from run to run. Shares and probabilities do not.

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
        inference: str = "vb",
        init: Any = "mean",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-6,
        accelerate: bool = True,
        backend: str = "auto",
        n_chains: int = 4,
        n_warmup: int = 1000,
        n_draws: int = 1000,
        target_accept: float = 0.99,
        chain_method: str = "sequential",
        n_steps: int = 10000,
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
        self.inference = inference
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.backend = backend
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.target_accept = target_accept
        self.chain_method = chain_method
        self.n_steps = n_steps
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
            If `tol` was not reached, chains diverge or disagree, or a sampler was interrupted.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        priors = self._priors()  # parameters first: a mistake in them costs no time
        self._loop_options()
        self._sampler_options()
        stack, y = self._fit_stack(X, y)
        self.classes_, signs = encode_labels(y)
        rng, fits = self._rng(), []
        problems = self._problems(stack, signs, priors)
        labels = self.classes_[-len(signs) :]
        for label, problem, init in zip(labels, problems, self._inits(len(signs)), strict=True):
            fits.append(self._infer(binary, problem, init, rng, f"class {label}"))
            if fits[-1].outcome is Outcome.INTERRUPTED and len(fits) < len(signs):
                raise KeyboardInterrupt
        self._store(fits, stack, signs)
        self._warn(fits)
        return self

    def _priors(self) -> binary.BinaryPriors:
        return binary.BinaryPriors(
            self._prior("sample_prior"), self._prior("bias_prior"), self._kernel_prior()
        )

    def _problems(
        self, stack: DenseStack, targets: np.ndarray | None = None, priors: Any = None
    ) -> list[binary.BinaryProblem]:
        """Return what each binary model is fitted to; None takes the targets of the last fit."""
        targets = np.atleast_2d(self.target_) if targets is None else targets
        priors = self._priors() if priors is None else priors
        margin = check_number("margin", self.margin, low=0.0, inclusive=True)
        noise = check_number("intermediate_scale", self.intermediate_scale, low=0.0)
        gram = self._gram(stack)
        return [binary.BinaryProblem(stack, gram, y, priors, margin, noise**-2) for y in targets]

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

    def _scores(self, X: Any) -> list[ScoreMoments | ScoreDraws]:
        stack = self._row_stack(X)
        posteriors = (self.posterior_,) if len(self.classes_) == 2 else self.posterior_
        return [self._score(stack, posterior, self.intermediate_scale**2) for posterior in posteriors]

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
        std = np.sqrt(np.stack([_total_variance(s) for s in scores], axis=1))
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
        odds = np.stack([binary_log_odds(s, self.margin) for s in self._scores(X)], axis=1)
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


class BEMKLRegressor(RegressorMixin, BaseBEMKL):
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
        the intermediate outputs out, and its intervals are too narrow. Of the closed form only.
    inference, n_init, n_chains, n_warmup, n_draws, target_accept, chain_method, n_steps
        How the posterior is found, as in `BEMKLClassifier`.
    init : {"mean", "random"} or posterior, default="mean"
        Where the closed-form updates start.
    max_iter : int, default=1000
        Most sweeps over all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this in three sweeps; 0 does all `max_iter` sweeps.
    accelerate : bool, default=True
        Anderson acceleration between sweeps; the ELBO still never falls.
    backend : {"auto", "numpy", "jax"}, default="auto"
        Of the closed-form updates. "auto" is JAX where it finds an accelerator, else NumPy.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int, default=None
        Seed of the random starts, of the samplers, and of the Monte Carlo estimate behind `kernel_shares_`. None is
        a fixed seed.
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
        Evidence lower bound in nats; "vb" and "svi" only.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every sweep ("vb"), or its mean over blocks of steps ("svi").
    n_iter_ : int
        Sweeps, draws of each chain, or optimizer steps.
    outcome_ : Outcome
        How the inference ended.
    converged_ : bool
        Whether `tol` was reached, or the chains agree.
    posterior_ : RegressionState or PosteriorDraws
        All factors of the variational posterior, or the draws of the other inferences, of shape (n_chains, n_draws,
        ...).
    sample_stats_ : dict of str to ndarray of shape (n_chains, n_draws)
        The sampler's own statistics; not set by "vb".
    target_ : ndarray of shape (n_samples,)
        The standardized training target.
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
        inference: str = "vb",
        init: Any = "mean",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-6,
        accelerate: bool = True,
        backend: str = "auto",
        n_chains: int = 4,
        n_warmup: int = 1000,
        n_draws: int = 1000,
        target_accept: float = 0.99,
        chain_method: str = "sequential",
        n_steps: int = 10000,
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
        self.inference = inference
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.backend = backend
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.target_accept = target_accept
        self.chain_method = chain_method
        self.n_steps = n_steps
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
            If `tol` was not reached, chains diverge or disagree, or a sampler was interrupted.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        priors = self._priors()  # parameters first: a mistake in them costs no time
        self._loop_options()
        self._sampler_options()
        stack, y = self._fit_stack(X, y, y_numeric=True)
        self.y_mean_, self.y_scale_ = _location_and_scale(y) if self.normalize_y else (0.0, 1.0)
        targets = (y - self.y_mean_)[None] / self.y_scale_
        (problem,) = self._problems(stack, targets, priors)
        fit = self._infer(regression, problem, self.init, self._rng(), "regression")
        self._store([fit], stack, targets)
        self._warn([fit])
        return self

    def _priors(self) -> regression.RegressionPriors:
        sample, bias = self._prior("sample_prior"), self._prior("bias_prior")
        intermediate, noise = self._prior("intermediate_prior"), self._prior("noise_prior")
        return regression.RegressionPriors(sample, bias, self._kernel_prior(), intermediate, noise)

    def _problems(
        self, stack: DenseStack, targets: np.ndarray | None = None, priors: Any = None
    ) -> list[regression.RegressionProblem]:
        """Return what the model is fitted to; None takes the target of the last fit."""
        targets = np.atleast_2d(self.target_) if targets is None else targets
        priors = self._priors() if priors is None else priors
        return [regression.RegressionProblem(stack, self._gram(stack), y, priors) for y in targets]

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
        score = self._score(self._row_stack(X), self.posterior_, None)
        mean = self.y_mean_ + self.y_scale_ * score.mean
        if not return_std:
            return mean
        if isinstance(score, ScoreDraws):
            return mean, self.y_scale_ * np.sqrt(score.total_variance)
        noise = self.posterior_.noise_precision
        own = noise.mean_reciprocal if self.predictive == "full" else 1.0 / noise.mean
        return mean, self.y_scale_ * np.sqrt(float(own) + score.variance)


def _location_and_scale(y: np.ndarray) -> tuple[float, float]:
    scale = float(y.std())
    return float(y.mean()), scale if scale > 0.0 else 1.0


def _total_variance(score: ScoreMoments | ScoreDraws) -> np.ndarray:
    """Predictive variance of the score, its unit noise included."""
    return score.total_variance if isinstance(score, ScoreDraws) else 1.0 + score.variance
