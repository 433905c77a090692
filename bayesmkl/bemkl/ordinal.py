"""BEMKL for grades, classes with an order, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from bayesmkl._estimator.predictions import GradePredictions
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import scale_or_auto
from bayesmkl.bemkl.ascent import Fit
from bayesmkl.bemkl.base import OUTCOMES, BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.reading import ScoreMoments, predict_score
from bayesmkl.bemkl.selection import USUAL, choose_by_folds
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes import Grades, OrdinalProbit
from bayesmkl.outcomes.grades import given_levels, number_grades


@fill_docs(OUTCOMES)
@dataclass(eq=False, repr=False, kw_only=True)
class BEMKLOrdinalClassifier(GradePredictions, BaseBEMKL):
    r"""Bayesian efficient multiple kernel learning for grades, that is, ordered classes.

    As `BEMKLClassifier` of two classes [2]_, with cut points that divide the score into as many grades as there are
    classes [1]_:

    .. math:: g_{mi} \mid a \sim N(k_{mi}^\top a, \sigma_g^2), \qquad
       f_i \mid b, e, g_i \sim N(e^\top g_i + b, 1), \qquad y_i = k \iff c_{k-1} < f_i \le c_k .

    The variational posterior is found in closed-form updates, and cut points by Newton steps between them, which
    raise the same bound.

    Parameters
    ----------
    %(kernels)s
    %(views)s
    %(kernel_prior)s
    %(sample_prior)s
    %(bias_prior)s
    %(predictive)s
    %(inference)s
    %(init)s
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s
    %(levels)s
    intermediate_scale : "auto" or float, default="auto"
        :math:`\sigma_g`, standard deviation of the intermediate outputs; "auto" is .1, .3 or 1, of which the log loss
        in five folds is smallest, and 1 where `BEMKLClassifier` takes 1.
    %(nonnegative)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Grades, ascending.
    cut_points_ : ndarray of shape (n_cuts,)
        The cut points between neighboring grades that maximize the bound, in units of the noise, around their mean;
        `intercept_` is from there.
    %(kernel_shares_, kernel_shares_std_)s
    %(kernel_weights_, kernel_weights_std_)s
    %(kernel_weights_cov_)s
    intermediate_scale_ : float
        The standard deviation of the intermediate outputs in use.
    intercept_ : float
        Posterior mean of `b`.
    %(dual_coef_)s
    %(elbo_)s
    %(elbo_history_)s
    %(n_iter_)s
    %(outcome_)s
    %(converged_)s
    posterior_ : State
        All factors of the variational posterior, and the distances of cut points.
    target_ : ndarray of shape (n_samples,)
        Numbers of the training grades, from 0.
    %(storage_)s
    %(kernel_bytes_)s
    %(training_factors_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    bayesmkl.gp.GPMKLOrdinalClassifier : Grades with intervals that can be read, of up to 1000 samples.
    BEMKLClassifier : Classes without an order.

    Notes
    -----
    Variational posteriors are too narrow as a rule, and cut points have no uncertainty at all. `numpyro_model` gives
    distances of cut points the prior LogNormal(0.7, 1), which is that of `GPMKLOrdinalClassifier`.

    References
    ----------
    .. [1] P. McCullagh (1980), Regression models for ordinal data, Journal of the Royal Statistical Society B 42.
    .. [2] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLOrdinalClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> grade = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> model = BEMKLOrdinalClassifier(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X, grade)
    >>> bool(model.kernel_shares_[0] > 0.8), model.predict([[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    (True, array([0, 1, 2]))
    """

    _FLAGS = ("nonnegative",)
    _INFERENCES = ("vb",)
    _BY_TARGET: ClassVar[dict[str, Any]] = {"intermediate_scale": USUAL}

    levels: Sequence[Any] | None = None
    intermediate_scale: float | str = "auto"
    nonnegative: bool = False

    def fit(self, X: Samples, y: Targets) -> BEMKLOrdinalClassifier:
        """Fit the posterior and the cut points.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples,)
            Grades; there must be samples of each.

        Returns
        -------
        self : BEMKLOrdinalClassifier
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._fit(X, y)
        return self

    def _prepare(self, X: Samples, y: Targets, settings: Settings) -> tuple[Stack, np.ndarray]:
        """Return the training kernels and the numbers of the grades, validated."""
        levels = given_levels(self.levels, y)
        stack, y = self._fit_stack(X, y, storage=settings.holding)
        self.classes_, codes = number_grades(levels, y)
        return stack, codes

    def _task(
        self, stack: Stack, gram: Any, y: np.ndarray, settings: Settings, method: str | None = None
    ) -> FitTask:
        """Return the model of grades by their numbers."""
        codes = y.astype(np.float64)
        if isinstance(self.intermediate_scale, str):
            scale, _ = choose_by_folds(self, settings, stack, codes, y, self._probabilities_of)
            settings = settings._replace(intermediate_scale=scale)
        self.intermediate_scale_ = settings.intermediate_scale
        return super()._task(stack, gram, codes, settings)

    def _settings(self) -> Settings:
        scale = scale_or_auto("intermediate_scale", self.intermediate_scale)
        used = getattr(self, "intermediate_scale_", USUAL) if scale is None else scale
        return super()._settings()._replace(intermediate_scale=used)

    def _problems_of(self, stack: Stack, gram: Any, targets: np.ndarray, settings: Settings) -> list[Any]:
        grades = Grades(OrdinalProbit(len(self.classes_)).cut_slopes())
        return [Problem(stack, gram, targets + 1.0, settings.priors, grades, settings.intermediate_scale**-2)]

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Add the cut points."""
        cuts = task.problems[0].outcome.cut_slopes @ fits[0].state.distances
        return super()._summary(task, fits) | {"cut_points_": cuts}

    # ------------------------------------------------------------------------------------------ predictions

    def _score(self, stack: Stack, posterior: State, settings: Settings | None = None) -> ScoreMoments:
        """Return mean and variance of the scores of the rows of `stack`, without their noise."""
        own = settings or self._settings()
        variance = own.intermediate_scale**2
        return predict_score(stack, posterior.dual, posterior.readout, variance, own.predictive)

    def _log_probabilities(self, posterior: State, score: ScoreMoments) -> np.ndarray:
        """Return log probabilities of grades, (n_rows, n_classes)."""
        distances = posterior.distances
        found = OrdinalProbit(len(distances) + 2).log_probabilities(*score, distances[:, None])
        return (found - logsumexp(found, axis=0)).T

    def _probabilities_of(self, states: list[State], rows: Stack, settings: Settings) -> np.ndarray:
        """Return the probabilities of rows that a fold has left out."""
        (state,) = states
        return np.exp(self._log_probabilities(state, self._score(rows, state, settings)))

    def predict_latent(self, X: Samples, return_std: bool = False) -> Any:
        """Predict the latent score `f` of new samples.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            Predictive mean, in units of the noise; grades lie between `cut_points_`.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        score = self._score(self._row_stack(X), self.posterior_)
        return (score.mean, np.sqrt(1.0 + score.variance)) if return_std else score.mean

    def _log_grades(self, X: Samples) -> np.ndarray:
        stack = self._row_stack(X)
        return self._log_probabilities(self.posterior_, self._score(stack, self.posterior_))
