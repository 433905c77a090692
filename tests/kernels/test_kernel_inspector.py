"""Kernels judged one by one as they come: the same findings as those of a whole stack, and none of it is kept."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

from bayesmkl.kernels import Gaussian, KernelBank, KernelQualityWarning, Linear, Polynomial
from bayesmkl.kernels.quality import KernelInspector, check_kernel_stack

X = np.random.default_rng(0).normal(size=(40, 3))
GOOD = Gaussian(width=2)(X, X)
BAD = {
    "near-identity": np.eye(40),
    "constant": np.ones((40, 40)),
    "duplicates": 3.0 * GOOD,
    "asymmetric": GOOD + np.triu(np.full((40, 40), 1e-5)),
    "indefinite": GOOD - 0.1 * np.eye(40),
    "scaled": 1e5 * Linear()(X, X),
}


def message(call):
    """Return what a call warns of, without the first line; it warns once at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert len(caught) <= 1
    assert all(one.category is KernelQualityWarning for one in caught)
    return str(caught[0].message).split("\n")[1:] if caught else []


def report_of(kernels, names, **options):
    inspector = KernelInspector(names, **options)
    for kernel in kernels:
        inspector.inspect(kernel)
    return message(inspector.report)


def test_one_by_one_finds_what_is_found_in_a_stack():
    kernels, names = [GOOD, *BAD.values()], ["fine", *BAD]
    found = report_of(kernels, names)
    for line, name in zip(found, BAD, strict=True):
        assert line.startswith(f"- {name}")
        assert name in line.split(": ")[1]
    assert found == message(lambda: check_kernel_stack(np.stack(kernels), names))
    assert report_of([GOOD], ["fine"]) == []


def test_kernels_are_passed_on_one_at_a_time_and_may_be_overwritten():
    """The room for one kernel serves all of them, and nothing of their size is kept."""

    def kernels():
        room = np.empty((300, 300))
        for width in (1.0, 2.0, 1.0, 1e-5):
            np.exp(-0.5 * np.square(np.subtract.outer(points, points) / width), out=room)
            yield room

    points = np.random.default_rng(1).normal(size=300)
    inspector = KernelInspector(["a", "b", "c", "d"], known_psd=[True] * 4)
    tracemalloc.start()
    passed = sum(1 for kernel in inspector.watch(kernels()))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert passed == 4
    assert kept < 8 * 300 * 300 / 4
    lines = message(inspector.report)
    assert [line.split()[1] for line in lines] == ["near-identity", "duplicates"]
    assert "d." in lines[0]
    assert "a = c." in lines[1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_kernel_that_is_not_finite_stops_before_the_next_is_made(bad):
    def kernels():
        yield GOOD
        yield np.full((40, 40), bad)
        raise AssertionError

    with pytest.raises(ValueError, match=r"kernel 'second' has NaN or infinite entries\. Look for"):
        list(KernelInspector(["first", "second", "third"]).watch(kernels()))
    with pytest.raises(ValueError, match="got 1 names and more kernels"):
        list(KernelInspector(["first"]).watch([GOOD, GOOD]))


def test_samples_that_lack_a_view_do_not_count():
    present = np.arange(40) % 4 > 0
    kernel = np.where(np.outer(present, present), GOOD, 0.0)
    whole = KernelInspector(["a", "b"])
    for each in (kernel, kernel[:, :] + 1e-3 * np.outer(present, present)):
        whole.inspect(each, present)
    assert message(whole.report) == []
    twice = KernelInspector(["a", "b"])
    twice.inspect(kernel, present)
    twice.inspect(2.0 * kernel, present)
    assert "a = b" in message(twice.report)[0]


def test_kernels_of_landmarks_need_no_diagonal():
    kernels = [Gaussian(width=2), Gaussian(width=0.01), Polynomial(degree=2), Gaussian(width=2), Linear()]
    bank = KernelBank(kernels, normalize=None, landmarks=5, random_state=0).fit(X)
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1e6])
    rows, similarity = scale[:, None, None] * bank.evaluate(X), scale * bank.train_diagonal().mean(axis=1)
    names = [f"k{m}" for m in range(5)]
    found = report_of(rows, names, self_similarity=similarity)
    assert [line.split()[1] for line in found] == ["near-zero", "duplicates", "scaled"]
    assert [line.split(": ")[1].split(". ")[0].split()[0] for line in found] == ["k1", "k0", "k0"]
    assert "k0 = k3" in found[1]
    assert found == message(lambda: check_kernel_stack(rows, names, self_similarity=similarity))
    square = report_of(rows[:, :5], names, self_similarity=similarity)  # as many samples as landmarks
    assert not any(line.split()[1] in ("asymmetric", "indefinite", "near-identity") for line in square)
