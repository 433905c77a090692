"""Base estimator: from the samples or kernels of the user to a stack, and back for new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from bayesmkl._utils.given import naming
from bayesmkl._utils.memory import available_memory, require_memory
from bayesmkl._utils.settings import all_or_nothing, methods_with_own_settings
from bayesmkl._utils.typing import Index, Label, Samples, Targets
from bayesmkl._utils.validation import (
    check_choice,
    check_flag,
    check_label,
    check_seed,
    check_verbose,
    generator_of,
    shown,
)
from bayesmkl.kernels.adapters import some_learn
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.precomputed import SharedKernels
from bayesmkl.kernels.presence import check_some_view, present_views, stack_with_absent
from bayesmkl.kernels.quality import KernelInspector
from bayesmkl.kernels.sparse import SparseTable, is_sparse, sparse_table, validate_sparse
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack, store_float32
from bayesmkl.kernels.stacks.factored import compress_each
from bayesmkl.kernels.stacks.of_bank import factored_rows, linear_stack, row_factors
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.kernels.stacks.streamed import check_rows, fit_bank_to_rows, is_row_source, streamed_stack
from bayesmkl.kernels.tables import ColumnPlan, read_frame, refuse_target
from bayesmkl.kernels.views import (
    check_samples,
    column_labels,
    column_names,
    refuse_other_columns,
    refuse_shuffled_rows,
)
from bayesmkl.outcomes.labels import check_labels
from bayesmkl.outcomes.numbers import real_targets

# --------------------------------------------------------------------------------------- form of the training kernels

SMALL = 2**24  # bytes of kernels that a processor's cache serves whatever their form
# Bytes of kernels, and how many, from which on covariances are held by one triangle.
PACKED, MANY_PACKED = 2**29, 256
MANY_SHARED = 256  # kernels, from which on those of common features are held by these
SHARE = 0.5  # of the available memory, beyond which kernels are evaluated anew rather than held
INSPECTED_ROWS = 500  # of kernels that are never held
ROWS_AT_ONCE = 16
OUTPUTS = 2  # arrays of a number for each kernel and row, that any fit with such kernels has
FEWER = "Use fewer landmarks, kernels or threads (OPENBLAS_NUM_THREADS=1)."
# Forms for all pairs of samples, and what they take of a kernel.
NEEDS_PAIRS = {"compressed": "factors Z Z'", "packed": "triangles"}
REMEDY = "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer kernels or samples."


class Holding(NamedTuple):
    """Storage of training kernels."""

    kind: str = "dense"  # or "auto", "compressed", "float32", "packed", "streamed"
    backend: str = "numpy"
    rank: int | None = None  # at most, of compressed kernels
    may_pack: bool = False  # kernels that are covariances, of samples that have all views
    may_compress: bool = False  # closed-form updates on NumPy, of samples that have all views
    may_share: bool = False  # many linear kernels by the features that they have in common


def resolve_storage(
    storage: Holding, shape: tuple[int, int, int], is_square: bool, is_source: bool
) -> Holding:
    """Resolve "auto".

    Small kernels are dense. Others are compressed, where `may_compress` and every sample is compared with every other
    one; packed, where they are large and `may_pack`; evaluated anew, where they would take more than half of the
    memory that is left, or where covariances are those of samples and landmarks; and dense else. Compressed and
    packed ones may be held by features that they share instead, where there are many and nobody asked for a form.

    Parameters
    ----------
    storage : Holding
    shape : (n_kernels, n_rows, n_train)
        Of the training kernels.
    is_square : bool
        Whether samples are compared with each other, not with landmarks.
    is_source : bool
        Whether rows are read in blocks.
    """
    n_bytes, kind = 8 * shape[0] * shape[1] * shape[2], storage.kind
    if is_source and kind not in ("auto", "streamed"):
        raise ValueError(
            f'`storage` must be "auto" or "streamed" for rows that are read in blocks; got {kind!r}. Or read all of '
            "them, `rows[:]`."
        )
    if is_source and storage.backend == "jax":
        raise ValueError(
            '`backend` of `storage` must be "numpy" for rows that are read in blocks; got "jax". Use '
            'storage="streamed", or read all of them, `rows[:]`.'
        )
    if kind in NEEDS_PAIRS and not is_square:
        raise ValueError(
            f'`storage` must not be "{kind}" with a bank that has `landmarks`: kernels between samples and '
            f'landmarks have no {NEEDS_PAIRS[kind]}. Use "auto", "dense", "float32" or "streamed".'
        )
    if kind == "auto":
        left = available_memory() if n_bytes > SMALL else None
        is_large = is_source or (left is not None and n_bytes > SHARE * left)
        kind = "dense"
        if storage.may_pack:
            is_packed = is_square and n_bytes > PACKED and shape[0] >= MANY_PACKED
            kind = "packed" if is_packed else "dense" if is_square else "streamed"
            storage = storage._replace(may_share=is_packed)
        elif is_square and storage.may_compress and n_bytes > SMALL:
            kind = "compressed"
            storage = storage._replace(may_share=shape[0] >= MANY_SHARED)
        elif is_large and storage.backend == "numpy":
            kind = "streamed"
    return storage._replace(kind=kind)


def hold_bank(bank: KernelBank, X: Any, names: Sequence[str], storage: Holding) -> Stack:
    """Return the training kernels of a bank that was fitted without them, judged once.

    Parameters
    ----------
    bank : KernelBank
        Fitted to `X`, with ``missing_views="error"``.
    X : ndarray of shape (n_rows, n_features), or row source
        Validated training rows.
    names : sequence of str
        Names of the kernels in warnings.
    storage : Holding
        From `resolve_storage`.

    Raises
    ------
    MemoryError
        Before the allocation, with the remedy.
    """
    n_kernels, n_rows, n_train = bank.n_kernels_, len(X), len(bank.basis_)
    inspector = KernelInspector(
        names,
        known_psd=bank.kernels_known_psd_,
        self_similarity=bank.landmark_similarity(),
        lost=bank.centering_errors(),
    )
    shared = linear_stack(bank) if storage.may_share else None
    if shared is None and storage.kind != "streamed":
        of_kernels = f"of {n_kernels} kernels of {n_rows} x {n_train} entries in single precision"
        if storage.kind == "float32":
            require_memory(bank.stack_bytes(n_rows) / 2, f"a stack {of_kernels}", REMEDY)
        elif storage.kind == "packed":
            n_bytes = 2.0 * n_kernels * n_train * (n_train + 1)
            require_memory(n_bytes, f"one triangle of each {of_kernels}", REMEDY)
        held = _held(inspector.watch(bank.train_kernels()), n_kernels, storage)
        inspector.report()
        return held
    chosen = _sample(n_rows)
    some = _some_kernels(bank, X, chosen) if shared is None else shared.of_samples(chosen).each()
    for kernel in some:
        inspector.inspect(kernel)
    inspector.report()
    if shared is not None:
        return shared
    stack = streamed_stack(bank, X)
    what = f"what is held of {n_kernels} kernels of {n_rows} x {n_train} entries that are evaluated in blocks"
    require_memory(stack.nbytes + OUTPUTS * 8 * n_kernels * n_rows, what, FEWER)
    return stack


def _held(kernels: Iterable[np.ndarray], n_kernels: int, storage: Holding) -> Stack:
    """Return kernels, evaluated one after the other, in a form other than dense."""
    if storage.kind == "float32":
        return store_float32(kernels, n_kernels)
    if storage.kind == "packed":
        return pack(kernels, n_kernels)
    return compress_each(kernels, storage.rank)


def _some_kernels(bank: KernelBank, X: Any, chosen: np.ndarray) -> np.ndarray:
    """Return the kernels of some rows, where all of them are never in one place."""
    if bank.landmarks_ is not None:
        return bank.evaluate(X[chosen])
    # a few rows against all samples at a time: those of all would be as large as a matrix of all pairs
    blocks = np.array_split(chosen, -(-len(chosen) // ROWS_AT_ONCE))
    return np.concatenate([bank.evaluate(X[rows])[:, :, chosen] for rows in blocks], axis=1)


def _sample(n_rows: int) -> np.ndarray:
    """Return positions of rows that kernels are judged on, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, INSPECTED_ROWS)).astype(int))


