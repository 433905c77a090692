"""Fits that go on where a killed process was, against fits that were not interrupted."""

from __future__ import annotations

import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import (
    BEMKLClassifier,
    BEMKLMultitaskRegressor,
    BEMKLRegressor,
    KernelBank,
    load_model,
    save_model,
)
from bayesmkl.bemkl import VB, Storage
from bayesmkl.bemkl.inference import checkpoint
from bayesmkl.datasets import open_rows
from bayesmkl.kernels import Gaussian

RNG = np.random.default_rng(2)
X = RNG.normal(size=(80, 3))
SIGNAL = X[:, 0] + X[:, 1] ** 2 - 1.0
LABELS = np.where(SIGNAL > 0.0, 1, 0)


def bank():
    return KernelBank([Gaussian(width=1), Gaussian(width=3)], views="each", landmarks=12)


def model(path=None, step="auto", **options):
    options = {"intermediate_scale": 1.0, "storage": "streamed", "tol": 1e-5} | options
    return BEMKLClassifier(bank(), inference=VB(checkpoint=path, step=step), **options)


def in_parts(folder):
    """Write X as two files."""
    folder.mkdir()
    for k, part in enumerate(np.array_split(X, 2)):
        pd.DataFrame(part, columns=["a", "b", "c"]).to_parquet(folder / f"{k}.parquet")
    return folder


class Stopped(Exception):
    pass


def stop_after(monkeypatch, n_offers):
    """Let every sweep be written, and stop at some of them."""
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    offer, left = checkpoint.Checkpoint.offer, [n_offers]

    def stopping(self, position):
        offer(self, position)
        left[0] -= 1
        if left[0] == 0:
            raise Stopped

    monkeypatch.setattr(checkpoint.Checkpoint, "offer", stopping)


def assert_equal_fits(one, other):
    np.testing.assert_allclose(one.elbo_history_, other.elbo_history_, rtol=1e-8)
    np.testing.assert_allclose(one.dual_coef_, other.dual_coef_, rtol=1e-8)
    np.testing.assert_allclose(one.kernel_weights_cov_, other.kernel_weights_cov_, rtol=1e-8)
    assert (one.n_iter_, one.outcome_) == (other.n_iter_, other.outcome_)


