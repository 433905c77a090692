"""Which devices are meant, what is said when they are not there, and arrays on their way there and back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from bayesmkl._utils import devices
from bayesmkl.kernels.stacks.dense import DenseStack


class Device:
    """What JAX tells of a device."""

    def __init__(self, number, platform="cpu"):
        self.platform, self.number = platform, number

    def __str__(self):
        return f"{self.platform}:{self.number}"


@pytest.fixture
def several(monkeypatch):
    """Let JAX see as many devices as asked for."""

    def see(n, platform="cpu", n_processes=1):
        seen = [Device(number, platform) for number in range(n)]
        monkeypatch.setattr(jax, "devices", lambda: seen)
        monkeypatch.setattr(jax, "process_count", lambda: n_processes)
        return seen

    return see


def test_the_first_ones_are_taken(several):
    seen = several(5)
    assert devices.resolve_devices(None) == (seen[0],)
    assert devices.resolve_devices("all") == tuple(seen)
    for n in (1, 3, 5, np.int64(2)):
        assert devices.resolve_devices(n) == tuple(seen[:n])


@pytest.mark.parametrize("asked", [0, -1, 6])
def test_what_is_there_is_said_where_more_is_asked_for(several, asked):
    several(5)
    with pytest.raises(ValueError, match="devices") as told:
        devices.resolve_devices(asked)
    assert str(told.value).startswith(
        f"`devices` must be from 1 to 5, what JAX sees (cpu:0, cpu:1, cpu:2, cpu:3, cpu:4); got {asked}. For a GPU "
    )
    assert "XLA_FLAGS=--xla_force_host_platform_device_count=8." in str(told.value)


@pytest.mark.parametrize(("n", "rest"), [(8, ""), (9, ", ..."), (64, ", ...")])
def test_a_message_names_eight_devices(several, n, rest):
    several(n, "gpu")
    with pytest.raises(ValueError, match="devices") as told:
        devices.resolve_devices(n + 1)
    named = ", ".join(f"gpu:{number}" for number in range(8)) + rest
    assert str(told.value) == (
        f'`devices` must be from 1 to {n}, what JAX sees ({named}); got {n + 1}. All of them: "all".'
    )


def test_processes_that_share_a_fit_take_all_devices(several):
    seen = several(4, n_processes=2)
    assert devices.resolve_devices("all") == tuple(seen)
    for asked in (None, 2):
        with pytest.raises(
            ValueError, match=f'^`devices` must be "all" where .* here 2; got {asked}'
        ) as told:
            devices.resolve_devices(asked)
        assert str(told.value).endswith(".")


@pytest.mark.parametrize("asked", [True, 1.0, "cpu", "ALL", [1]])
def test_anything_else_is_refused(asked):
    with pytest.raises(ValueError, match=r'^`devices` must be None, "all" or a number of devices; got '):
        devices.resolve_devices(asked)


def test_a_mesh_splits_rows():
    mesh = devices.row_mesh(devices.resolve_devices("all"))
    assert mesh.axis_names == (devices.ROWS,)
    assert tuple(mesh.devices) == tuple(jax.devices())
    assert mesh.axis_types == (jax.sharding.AxisType.Auto,)


class Problem(NamedTuple):
    stack: Any
    y: Any


def test_problems_move_to_jax_and_back():
    y = np.arange(3.0)
    moved = devices.to_devices(Problem(DenseStack(np.ones((1, 2, 2))), y))
    assert isinstance(moved.stack.kernels, jax.Array)
    assert isinstance(moved.y, jax.Array)
    back = devices.to_numpy(moved)
    assert type(back.y) is np.ndarray
    assert type(back.stack.kernels) is np.ndarray
    np.testing.assert_array_equal(back.y, y)


def test_a_stack_on_a_mesh_stays_and_all_else_is_copied_to_its_devices():
    mesh = devices.row_mesh(devices.resolve_devices("all"))
    stack = SimpleNamespace(mesh=mesh)
    moved = devices.to_devices(Problem(stack, np.arange(3.0)))
    assert moved.stack is stack
    assert moved.y.sharding == NamedSharding(mesh, PartitionSpec())
    np.testing.assert_array_equal(np.asarray(moved.y), np.arange(3.0))


def test_what_is_spread_over_hosts_is_gathered(monkeypatch):
    """One process cannot hold such an array: this one only looks like it."""
    from jax.experimental import multihost_utils

    gathered = []

    def gather(array, tiled):
        gathered.append((array, tiled))
        return np.arange(4)

    class Spread:
        is_fully_addressable = False
        is_fully_replicated = False

    monkeypatch.setattr(jax, "Array", Spread)
    monkeypatch.setattr(multihost_utils, "process_allgather", gather)
    spread = Spread()
    np.testing.assert_array_equal(devices._fetch(spread), np.arange(4))
    assert gathered == [(spread, True)]
    for attribute in ("is_fully_addressable", "is_fully_replicated"):
        here = Spread()
        setattr(here, attribute, True)
        assert devices._fetch(here).item() is here  # taken as it is
    assert len(gathered) == 1
