"""EasyMKL as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_choice, check_integer, check_number, check_scale
from bayesmkl.discriminative.estimators.base import (
    DiscriminativeClassifier,
    OnStep,
)
from bayesmkl.discriminative.estimators.shared_docs import CLASSIFIER
from bayesmkl.discriminative.global_weights.easymkl import KOMD, EasyMKLOptions, fit_easymkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.discriminative.training import Training

if TYPE_CHECKING:
    from bayesmkl.kernels.bank import KernelBank


@fill_docs(CLASSIFIER)
class EasyMKLClassifier(DiscriminativeClassifier):
    r"""Kernel weights from the distance between the classes, then a classifier on the combined kernel.

    With kernels :math:`\hat K_m` of mean diagonal one and their mean :math:`\bar K`, two points are sought, one in
    the hull of each class, that are near each other and made of many samples [1]_:

    .. math:: \min_g \; (1-\lambda)\, g^\top Y \bar K Y g + \lambda \|g\|^2 \quad \text{subject to} \quad
       g \ge 0, \; \sum_{y_i=+1} g_i = \sum_{y_i=-1} g_i = 1, \qquad
       \eta_m \propto g^\top Y \hat K_m Y g .

    Parameters
    ----------
    %(kernels)s
    C : float, default=1.0
        Regularization parameter of the final SVM, :math:`C > 0`: penalty of margin violations; "komd" has none.
    reg : float, default=0.1
        :math:`\lambda` between 0 (the nearest points of the hulls) and 1 (the means of the classes).
    final : {"svm", "komd"}, default="svm"
        The classifier on the combined kernel: an SVM, or the game above again, with the threshold
        halfway between its two points [2]_, as in [1]_.
    tol : float, default=1e-3
        Largest duality gap of the game, relative to its objective; also the tolerance of LibSVM.
    max_iter : int, default=5000
        Maximum number of iterations of the game.
    %(multiclass)s
    %(indefinite)s
    %(kernel_names)s
    %(verbose)s

    Attributes
    ----------
    %(classes_)s
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Of the kernels as given: :math:`\eta_m`, which sum to one, divided by the mean of the kernel's diagonal.
    %(dual_coef_)s *
    %(intercept_)s *
    %(support_)s
    %(support_fraction_)s
    %(n_active_kernels_)s
    objective_history_ : ndarray of shape (n_iter_,) +
        Objective of the game, summed over classes that share weights.
    duality_gap_ : float +
        Of that objective.
    %(n_iter_, n_solves_)s +
    %(outcome_)s +
    %(converged_)s
    %(clipping_)s
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    AlignmentMKLClassifier : Weights by alignment; ``reg=1`` here comes near it.

    Notes
    -----
    Departures from [1]_: the mean of the kernels instead of their sum, so that `reg` does not depend on their number;
    weights are divided by their sum instead of their length. Small values of `reg` take many iterations.

    Memory is that of one kernel beside the stack; the cost is :math:`O(P N^2)` plus :math:`O(N^2)` per iteration.

    References
    ----------
    .. [1] F. Aiolli and M. Donini (2015), EasyMKL: a scalable multiple kernel learning algorithm, Neurocomputing 169.
    .. [2] F. Aiolli, G. Da San Martino and A. Sperduti (2008), A kernel method for the optimization of the margin
       distribution, ICANN.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import EasyMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bank = KernelBank(Gaussian(width=1), views={"sepal": [0, 1], "petal": [2, 3]})
    >>> model = EasyMKLClassifier(bank, reg=0.5).fit(X[50:], y[50:])
    >>> model.kernel_weights_.round(2)
    array([0.05, 0.95])
    """

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        C: float = 1.0,
        reg: float = 0.1,
        final: str = "svm",
        tol: float = 1e-3,
        max_iter: int = 5000,
        multiclass: str = "one-versus-rest",
        indefinite: str = "raise",
        kernel_names: Sequence[str] | np.ndarray | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.reg = reg
        self.final = final
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.indefinite = indefinite
        self.kernel_names = kernel_names
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_number("reg", self.reg, low=0.0, inclusive=True) > 1.0:
            raise ValueError(
                f"`reg` must lie between 0 and 1; got {self.reg!r}. 1 compares the means of the classes."
            )
        check_scale("C", self.C)
        check_number("tol", self.tol, low=0.0)
        check_integer("max_iter", self.max_iter, low=1)
        check_choice("final", self.final, ("svm", "komd"))

    def _learn(
        self, training: Training, targets: np.ndarray, start: np.ndarray | None, on_step: OnStep
    ) -> MKLResult:
        options = EasyMKLOptions(float(self.reg), float(self.tol), int(self.max_iter))
        inner = Hinge(float(self.C)) if self.final == "svm" else KOMD(options.reg, options.max_iter)
        return fit_easymkl(training.stack, targets, inner, options, on_step)