def kill_after_writing(fit, n_times):
    """Run a fit in a fork of this process, which dies while it goes on; return how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which are JAX's: fits on NumPy do not use it
        pid = os.fork()
    if not pid:
        try:
            checkpoint.SECONDS, write = 0.0, checkpoint.Checkpoint._write
            written = []

            def write_and_die(self, position):
                write(self, position)
                written.append(position)
                if len(written) == n_times:
                    os.kill(os.getpid(), signal.SIGKILL)

            checkpoint.Checkpoint._write = write_and_die
            fit()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("step", "n_written"), [("auto", 9), pytest.param("newton", 2, marks=pytest.mark.heavy)]
)
def test_a_killed_process_is_continued(tmp_path, step, n_written):
    """By SIGKILL, in the middle of a fit to a folder of files."""
    path, parts = tmp_path / "fit.npz", in_parts(tmp_path / "parts")
    ended = kill_after_writing(lambda: model(path, step).fit(open_rows(parts), LABELS), n_written)
    assert ended == -signal.SIGKILL
    with np.load(path) as file:
        n_done = len(file["trace"])
    continued = model(path, step)
    reports = []
    attempt = checkpoint.Checkpoint.resume
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, "resume", lambda *a: reports.append(attempt(*a)) or reports[-1])
        continued.fit(open_rows(parts), LABELS)
    assert len(reports[0].trace) == n_done >= n_written
    assert_equal_fits(continued, model(step=step).fit(open_rows(parts), LABELS))
    assert not path.exists()  # it converged


@pytest.mark.parametrize(
    "options",
    [
        {"storage": "dense"},
        pytest.param({"storage": Storage("dense", "jax")}, marks=pytest.mark.heavy),
        {"inference": VB(accelerate=False), "max_iter": 30, "tol": 0.0},
        {"inference": VB(step="newton"), "tol": 1e-12, "n_offers": 3},
        pytest.param(
            {"inference": VB(step="newton"), "tol": 1e-12, "n_offers": 3, "storage": Storage("dense", "jax")},
            marks=pytest.mark.heavy,
        ),
    ],
    ids=["dense", "jax", "plain", "newton", "newton on jax"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sweeps_after_an_interruption_are_those_without_one(tmp_path, monkeypatch, options):
    path, options = str(tmp_path / "fit.npz"), dict(options)
    inference, n_offers = options.pop("inference", VB()), options.pop("n_offers", 7)
    whole = model(**options).set_params(inference=inference).fit(X, LABELS)
    own = clone(whole).set_params(inference=replace(inference, checkpoint=path))
    with monkeypatch.context() as patch:
        stop_after(patch, n_offers)
        with pytest.raises(Stopped):
            own.fit(X, LABELS)
    assert_equal_fits(own.fit(X, LABELS), whole)


@pytest.mark.parametrize("n_first", [1, 6, 7, 12])
def test_more_iterations_continue_a_fit(tmp_path, n_first):
    """Whatever the last sweep of the first attempt was: nothing, kept, or an extrapolation that was rejected."""
    path = tmp_path / "fit.npz"
    own = BEMKLRegressor(
        bank(), inference=VB(checkpoint=path), max_iter=n_first, storage="streamed", tol=1e-9
    )
    with pytest.warns(ConvergenceWarning):
        own.fit(X, SIGNAL)
    assert own.n_iter_ == n_first
    assert path.exists() == (n_first > 1)
    with pytest.warns(ConvergenceWarning):
        own.set_params(max_iter=15).fit(X, SIGNAL)
    with pytest.warns(ConvergenceWarning):
        whole = clone(own).set_params(inference="vb").fit(X, SIGNAL)
    assert_equal_fits(own, whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: (own, X[::-1], LABELS), "is of a fit with other kernels, and so samples"),
        (lambda own: (own, X + 1e-3 * X**2, LABELS), "other kernels, and so samples"),
        (lambda own: (own, X, np.roll(LABELS, 1)), "other targets or parameters"),
        (lambda own: (own.set_params(intermediate_scale=0.5), X, LABELS), "other targets or parameters"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch, change, message):
    path = tmp_path / "fit.npz"
    own = model(path)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stopped):
            own.fit(X, LABELS)
    kept = path.read_bytes()
    other, rows, labels = change(own)
    with pytest.raises(
        ValueError, match=rf"`checkpoint` of `inference`: .*fit.npz' .*{message}.* Remove the file"
    ):
        other.fit(rows, labels)
    assert path.read_bytes() == kept


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 and no more"])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no file that a fit can go on from"):
        model(path).fit(X, LABELS)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"inference": VB(checkpoint=3)},
            TypeError,
            "`checkpoint` of `inference` must be a str or a path; got 3",
        ),
        ({"inference": VB(checkpoint="nowhere/fit.npz")}, ValueError, "in a folder that does not exist"),
        ({"inference": VB(checkpoint=".")}, ValueError, "'.' is a folder"),
        ({"inference": VB(checkpoint="fit.npz"), "n_init": 2}, ValueError, "one model from one start; got 2"),
    ],
)
def test_checkpoints_that_cannot_be_are_refused(tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        model().set_params(**options).fit(X, LABELS)
    assert not list(tmp_path.iterdir())


def test_models_of_several_tasks_have_none(tmp_path):
    own = BEMKLMultitaskRegressor(inference=VB(checkpoint=tmp_path / "fit.npz"))
    with pytest.raises(ValueError, match="must be None for models of several tasks"):
        own.fit(X, SIGNAL, tasks=np.arange(80) % 2)


def test_a_file_that_changes_during_a_fit_leaves_model_and_checkpoint(tmp_path, monkeypatch):
    """The estimator keeps its earlier fit, and the file where the new one was."""
    parts, path = in_parts(tmp_path / "parts"), tmp_path / "fit.npz"
    own = model(path).fit(open_rows(parts), LABELS)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_equal_fits(own, model().fit(frame, LABELS))
    np.testing.assert_allclose(own.predict_proba(open_rows(parts)), own.predict_proba(frame), rtol=1e-12)
    before = own.dual_coef_.copy()
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    write = checkpoint.Checkpoint._write

    def write_and_touch(self, position):
        write(self, position)
        os.utime(parts / "1.parquet", ns=(1, 1))

    monkeypatch.setattr(checkpoint.Checkpoint, "_write", write_and_touch)
    with pytest.raises(ValueError, match=r"'1\.parquet' has changed since it was opened"):
        own.fit(open_rows(parts), LABELS)
    np.testing.assert_array_equal(own.dual_coef_, before)
    assert path.exists()


def test_devices_that_disappear_leave_model_and_checkpoint(tmp_path, monkeypatch):
    import jax

    path = tmp_path / "fit.npz"
    own = model(path).fit(X, LABELS)
    before = own.dual_coef_.copy()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "SECONDS", 0.0)
        write = checkpoint.Checkpoint._write

        def write_and_fail(self, position):
            write(self, position)
            raise jax.errors.JaxRuntimeError("UNAVAILABLE: the device is lost.\nand where")

        patch.setattr(checkpoint.Checkpoint, "_write", write_and_fail)
        with pytest.raises(
            RuntimeError, match=r"the device is lost\. The estimator is what it was"
        ) as caught:
            own.fit(X, LABELS)
    assert "the same call goes on from there" in str(caught.value)
    np.testing.assert_array_equal(own.dual_coef_, before)
    with np.load(path) as file:
        assert len(file["trace"]) > 0
    np.testing.assert_allclose(own.fit(X, LABELS).dual_coef_, before, rtol=1e-8)


def test_a_model_with_a_checkpoint_is_saved_and_loaded(tmp_path):
    own = model(str(tmp_path / "fit.npz")).fit(X, LABELS)
    save_model(own, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.inference == own.inference
    np.testing.assert_array_equal(again.predict_proba(X), own.predict_proba(X))
