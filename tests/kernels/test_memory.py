"""The memory that is left, on systems made of files, and refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bayesmkl._utils import memory
from bayesmkl._utils.memory import available_memory, require_memory


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MACHINE = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"}


def test_machine_without_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "ROOT", write(tmp_path, MACHINE))
    monkeypatch.setattr(memory, "_left_in_address_space", lambda root: iter(()))
    assert available_memory() == 8000 * 1024


def test_least_of_nested_groups_of_version_2(tmp_path, monkeypatch):
    """The limit of an outer group counts, the files that can be dropped are free, "max" is no limit."""
    files = MACHINE | {
        "proc/self/cgroup": "0::/job/step\n",
        "sys/fs/cgroup/job/memory.max": "5000000\n",
        "sys/fs/cgroup/job/memory.current": "3000000\n",
        "sys/fs/cgroup/job/memory.stat": "anon 2000000\ninactive_file 400000\n",
        "sys/fs/cgroup/job/step/memory.max": "max\n",
        "sys/fs/cgroup/job/step/memory.current": "3000000\n",
    }
    monkeypatch.setattr(memory, "ROOT", write(tmp_path, files))
    monkeypatch.setattr(memory, "_left_in_address_space", lambda root: iter(()))
    assert available_memory() == 2_400_000


def test_limit_of_address_space():
    """A process that may take 300 MB more says about that, and less after it took 100."""
    pytest.importorskip("resource")
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")
    code = (
        "import resource, runpy; from pathlib import Path\n"
        f"available_memory = runpy.run_path({memory.__file__!r})['available_memory']\n"
        "pages = int(Path('/proc/self/statm').read_text().split()[0])\n"
        "limit = pages * resource.getpagesize() + 300_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "before = available_memory(); kept = bytearray(100_000_000)\n"
        "print(before, before - available_memory())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, taken = map(int, run.stdout.split())
    assert 290e6 < before <= 300e6
    assert 100e6 <= taken < 110e6


def test_refusal_says_what_and_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1_200_000_000)
    require_memory(1.2e9, "the stack of 3 kernels", "Use landmarks.")
    with pytest.raises(MemoryError) as caught:
        require_memory(3.3e9, "the stack of 3 kernels", "Use landmarks.")
    assert str(caught.value) == (
        "`X`: the stack of 3 kernels needs 3.3 GB, and 1.2 GB are available. Use landmarks."
    )


def test_systems_that_do_not_say_refuse_nothing(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    require_memory(1e30, "the stack of 3 kernels", "Use landmarks.")
