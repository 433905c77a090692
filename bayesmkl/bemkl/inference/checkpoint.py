"""Checkpoint of a closed-form loop on disk, from which the same fit goes on after its process was killed.

A loop asks ``resume`` where to begin, calls ``offer`` after every step that it keeps, and ``end``. What it gives them
has a `trace`, is turned into ``arrays()``, and is ``replaced`` by those of a file. The `Position` of sweeps holds no
posterior: the sweep that found it is done once more, from where it began. So the file has the size of the carries
that acceleration remembers, and the loop continues with the numbers that it would have had.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import bayesmkl
from bayesmkl._numerics.acceleration import EMPTY, History
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.content import ContentHasher
from bayesmkl._utils.files import written_beside

__all__ = ["Checkpoint", "Position", "check_path", "checkpoint_of", "named_leaves", "with_leaves"]

SECONDS = 60.0  # between two writings
FORMAT = "bayesmkl checkpoint 1"
# Of numbers that say which fit it is; sums over rows may be taken in another order after a restart.
SAME = 1e-7


class Progress(Protocol):
    """What a loop writes."""

    @property
    def trace(self) -> list[float]: ...
    def arrays(self) -> dict[str, np.ndarray]: ...
    def replaced(self, found: dict[str, np.ndarray]) -> Any: ...


def named_leaves(value: Any, name: str = "at") -> dict[str, np.ndarray]:
    """Return the arrays and numbers in nested tuples, by their place."""
    if value is None:
        return {}
    if not isinstance(value, tuple):
        return {name: np.asarray(value)}
    parts = [named_leaves(item, f"{name}.{k}") for k, item in enumerate(value)]
    return {key: leaf for part in parts for key, leaf in part.items()}


def with_leaves(like: Any, found: dict[str, np.ndarray], name: str = "at") -> Any:
    """Invert `named_leaves`, for tuples that are nested as `like`.

    Examples
    --------
    >>> with_leaves((1.0, (np.ones(2), None)), named_leaves((3.0, (np.zeros(2), None))))
    (3.0, (array([0., 0.]), None))
    """
    if like is None:
        return None
    if not isinstance(like, tuple):
        return type(like)(found[name]) if isinstance(like, float | int) else found[name]
    items = [with_leaves(item, found, f"{name}.{k}") for k, item in enumerate(like)]
    return type(like)(*items) if hasattr(like, "_fields") else tuple(items)


class Position(NamedTuple):
    """Where a loop is: the carry from which its last sweep began, and what it knew after it."""

    begin: Any  # NamedTuple of arrays
    trace: list[float]  # bound after every sweep, that of the last one included
    quiet: int = 0  # sweeps in a row that gained less than the tolerance
    n_rejected: int = 0
    history: History = EMPTY

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the same as arrays by name."""
        outputs, residuals = (np.array(vectors) for vectors in self.history)
        return {
            "trace": np.array(self.trace),
            "counts": np.array([self.quiet, self.n_rejected]),
            "outputs": outputs,
            "residuals": residuals,
            **named_leaves(self.begin),
        }

    def replaced(self, found: dict[str, np.ndarray]) -> Position:
        """Return the position that arrays hold; `begin` says what is a carry."""
        quiet, n_rejected = map(int, found["counts"])
        history = History(tuple(found["outputs"]), tuple(found["residuals"]))
        begin = with_leaves(self.begin, found)
        return Position(begin, found["trace"].tolist(), quiet, n_rejected, history)


