"""Options of the inferences, and of how training kernels are held."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from bayesmkl._utils.validation import check_choice, check_flag, check_integer, check_number, shown

BACKENDS = ("auto", "numpy", "jax")
STORAGES = ("auto", "dense", "compressed", "float32", "packed", "streamed")


class Options:
    """Fields that show themselves where they differ from their defaults, as parameters of estimators do."""

    def __repr__(self) -> str:
        given = ((field, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        changed = (f"{field.name}={value!r}" for field, value in given if repr(value) != repr(field.default))
        return f"{type(self).__name__}({', '.join(changed)})"


class _InferenceOptions(Options):
    """Options of one inference; `name` stands for them with their defaults.

    Their method `_checked` returns the same with fields of Python's own types, or raises ValueError.
    """

    name: ClassVar[str]

    def _count(self, field: str, low: int = 1) -> int:
        return check_integer(_field(field), getattr(self, field), low=low)


def _field(name: str) -> str:
    """Return the name of a field in messages, which put it into backticks."""
    return f"{name}` of `inference"


@dataclass(frozen=True, repr=False)
class VB(_InferenceOptions):
    """Options of the variational posterior, which is found in closed-form updates.

    Fast; its predictions are good, and its intervals too narrow. `init`, `n_init`, `max_iter` and `tol` of the
    estimator say where the updates start and when they stop.

    Parameters
    ----------
    accelerate : bool, default=True
        Anderson acceleration between sweeps; the ELBO still never falls.
    step : {"auto", "newton", "coordinate"}, default="auto"
        "coordinate": sweeps that update one factor after the other, as the paper does. "newton": Newton steps of the
        sample weights with all else at its optimum, tens of them where sweeps are hundreds, for two classes, each
        class against the rest, and one target; `n_iter_` counts them, and a step evaluates the kernels twice. They
        end where the gain is at most `tol` of the ELBO, and the root mean square change of expected training scores,
        in units of their noise, at most the square root of `tol`. "auto": Newton steps where kernels between samples
        and fewer landmarks are large, more than 64 MB, and there they take less time. They are taken by NumPy. The
        ELBO has several maxima; which one is found depends on the steps.

    See Also
    --------
    NUTS, Gibbs : The other inferences.

    Examples
    --------
    The loop of the paper:

    >>> from bayesmkl import BEMKLClassifier
    >>> from bayesmkl.bemkl import VB
    >>> BEMKLClassifier(inference=VB(accelerate=False), max_iter=200, tol=0)
    BEMKLClassifier(inference=VB(accelerate=False), max_iter=200, tol=0)
    """

    accelerate: bool = True
    step: str = "auto"

    name: ClassVar[str] = "vb"

    def _checked(self) -> VB:
        step = check_choice(_field("step"), self.step, ("auto", "newton", "coordinate"))
        return VB(check_flag(_field("accelerate"), self.accelerate), step)


@dataclass(frozen=True, repr=False)
class NUTS(_InferenceOptions):
    """Options of Hamiltonian Monte Carlo on the collapsed NumPyro model: the reference.

    Parameters
    ----------
    n_chains : int, default=4
        Chains.
    n_warmup : int, default=1000
        Steps of each chain before the first draw that counts.
    n_draws : int, default=1000
        Draws of each chain, at least 10.
    target_accept : float, default=0.99
        Acceptance rate that the step size aims at, between 0 and 1. Higher means fewer divergences and more work.
    chain_method : {"sequential", "vectorized"}, default="sequential"
        One chain after the other, or all in one batch, which pays on a GPU.

    See Also
    --------
    Gibbs : Draws from the same posterior, without NumPyro.
    bayesmkl.posterior.diagnose : Whether the chains agree.

    Examples
    --------
    >>> from bayesmkl import BEMKLClassifier
    >>> from bayesmkl.bemkl import NUTS
    >>> model = BEMKLClassifier(inference=NUTS(n_chains=2, n_draws=500))
    >>> model.inference
    NUTS(n_chains=2, n_draws=500)
    >>> model.inference.target_accept
    0.99
    """

    n_chains: int = 4
    n_warmup: int = 1000
    n_draws: int = 1000
    target_accept: float = 0.99
    chain_method: str = "sequential"

    name: ClassVar[str] = "nuts"

    def _checked(self) -> NUTS:
        target = check_number(_field("target_accept"), self.target_accept, low=0.0)
        if target >= 1.0:
            raise ValueError(
                f"`target_accept` of `inference` must be between 0 and 1; got {target:g}. 0.99 is the default."
            )
        method = check_choice(_field("chain_method"), self.chain_method, ("sequential", "vectorized"))
        counts = self._count("n_chains"), self._count("n_warmup"), self._count("n_draws", low=10)
        return NUTS(*counts, target, method)


@dataclass(frozen=True, repr=False)
class Gibbs(_InferenceOptions):
    """Options of blocked Gibbs sampling: exact in the limit as NUTS is, slower to forget where it was.

    Parameters
    ----------
    n_chains : int, default=4
        Chains.
    n_warmup : int, default=1000
        Sweeps of each chain before the first draw that counts.
    n_draws : int, default=1000
        Draws of each chain, at least 10.

    See Also
    --------
    bayesmkl.posterior.refine_posterior : Chains that start around a variational posterior, until they agree.

    Examples
    --------
    >>> from bayesmkl import BEMKLRegressor
    >>> from bayesmkl.bemkl import Gibbs
    >>> BEMKLRegressor(inference=Gibbs(n_draws=5000))
    BEMKLRegressor(inference=Gibbs(n_draws=5000))
    """

    n_chains: int = 4
    n_warmup: int = 1000
    n_draws: int = 1000

    name: ClassVar[str] = "gibbs"

    def _checked(self) -> Gibbs:
        return Gibbs(self._count("n_chains"), self._count("n_warmup"), self._count("n_draws", low=10))


@dataclass(frozen=True, repr=False)
class Marginal(_InferenceOptions):
    """Options of marginal inference, which integrates function values out and draws the hyperparameters.

    Parameters
    ----------
    sampler : {"importance", "nuts"}, default="importance"
        How hyperparameters are drawn, starting at their mode. "importance": adaptive importance sampling; its Pareto
        k-hat shows whether the points are enough. "nuts": Markov chains by NumPyro, which take several times as long;
        use them if importance sampling fails. A spike-and-slab prior always uses its own Markov chains instead.
    n_points : int, default=None
        Number of hyperparameter settings (points) to draw, at least 100. Importance sampling draws up to twice as
        many while weights have a heavy tail or few effective draws. None: as many as `share_mcse` needs, between 64
        and 512; for chains 512.
    n_draws : int, default=2000
        Number of equally likely draws of scores and shares, at least 100. Their hyperparameters are drawn from the
        points, so many draws have the same ones.
    n_chains : int, default=4
        Number of Markov chains, which divide `n_points` among them.
    n_warmup : int, default=100
        Number of warm-up steps of each chain, or of its sweeps over the kernels.
    approximation : {"ep", "laplace"}, default="ep"
        Approximation of the evidence for likelihoods other than the Gaussian, which is exact: expectation
        propagation, or Laplace's approximation, which takes about as long and shrinks scores.
    total_landmarks : int, "auto" or None, default="auto"
        Total number of landmarks of all kernels, at least two for each; for Gaussian processes with `landmarks`. A
        first fit to some samples finds the kernels that need landmarks. These get up to as many as the bank has, and
        the others get few. None: every kernel gets all of them. "auto": as None; in addition, with more than 3000
        training samples a bank without landmarks gets 256 in total, or two for each kernel.
    n_read : int or "all", default=40
        Maximum number of points for predictions of new rows, at least two; for Gaussian processes without landmarks.
        The points are chosen and weighted to reproduce the moments of predictions from all points; mean scores are
        reproduced exactly. Their factorizations are kept after the first prediction. "all": predict from all points,
        which is several times as slow.
    share_mcse : float, default=0.02
        Target for the Monte Carlo standard error of the views' shares and of the ends of their 94 % intervals, if
        `n_points` is None; 512 points may not reach it. Shares of the kernels within a view may have a larger error.
        The error is estimated before shares are known, from shares of the prior variance. The attribute `share_mcse_`
        of a model has the error that was reached. Priors without views have shares of kernels instead.

    Examples
    --------
    >>> from bayesmkl import GPMKLClassifier
    >>> from bayesmkl.gp import Marginal
    >>> GPMKLClassifier(inference=Marginal(n_points=1024))
    GPMKLClassifier(inference=Marginal(n_points=1024))
    """

    sampler: str = "importance"
    n_points: int | None = None
    n_draws: int = 2000
    n_chains: int = 4
    n_warmup: int = 100
    approximation: str = "ep"
    total_landmarks: int | str | None = "auto"
    n_read: int | str = 40
    share_mcse: float = 0.02

    name: ClassVar[str] = "marginal"

    @property
    def most_points(self) -> int:
        """Number of points, or the most that are drawn where it is open."""
        return 512 if self.n_points is None else self.n_points

    def _checked(self) -> Marginal:
        return Marginal(
            check_choice(_field("sampler"), self.sampler, ("importance", "nuts")),
            None if self.n_points is None else self._count("n_points", low=100),
            self._count("n_draws", low=100),
            self._count("n_chains"),
            self._count("n_warmup"),
            check_choice(_field("approximation"), self.approximation, ("ep", "laplace")),
            None if self.total_landmarks is None else self._count_or("auto", "total_landmarks"),
            self._count_or("all", "n_read"),
            check_number(_field("share_mcse"), self.share_mcse, 0.0),
        )

    def _count_or(self, word: str, name: str) -> int | str:
        value = getattr(self, name)
        if isinstance(value, str) and value != word:
            raise ValueError(f'`{_field(name)}` must be "{word}" or a whole number >= 2; got {shown(value)}.')
        return value if isinstance(value, str) else self._count(name, low=2)


Inference = VB | NUTS | Gibbs | Marginal
INFERENCES: dict[str, type[Inference]] = {kind.name: kind for kind in (VB, NUTS, Gibbs, Marginal)}
OF_BEMKL = (VB.name, NUTS.name, Gibbs.name)


def inference_of(value: object, allowed: Sequence[str] = OF_BEMKL) -> Inference:
    """Return the options that a name or an options object stands for, of an inference that is `allowed`.

    Raises
    ------
    ValueError
        For anything else, or a field that is out of range.

    Examples
    --------
    >>> inference_of("vb"), inference_of(Gibbs(n_chains=5))
    (VB(), Gibbs(n_chains=5))
    >>> inference_of(Gibbs(n_chains=0))
    Traceback (most recent call last):
    ...
    ValueError: `n_chains` of `inference` must be a whole number >= 1; got 0.
    """
    if isinstance(value, str) and value in allowed:
        return INFERENCES[value]()
    kinds = tuple(INFERENCES[name] for name in allowed)
    if not isinstance(value, kinds):
        objects = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
        raise ValueError(
            f"`inference` must be one of {', '.join(map(repr, allowed))} or of the options {objects}; got "
            f"{shown(value)}."
        )
    return value._checked()


@dataclass(frozen=True, repr=False)
class Storage(Options):
    """Storage of training kernels in a closed-form fit, with the backend of its updates.

    Parameters
    ----------
    kind : {"auto", "dense", "compressed", "float32", "packed", "streamed"}, default="auto"
        "dense": as they are. "compressed": as products of factors where their rank is less than half of their size,
        to 1e-10 of an entry (square stacks). "float32": in single precision, with sums in double precision; the
        posterior moves by about 1e-7. "packed": one triangle of them in single precision, a quarter of the memory,
        for thousands of kernels between all pairs of samples. "streamed": never; every product with them evaluates
        them anew by NumPy, a block of rows at a time. "auto": dense up to 16 MB and on JAX; above that compressed,
        where all samples are compared with each other (256 linear kernels and more that share features, without the
        normalization "spherical", by these features); streamed where a bank with landmarks would need more than half
        of the memory that is left. Predictions for many rows are streamed in any case; those of a model with
        "compressed", given by name, go through its factors, which it keeps (and a file of it has).
    backend : {"auto", "numpy", "jax"}, default="auto"
        Of the closed-form updates. "auto" is JAX where it finds an accelerator, else NumPy. JAX holds kernels dense;
        all other kinds are for NumPy.
    rank : int, default=None
        Largest rank of the factors of "compressed" kernels, for kernels that have no low rank: the model is then that
        of Nyström approximations of the kernels, through training samples that are chosen for every kernel by pivoted
        Cholesky factorization. None: to 1e-10, and kernels that factors would not shorten stay as they are.

    Examples
    --------
    A name stands for the kind alone:

    >>> from bayesmkl import BEMKLClassifier
    >>> from bayesmkl.bemkl import Storage
    >>> BEMKLClassifier(storage="float32")
    BEMKLClassifier(storage='float32')
    >>> BEMKLClassifier(storage=Storage("dense", backend="jax"))
    BEMKLClassifier(storage=Storage(kind='dense', backend='jax'))
    """

    kind: str = "auto"
    backend: str = "auto"
    rank: int | None = None


def backend_of(storage: Storage) -> str:
    """Resolve "auto": JAX where one of its accelerator plugins is installed and works, else NumPy.

    Kernels that are not dense are for NumPy.

    Examples
    --------
    >>> backend_of(Storage(backend="jax"))
    'jax'
    """
    if storage.kind not in ("auto", "dense"):
        return "numpy"
    if storage.backend != "auto":
        return storage.backend
    if importlib.util.find_spec("jax_plugins") is None:
        return "numpy"
    import jax

    return "numpy" if jax.default_backend() == "cpu" else "jax"


def storage_of(value: object, allowed: Sequence[str] = STORAGES) -> Storage:
    """Return the storage that the name of a kind or a `Storage` stands for, of a kind that is `allowed`.

    Raises
    ------
    ValueError
        For anything else, or a field that is out of range.

    Examples
    --------
    >>> storage_of("dense").kind
    'dense'
    >>> storage_of("sparse")
    Traceback (most recent call last):
    ...
    ValueError: `storage` must be one of 'auto', 'dense', 'compressed', 'float32', 'packed', 'streamed' or a ...
    """
    if isinstance(value, str) and value in allowed:
        return Storage(value)
    if not isinstance(value, Storage):
        raise ValueError(
            f"`storage` must be one of {', '.join(map(repr, allowed))} or a Storage(...); got {shown(value)}."
        )
    check_choice("kind` of `storage", value.kind, allowed)
    check_choice("backend` of `storage", value.backend, BACKENDS)
    if value.kind not in ("auto", "dense") and value.backend == "jax":
        raise ValueError(
            f'`backend` of `storage` must be "numpy" or "auto" with kind="{value.kind}"; got "jax". Use kind="dense".'
        )
    if value.rank is not None:
        check_integer("rank` of `storage", value.rank, low=1)
        if value.kind != "compressed":
            raise ValueError(
                f'`rank` of `storage` is for kind="compressed"; got {value.rank!r} and kind={value.kind!r}.'
            )
    return value