def hold_given(stack: DenseStack, storage: Holding) -> Stack:
    """Return kernels that are there and were judged before in the form that `resolve_storage` found."""
    if storage.kind == "streamed":
        raise ValueError(
            '`storage` "streamed" evaluates kernels when they are needed, but these are precomputed. Use a '
            'KernelBank, or storage="auto".'
        )
    if storage.kind == "dense":
        return stack
    held = _held(stack.each(), stack.n_kernels, storage)
    return stack if held.storage == "dense" else held  # no kernel gets shorter: nothing is held twice


# ------------------------------------------------------------------------------------------------------ the estimator

DENSE = Holding()  # one array
LEAST_ROWS = 8  # of many kernels that are evaluated together
BLOCK_ENTRIES = 2**22  # of the kernels of new rows that are held at once, 32 MB
NAN_REMEDY = (
    'If samples lack whole views, all columns of those views being NaN, use `missing_views="integrate"`.'
)
STREAMED_FROM = 2**28  # bytes of kernels of rows that are evaluated anew in every product rather than held


class BaseMKL(BaseEstimator):
    """Turn ``X`` into a kernel stack: through a KernelBank, or a stack that was computed before.

    Subclasses have the parameters `kernels` and `kernel_names`. Fitting sets `kernel_bank_` (None for
    precomputed kernels) and `kernel_names_`.

    Subclasses that take missing views have a parameter `missing_views`, whose value "integrate" lets NaN stand for
    absent views. Their stacks hold zeros there and say what is present; so does `present_` of the training samples,
    (n_kernels, n_samples), which is None with the value "error".
    """

    kernels: Any
    kernel_names: Any
    kernel_bank_: KernelBank | None
    kernel_names_: np.ndarray

    _BY_TARGET: ClassVar[dict[str, Any]] = {}  # what "auto" chooses by the target, as it is without

    # Parameters and results that some estimators have, as they are for the others.
    random_state: Any = None
    verbose: Any = 0
    missing_views: Any = "error"
    unlabeled_label: Any = None
    views: Any = None
    present_: np.ndarray | None = None
    together_: Any = None
    training_factors_: Any = None
    storage: Any = "auto"

    _FLAGS: ClassVar[tuple[str, ...]] = ()  # parameters that are True or False, where there are such
    _LABELS: ClassVar[tuple[str, ...]] = ()  # parameters that stand for a label which is not known
    _takes_missing_views: ClassVar[bool] = False  # has the parameter `missing_views`
    # its values, and those of banks
    _MISSING_VIEWS: ClassVar[dict[str, str]] = {"error": "error", "integrate": "keep"}
    _needs_some_view: ClassVar[bool] = True  # samples without any view are refused
    _takes_several_targets: ClassVar[bool] = False  # one per column of `y`
    _takes_sparse: ClassVar[bool] = False  # nothing but kernels looks at samples
    _learns_widths: ClassVar[bool] = False  # kernels are evaluated anew at every width
    _default_kernels = "auto"
    _takes_landmarks: ClassVar[bool] = False  # kernels between samples and some other points will do
    _streams_rows: ClassVar[bool] = False  # predictions touch kernels only through contractions

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make fits transactional and public methods independent of global settings, in every subclass."""
        if "fit" in cls.__dict__:
            cls.fit = all_or_nothing(cls.__dict__["fit"])
        methods_with_own_settings(cls)
        super().__init_subclass__(**kwargs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed()
        tags.input_tags.three_d_array = self._is_precomputed()
        tags.input_tags.allow_nan = self.missing_views in ("integrate", "impute")
        tags.input_tags.sparse = self._may_be_sparse() and (
            not isinstance(self.kernels, KernelBank) or self.kernels.__sklearn_tags__().input_tags.sparse
        )
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = self._takes_several_targets
        else:
            tags.target_tags.multi_output = self._takes_several_targets
        return tags

    @property
    def _has_landmarks(self) -> bool:
        """Whether the kernels compare samples with landmarks, not with each other."""
        return self.kernel_bank_ is not None and self.kernel_bank_.landmarks_ is not None

    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong whatever the data, before any work; subclasses add their own.

        All are checked, those too that other parameters make irrelevant: a mistake in them is still one.
        """
        check_choice("missing_views", self.missing_views, tuple(self._MISSING_VIEWS))
        if not self._is_precomputed():
            self._new_bank()
        check_seed("random_state", self.random_state)
        for name in self._FLAGS:
            check_flag(name, getattr(self, name))
        for name in self._LABELS:
            check_label(name, getattr(self, name))
        check_verbose("verbose", self.verbose)
        names = self.kernel_names
        listed = isinstance(names, Sequence | np.ndarray) or hasattr(names, "to_list")
        if names is not None and (isinstance(names, str | bytes) or not listed):
            raise ValueError(
                f"`kernel_names` must be None or a list of str, one per kernel; got {shown(names)}."
            )

    def _rng(self) -> np.random.Generator:
        """Return the random generator of an estimator with a `random_state`; None is a fixed seed."""
        return generator_of("random_state", 0 if self.random_state is None else self.random_state)

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _may_be_sparse(self) -> bool:
        """Return whether samples may be a sparse matrix."""
        return self._takes_sparse and self.missing_views == "error" and not self._is_precomputed()

    def _fit_stack(
        self,
        X: Samples,
        y: Targets,
        *,
        counts: np.ndarray | None = None,
        storage: Holding = DENSE,
        **check_y: Any,
    ) -> tuple[Any, np.ndarray]:
        """Validate training data, learn the bank, check the kernels once; return their stack and y.

        `counts` are the weights of the samples in what the bank learns; None counts each once. `storage` says how
        the training kernels are to be held.
        """
        check_y["multi_output"] = self._takes_several_targets
        if self.missing_views != "error":
            check_y["ensure_all_finite"] = "allow-nan"
        if self._is_precomputed():
            if self.views is not None:
                raise ValueError(
                    f"`views` must be None with precomputed kernels; got {shown(self.views)}. Name the view of each "
                    "kernel by `kernel_views`."
                )
            kernels, y = self._fit_precomputed(X, y, check_y)
            given = self._stack_of_training(kernels)
            storage = resolve_storage(storage, kernels.shape, is_square=True, is_source=False)
            stack = hold_given(self._check_kernels(given, known_psd=None), storage)
        else:
            samples, target = X, y
            X, y = self._fit_rows(X, y, check_y)
            stack = self._stack_of_rows(X, counts, storage)
            if self.kernel_bank_ is not None:
                refuse_target(samples, target, self.kernel_bank_.views_)
        self.n_kernels_in_ = stack.n_kernels
        return stack, y

    @property
    def unused_columns_(self) -> list[str]:
        """Names of the columns of training samples that no kernel, gate or design sees."""
        check_is_fitted(self, "kernel_names_")
        bank = self.kernel_bank_
        if bank is None:
            return []
        used = np.concatenate([bank._used_columns(), *self._columns_beside()])
        left = np.setdiff1d(np.arange(bank.n_features_in_), used)
        return [column_names(bank.n_features_in_, bank.column_labels_)[j] for j in left]

    def _columns_beside(self) -> list[np.ndarray]:
        """Return positions of columns with another use than kernels."""
        gates = getattr(self, "gate_columns_", None)
        return [] if gates is None else [gates]

    def _numbered(self, X: Any) -> Any:
        """Learn labels of columns that no kernel sees, and return samples with numbers in their place."""
        return X

    def _fit_rows(self, X: Any, y: Any, check: dict[str, Any]) -> tuple[Any, np.ndarray]:
        """Validate training samples and their targets, once; a source of rows is validated where it is read."""
        if is_row_source(X):
            return X, self._check_data(np.zeros((len(X), 1)), y, check)
        samples = read_frame(X)
        check_samples(samples, may_be_sparse=self._may_be_sparse(), may_be_text=True)
        X = self._numbered(samples)
        plan = ColumnPlan.learn(X)
        X = X if plan is None else plan.encode(X, self.missing_views != "error")
        y = self._check_data(X, y, check)
        if plan is not None:  # whether columns that are used have missing values is a question to the bank
            check = check | {"ensure_all_finite": "allow-nan"}
        with naming("X", X, NAN_REMEDY if self._takes_missing_views else ""):
            rows = sparse_table("X", X) if issparse(X) else X
            accepted = "csr" if issparse(X) else False
            values, y = validate_data(
                self, rows, y, dtype=np.float64, ensure_min_samples=2, accept_sparse=accepted, **check
            )
        if issparse(X):
            values = SparseTable(values)
        names = getattr(self, "feature_names_in_", None)
        return CheckedTable(values, names, column_labels(X), plan, samples), y

    def _check_data(self, X: Samples, y: Targets, check: dict[str, Any]) -> np.ndarray:
        """Check that `X` is a table of numbers with one target per row; return the target."""
        return check_targets(
            y,
            check_samples(X, may_be_sparse=self._may_be_sparse()),
            type(self).__name__,
            numeric=not is_classifier(self),
            several=self._takes_several_targets,
            mark=self.unlabeled_label,
        )

    def _stack_of_rows(self, X: Samples, counts: np.ndarray | None, asked: Holding) -> Stack:
        """Learn a bank from training samples and return its kernels, judged once."""
        self.training_factors_ = None
        is_source = is_row_source(X)
        if is_source and not self._streams_rows:
            raise ValueError(f"`X` must be an array or a DataFrame for {type(self).__name__}; got {X!r}.")
        bank = self._new_bank(X)
        bank._nan_remedy = NAN_REMEDY if self._takes_missing_views else ""
        shape = bank.training_shape(X)
        storage = resolve_storage(asked, shape, bank.landmarks is None, is_source)
        if storage.kind == "dense":
            kernels = np.moveaxis(bank.fit_transform(X, sample_weight=counts), -1, 0)
            self.kernel_bank_, self.kernel_names_ = bank, self._names(bank.kernel_names_)
            return self._check_kernels(self._stack_of_training(kernels), bank.kernels_known_psd_)
        if is_source:
            fit_bank_to_rows(bank, X)
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(bank, name):
                    setattr(self, name, getattr(bank, name))
        else:
            bank.fit(X, sample_weight=counts)
        self.kernel_bank_, self.kernel_names_ = bank, self._names(bank.kernel_names_)
        self.present_ = None
        held = hold_bank(bank, X if is_source else bank.X_train_, list(self.kernel_names_), storage)
        if asked.kind == "compressed":
            self.training_factors_ = row_factors(bank, held)
        return held

    def _stack_of_training(self, kernels: np.ndarray) -> DenseStack:
        """Find missing views in training kernels (n_kernels, n_train, n_train), and return their stack."""
        if not self._takes_missing_views:
            return DenseStack(kernels)
        self.present_ = None
        if self.missing_views == "error":
            return DenseStack(kernels)
        in_place = self.kernel_bank_ is not None  # else the user's
        stack = stack_with_absent(kernels, list(self.kernel_names_), in_place=in_place)
        if self._needs_some_view:
            check_some_view(stack.present)
        self.present_ = np.ones(kernels.shape[:2], dtype=bool) if stack.present is None else stack.present
        return stack

    def _check_kernels(self, stack: DenseStack, known_psd: np.ndarray | None) -> DenseStack:
        """Judge the training kernels once and return those to train on.

        `known_psd` marks kernels that need no test of definiteness; None tests all.
        """
        bank = self.kernel_bank_
        similarity = None if bank is None else bank.landmark_similarity()
        lost = None if bank is None else bank.centering_errors()
        names = list(self.kernel_names_)
        inspector = KernelInspector(names, known_psd=known_psd, self_similarity=similarity, lost=lost)
        for m, kernel in enumerate(stack.columns(slice(None))):
            inspector.inspect(kernel, None if stack.present is None else stack.present[m])
        inspector.report()
        return stack

    def _kernels_for(self, X: Any) -> str:
        """Return the kernels of the default bank for some samples."""
        return "auto"

    def _new_bank(self, X: Samples | None = None) -> KernelBank:
        """Return an unfitted bank; subclasses may leave columns of validated samples `X` to others than kernels."""
        of_bank = self._MISSING_VIEWS.get(self.missing_views, "error")
        keep: dict[str, Any] = {} if of_bank == "error" else {"missing_views": of_bank}
        if self.kernels is None:
            scale = not is_sparse(getattr(X, "values", None))
            views = "all" if self.views is None else self.views
            return KernelBank(self._default_kernels, views=views, scale=scale, **keep)
        if isinstance(self.kernels, KernelBank):
            self._check_landmarks(self.kernels)
            if not self._learns_widths and some_learn(self.kernels.kernels):
                raise ValueError(
                    f"`kernels` must have given widths for {type(self).__name__}; got a Gaussian whose width "
                    "is learned. GPMKL estimators can learn it; here, use Gaussian(relative_width=1)."
                )
            if of_bank == "keep" and self.kernels.missing_views == "impute":
                keep = {}  # which keeps views as well
            if self.views is not None:
                if not isinstance(self.kernels.views, str) or self.kernels.views != "all":
                    raise ValueError(
                        f"`views` must be None with a bank that has views; got {shown(self.views)}, and "
                        f"{shown(self.kernels.views)} of the bank. Leave one of them out."
                    )
                keep["views"] = self.views
            return clone(self.kernels).set_params(**keep)
        raise ValueError(
            '`kernels` must be a KernelBank, None (the default bank) or "precomputed"; '
            f"got {shown(self.kernels)}. Wrap kernels in a bank: KernelBank(kernels=...)."
        )

    def _check_landmarks(self, bank: KernelBank) -> None:
        if bank.landmarks is None:
            return
        if not self._takes_landmarks:
            raise ValueError(
                f"`kernels` must be a bank with `landmarks=None` for {type(self).__name__}, which needs the "
                "similarities of all pairs of training samples; got one with landmarks. GPMKLClassifier, "
                "GPMKLRegressor and BEMKL estimators support landmarks."
            )
        if self.missing_views != "error":
            raise ValueError(
                '`missing_views` must be "error" with a bank of kernels that has `landmarks`; got "integrate". Leave '
                "the incomplete samples out, or compare with all training samples (`landmarks=None`)."
            )

    def _fit_precomputed(self, X: Any, y: Any, check: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        X = np.asarray(X) if isinstance(X, SharedKernels) else X
        y = self._check_data(X, y, check)
        with naming("X", X, NAN_REMEDY if self._takes_missing_views else ""):
            self._column_labels = column_labels(X)  # of kernels: the training samples
            if self._column_labels is not None:
                refuse_shuffled_rows(X, self._column_labels)
            X, y = validate_data(self, X, y, dtype=np.float64, allow_nd=True, ensure_min_samples=2, **check)
        if X.ndim > 3 or X.shape[0] != X.shape[1] or X.size == 0:
            raise ValueError(
                "`X` must hold training kernels of shape (n_samples, n_samples, n_kernels), or "
                f"(n_samples, n_samples) for one kernel; got {X.shape}. Kernels come last; with features instead "
                "of kernels, pass a bank: `kernels=KernelBank(...)`."
            )
        kernels = _kernels_first(X)
        self.kernel_bank_ = None
        self.kernel_names_ = self._names([f"kernel {m}" for m in range(len(kernels))])
        return kernels, y

    def _names(self, default: Sequence[str]) -> np.ndarray:
        if self.kernel_names is None:
            return np.array(default, dtype=object)
        names = [name for name in self.kernel_names if isinstance(name, str)]
        if not len(self.kernel_names) == len(names) == len(set(names)) == len(default):
            raise ValueError(
                f"`kernel_names` must hold {len(default)} different names, one per kernel; "
                f"got {shown(list(self.kernel_names))}."
            )
        return np.array(names, dtype=object)

    def _training_stack(self) -> Stack:
        """Return the training kernels of the bank, evaluated anew; models of precomputed kernels have none."""
        if self.kernel_bank_ is None:
            raise ValueError("`kernels` were precomputed: the model does not have its training kernels.")
        bank = self.kernel_bank_
        if bank.landmarks_ is not None and bank.X_train_ is bank.landmarks_:
            raise ValueError(
                "`X` was read in blocks: the model has no training samples, only the landmarks. Fit it to an "
                "array, `rows[:]`, to use functions that need them."
            )
        if (
            self._streams_rows
            and bank.stack_bytes(len(bank.X_train_)) > STREAMED_FROM
            and self.present_ is None
        ):
            return streamed_stack(bank, bank.X_train_)
        return self._stack_of(bank.train_stack())

    def _stack_of(self, kernels: np.ndarray, which: Index = slice(None), in_place: bool = True) -> DenseStack:
        """Return the stack of the kernels at `which`, (n_kernels, n_rows, n_train), NaN where views are absent."""
        if self.present_ is None:
            return DenseStack(kernels)
        in_place = in_place and kernels.flags.writeable
        return stack_with_absent(kernels, list(self.kernel_names_[which]), self.present_[which], in_place)

    def _kernels_of(self, X: np.ndarray) -> np.ndarray:
        """Return the kernels of the model from precomputed ones, with kernels first."""
        return _kernels_first(X)

    def _stack_of_precomputed(self, X: np.ndarray) -> DenseStack:
        stack = self._stack_of(self._kernels_of(X), in_place=False)
        if self._needs_some_view:
            check_some_view(stack.present)
        return stack

    def _row_stack(self, X: Samples) -> Any:
        """Validate rows to predict and return their kernels against the training samples."""
        X = self._validate_rows(X)
        if self.kernel_bank_ is None:
            return self._stack_of_precomputed(X)
        bank = self.kernel_bank_
        if self.training_factors_ is not None:
            return factored_rows(
                bank, self.training_factors_, X, getattr(self.storage, "rank", None) is not None
            )
        is_large = (
            self._streams_rows and bank.stack_bytes(len(X)) > STREAMED_FROM and bank.missing_views == "error"
        )
        if is_large or is_row_source(X):
            return streamed_stack(bank, X)
        return self._stack_of(bank.evaluate(X))

    def _row_blocks(self, X: Samples, kernels: np.ndarray) -> Iterator[DenseStack]:
        """Do what `_row_stack` does for some kernels only, and for a block of rows at a time to bound the memory.

        `kernels` holds their positions, in ascending order.
        """
        return self._blocks(self._validate_rows(X), kernels)

    def _blocks(self, X: np.ndarray, kernels: np.ndarray) -> Iterator[DenseStack]:
        """Cut validated rows into blocks; see `_row_blocks`."""
        if self.kernel_bank_ is None:
            stack = self._stack_of_precomputed(X)
            yield stack if len(kernels) == stack.n_kernels else stack.select(kernels)
            return
        size = max(LEAST_ROWS, BLOCK_ENTRIES // max(1, len(kernels) * len(self.kernel_bank_.basis_)))
        for first in range(0, len(X), size):
            yield self._stack_of(self.kernel_bank_.evaluate(X[first : first + size], kernels), kernels)

    def _validate_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "kernel_names_")
        if self.kernel_bank_ is not None and is_row_source(X):
            check_rows(X, self.kernel_bank_)
            return X
        if isinstance(X, CheckedTable):
            return X.values
        X = np.asarray(X) if isinstance(X, SharedKernels) else read_frame(X)
        bank = self.kernel_bank_
        check_samples(
            X, may_be_sparse=bank is not None and self._may_be_sparse(), may_be_text=bank is not None
        )
        X = X if bank is None else bank.encode(X)
        is_strict = self.present_ is None and (bank is None or bank.column_plan_ is None)
        finite: Any = True if is_strict else "allow-nan"
        options = {"dtype": np.float64, "ensure_all_finite": finite}
        with naming("X", X, NAN_REMEDY if self._takes_missing_views else ""):
            if self.kernel_bank_ is not None and (issparse(X) or is_sparse(self.kernel_bank_.X_train_)):
                table: Any = validate_sparse(self, X, self.kernel_bank_.X_train_, reset=False)
                return table
            if self.kernel_bank_ is not None:
                values = validate_data(self, X, reset=False, order="C", **options)
                self.kernel_bank_.check_columns(X)
                return self._with_views(values)
            refuse_other_columns(X, self._column_labels)
            X = check_array(X, allow_nd=True, estimator=self, input_name="X", **options)
        self._check_row_shape(X.shape)
        return X

    def _with_views(self, X: np.ndarray) -> np.ndarray:
        """Return validated rows as the bank takes them; raise for those without any view where one is needed."""
        bank: Any = self.kernel_bank_
        X = bank.imputed(X)
        if self.present_ is None:
            return X
        if self._needs_some_view:
            check_some_view(present_views(X, bank.views_))
        return X

    @property
    def _n_kernels_given(self) -> int:
        """Number of kernels that `X` has where they are precomputed."""
        return self.n_kernels_in_ - (self.together_ is not None)

    def _check_row_shape(self, shape: tuple[int, ...]) -> None:
        """Compare a stack of new samples with the training stack."""
        n_train, n_kernels = self.n_features_in_, self._n_kernels_given
        fits = shape[1:] == (n_train, n_kernels) or (n_kernels == 1 and shape[1:] == (n_train,))
        if fits:
            return
        transposed = shape[0] == n_train and shape[1] != n_train
        raise ValueError(
            f"`X` must be a precomputed stack of shape (n_samples, n_train={n_train}, n_kernels={n_kernels}); "
            f"got {shape}. "
            + (
                "Did you pass kernel(X_train, X_test) instead of kernel(X_test, X_train)? "
                if transposed
                else ""
            )
            + f"X has {shape[1]} features, but {type(self).__name__} is expecting {n_train} features as input, "
            "one per training sample."
        )


def _kernels_first(X: np.ndarray) -> np.ndarray:
    """Transpose a stack once, from samples first (users) to kernels first (algorithms)."""
    return np.ascontiguousarray(np.moveaxis(X, -1, 0) if X.ndim == 3 else X[None])


def check_targets(
    y: Targets,
    n_samples: int,
    estimator: str,
    *,
    numeric: bool = False,
    several: bool = False,
    mark: Label | None = None,
) -> np.ndarray:
    """Return targets as an array, one for each sample.

    Parameters
    ----------
    y : array-like of shape (n_samples,), or (n_samples, n_outputs) if `several`
    n_samples : int
        Rows of `X`.
    estimator : str
        Its name.
    numeric : bool
        Whether real numbers are wanted, not labels.
    several : bool
        Whether a target may have columns.
    mark : label or None
        Stands for "no label".

    Raises
    ------
    ValueError, TypeError
        Naming `y`.

    Examples
    --------
    >>> check_targets(["a", None, "b"], 3, "SVC")
    Traceback (most recent call last):
    ...
    ValueError: `y` must give every sample a label; 1 of 3 are missing (None or NaN). ...
    """
    if y is None:
        raise ValueError(
            f"`y` must hold one {'number' if numeric else 'label'} per sample. This {estimator} estimator requires y "
            "to be passed, but the target y is None."
        )
    values = real_targets(y) if numeric else check_labels(y, mark)
    if values.ndim > (2 if several else 1) and values.shape[1:] != (1,):
        wanted = "(n_samples,) or (n_samples, n_columns)" if several else "(n_samples,)"
        raise ValueError(
            f"`y` must be of shape {wanted} for {estimator}: y should be a 1d array; got {values.shape}."
        )
    if len(values) != n_samples:
        raise ValueError(
            f"`X` and `y` have inconsistent numbers of samples: {[n_samples, len(values)]}. Each row of `X` needs "
            "one entry of `y`."
        )
    if several:
        return values
    return np.ascontiguousarray(values) if values.ndim == 1 else column_or_1d(values, warn=True)