class Checkpoint(NamedTuple):
    """A file, and what tells the fit that it is of from others."""

    path: Path
    key: str  # hash of parameters and targets
    numbers: np.ndarray  # functions of the kernels and of the start
    written: list[float]  # time of the last writing

    def resume(self, start: Any) -> Any:
        """Return the progress in the file, or `start` where there is no file.

        Raises
        ------
        ValueError
            If the file is of another fit, or is no checkpoint.
        """
        if not self.path.exists():
            return start
        try:
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            about = json.loads(str(found["about"]))
            known = about["format"] == FORMAT
        except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(self._message("is no file that a fit can go on from")) from error
        if not known:
            raise ValueError(self._message("was written by another version of bayesmkl"))
        numbers = found["numbers"]
        near = SAME * np.abs(self.numbers).max(initial=0.0)
        same = numbers.shape == self.numbers.shape and np.allclose(
            numbers, self.numbers, rtol=SAME, atol=near
        )
        if about["key"] != self.key or not same:
            what = "kernels, and so samples" if about["key"] == self.key else "targets or parameters"
            raise ValueError(self._message(f"is of a fit with other {what}"))
        return start.replaced(found)

    def offer(self, progress: Progress) -> None:
        """Write it, unless the last one was written a short while ago."""
        if time.monotonic() - self.written[0] >= SECONDS:
            self._write(progress)

    def end(self, progress: Progress, outcome: Outcome) -> None:
        """Remove the file after a fit that converged; keep where others ended, for more iterations."""
        if outcome.converged:
            self.path.unlink(missing_ok=True)
        elif progress.trace:
            self._write(progress)

    def _write(self, progress: Progress) -> None:
        about = json.dumps({"format": FORMAT, "key": self.key})
        with written_beside(self.path) as beside, beside.open("wb") as file:
            arrays: dict[str, Any] = {"about": np.array(about), "numbers": self.numbers, **progress.arrays()}
            np.savez(file, **arrays)
        self.written[0] = time.monotonic()

    def _message(self, problem: str) -> str:
        return (
            f"`checkpoint` of `inference`: {str(self.path)!r} {problem}. Remove the file to begin anew, or name "
            "another one."
        )


def check_path(path: Path, is_one_model: bool, missing_views: str) -> None:
    """Raise ValueError for a checkpoint that cannot be written, or of an estimator or a fit that has none."""
    if not is_one_model or missing_views != "error":
        what = f"{missing_views=}" if is_one_model else "models of several tasks, and localized ones"
        raise ValueError(f"`checkpoint` of `inference` must be None for {what}; got {str(path)!r}.")
    if path.is_dir() or not path.parent.is_dir():
        problem = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        raise ValueError(
            f"`checkpoint` of `inference` must be a file in an existing folder; {str(path)!r} {problem}."
        )


def checkpoint_of(
    inference: Any, algorithm: Any, runs: Sequence[tuple[Any, Any]], options: Any
) -> Checkpoint | None:
    """Return the checkpoint of a fit, with one product with its kernels; None if it has none.

    Parameters
    ----------
    inference : VB or other
    algorithm : module
    runs : sequence of pairs
        Problem and start, as in `maximize_elbo`; a checkpoint is of one pair.
    options : LoopOptions
        How many sweeps are asked for, and to which tolerance, may change from one attempt to the next.

    Raises
    ------
    ValueError
        For more than one pair.
    """
    path = getattr(inference, "checkpoint", None)
    if path is None:
        return None
    if len(runs) > 1:
        raise ValueError(
            f"`checkpoint` of `inference` is for one model from one start; got {len(runs)}. Use n_init=1, and fit "
            "what has models of its own (targets, labels) one by one."
        )
    ((problem, start),) = runs
    stack = problem.stack
    given = problem._replace(stack=None, gram=None)._asdict()
    loop = (options.accelerate, options.depth, options.step, options.backend)
    shape = (stack.n_kernels, stack.n_rows, stack.n_train)
    key = ContentHasher()((bayesmkl.__version__, algorithm.__name__, shape, given, loop))
    with _precision_of(options.backend):
        scores = np.asarray(stack.apply(np.linspace(1.0, 2.0, stack.n_train)))
    numbers = [np.diagonal(np.asarray(problem.gram)), scores @ np.linspace(-1.0, 1.0, scores.shape[-1])]
    norms = [np.linalg.norm(np.asarray(field)) for field in start]
    return Checkpoint(path, key, np.concatenate([*numbers, norms]), [time.monotonic()])


def _precision_of(backend: str) -> AbstractContextManager[Any]:
    if backend != "jax":
        return nullcontext()
    from bayesmkl._utils.devices import double_precision

    return double_precision()
