"""Models as NumPyro programs: what estimators return of them, and the method of estimators that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.kernels.views import check_samples


class NumPyroProgram(NamedTuple):
    """A NumPyro model and the data to run it on.

    Parameters
    ----------
    model : callable
        Function of the data with NumPyro statements, for example for `numpyro.infer.NUTS`.
    data : dict of str to ndarray of shape (n_kernels, n_samples, ...) or (n_samples,)
        Keyword arguments of `model`: kernels of the training samples, or their factors; and `y`, of shape
        (n_samples,) or (n_outputs, n_samples), equal to `target_` of the fitted estimator. If `y` is None, the model
        draws the target. Counts also have `offset`, which is added to the score, and `trials` if successes are
        counted. Times have `entry`, and their `y` holds intervals, (n_samples, 2).
    new : dict of str to ndarray of shape (n_kernels, n_rows, ...)
        Further keyword arguments of `model`, which add scores and targets of new samples. Empty if no new samples
        were given.

    Examples
    --------
    Draw from the prior. For the posterior, use ``MCMC(NUTS(program.model), ...).run(key, **program.data)``.

    >>> import jax
    >>> import numpy as np
    >>> from numpyro.infer import Predictive
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> program = GPMKLRegressor(KernelBank(["rbf", "linear"])).numpyro_model(X)
    >>> draws = Predictive(program.model, num_samples=3)(jax.random.key(0), **program.data)
    >>> draws["kernel_weights"].shape, draws["score"].shape, draws["y"].shape
    ((3, 2), (3, 20), (3, 20))
    """

    model: Callable[..., None]
    data: dict[str, Any]
    new: dict[str, Any]


def numpyro_model(
    self: Any,
    X: Samples,
    y: Targets | None = None,
    X_new: Samples | None = None,
    priors: Mapping[str, Any] | None = None,
) -> NumPyroProgram:
    """Return the model as a NumPyro program, with its data, for use outside this package.

    Kernels are those of the estimator's own bank, priors and options its parameters. The estimator itself stays
    as it is: nothing of a fit is used, and nothing fitted but the folds by which an `intermediate_scale` of "auto" is
    chosen; without `y` it is 1. The sites of the programs are in the user guide.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_samples, n_samples, n_kernels)
        Training samples as in `fit`.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
        Target as in `fit`. None is one target without an offset, two classes, or as many grades as there are
        `levels`, that the program draws; successes out of trials and times are not drawn without it.
    X_new : array-like of shape (n_rows, n_features) or (n_rows, n_samples, n_kernels), optional
        New samples as in `predict`. The sites `score_new` and `y_new` of draws with ``**program.new`` are those
        of each on its own: what new samples have in common beyond the training samples is left out.
    priors : mapping of str to numpyro.distributions.Distribution or callable, optional
        What sites draw from instead, such as ``{"intercept": Normal(0, 3), "noise_std": HalfCauchy(1)}``: kernel
        weights, samples (`dual`, `whitened`), noise and all others but those that follow from them. A distribution
        of one number is that of each entry; a callable makes one of that which is there, as
        ``{"y": lambda law: StudentT(4, law.loc, law.scale)}``, noise with heavy tails. Parameters of the estimator
        take what its inferences can do: conjugate priors for VB, distributions of NumPyro as `kernel_prior` of
        Gaussian processes.

    Returns
    -------
    NumPyroProgram
        `model`, `data` and `new`, of NumPy arrays; NumPyro draws in double precision after
        ``numpyro.enable_x64()``.

    Raises
    ------
    ValueError
        If parameters, `X` or `y` are wrong, if kernels are not positive semidefinite, or if a parameter has a
        value of which there is no program; if `priors` name no sites, or have another shape or other values than
        these. The message says which and what to use instead.
    TypeError
        If `X` or `y` is of a type that cannot be learned from.
    MemoryError
        If the kernels do not fit into memory.
    """
    own = clone(self)  # a program may set attributes
    if y is not None:
        return _with_priors(own._program(X, y, X_new), priors)
    rows = np.arange(check_samples(X, may_be_text=True))
    chosen = {name: value for name, value in own._BY_TARGET.items() if own.get_params()[name] == "auto"}
    unknown = rows % 2 if is_classifier(self) else rows
    levels = getattr(self, "levels", None)
    if levels is not None:
        unknown = np.asarray(levels)[rows % len(levels)]
    program = own.set_params(**chosen)._program(X, unknown, X_new)
    none = {name: 0.0 * value for name, value in program.data.items() if name == "offset"}
    of_new = {name: 0.0 * value for name, value in program.new.items() if name == "new_offset"}
    program = program._replace(data=program.data | none | {"y": None}, new=program.new | of_new)
    return _with_priors(program, priors)


def _with_priors(program: NumPyroProgram, priors: Mapping[str, Any] | None) -> NumPyroProgram:
    if priors is None:
        return program
    from bayesmkl._estimator.program_priors import with_priors

    return program._replace(model=with_priors(program.model, program.data, priors))
