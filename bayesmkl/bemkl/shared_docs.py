"""Docstring entries of BEMKL's estimators."""

from __future__ import annotations

from bayesmkl._estimator.shared_docs import ESTIMATOR
from bayesmkl._utils.docstrings import entries

BEMKL = ESTIMATOR | entries(
    r"""
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on `X`. With "precomputed", `X` is a stack of kernels of shape
        (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is ``KernelBank("auto")``, whose
        kernels have the scale of the samples.
    inference : {"vb", "nuts", "gibbs"}, VB, NUTS or Gibbs, default="vb"
        Inference of the posterior; a name is the object with its defaults, as in ``inference=NUTS(n_draws=500)``.
        "vb": the closed-form updates, fast, its predictions good and its intervals too narrow. "nuts": Hamiltonian
        Monte Carlo on the collapsed NumPyro model, the reference. "gibbs": blocked Gibbs sampling, exact in the limit
        as well, slower to forget where it was. For intervals that can be read of up to about 1000 samples use
        `GPMKLClassifier` or `GPMKLRegressor`.
    nonnegative : bool, default=False
        Restrict the kernel weights to :math:`e \ge 0`. VB only.
    n_init : int, default=1
        Starts of the closed-form updates, the first at `init` and the others random; the highest ELBO is kept.
    max_iter : int, default=3000
        Maximum number of iterations, each an update of all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this for three iterations; 0 does all `max_iter`.
        Newton steps, which are taken where kernels between samples and landmarks are large, have a rule of their own
        (`bayesmkl.bemkl.VB`).
    storage : {"auto", "dense", "compressed", "float32", "packed", "streamed"} or Storage, default="auto"
        Storage of training kernels in a closed-form fit, and with a `Storage` also the backend of its
        updates. "auto" holds them dense or compressed, whatever is faster, and streams those of a bank with
        landmarks that would need more than half of the memory that is left.
    random_state : int, default=None
        Seed of the random starts, of the samplers, and of the Monte Carlo estimate behind `kernel_shares_`. None is
        a fixed seed.

    kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels)
        Posterior covariance of `e`. Of a thousand kernels and more than three for every sample, in a closed-form fit
        of two classes or of one target, it is a diagonal plus factors with the methods of an array, of which
        ``np.asarray`` makes the matrix.
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
        The factors of "compressed" kernels of a bank, where predictions go through them.

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
        "full" carries all of the posterior into predictions; "paper" leaves the variance of the intermediate outputs
        out.
    inference : "vb" or VB, default="vb"
        The closed-form updates, the only inference that there is; ``VB(accelerate=False)`` for plain iterations.
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates; a posterior is a `posterior_` of the same kernels and samples.
    storage : {"auto", "dense", "compressed", "float32", "packed", "streamed"} or Storage, default="auto"
        Storage of training kernels, and with a `Storage` also the backend of the updates. "auto"
        holds them dense or compressed, whatever is faster, and streams those of a bank with landmarks that would need
        more than half of the memory that is left.
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

MULTITASK = BEMKL | entries(
    r"""
    inference : "vb" or VB, default="vb"
        The closed-form updates, the only inference that there is; ``VB(accelerate=False)`` for plain iterations.
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates; a posterior is a `posterior_` of the same kernels, tasks and samples.
    storage : {"auto", "dense"} or Storage, default="auto"
        ``Storage(backend=...)`` says where the updates run; the kernels of all tasks are one dense array.
    random_state : int, default=None
        Seed of the random starts and of the Monte Carlo estimate behind `kernel_shares_`. None is a fixed seed.

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
        Posterior mean and standard deviation of each kernel's part of the scores of each task: the numbers to read
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
        Evidence lower bound in nats. It rises as tasks are tied more closely, related or not: no guide to `relation`.
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
        If `X` or `y` is a sparse matrix, or holds what cannot be read.
    ConvergenceWarning
        If `tol` was not reached.
    """
)
