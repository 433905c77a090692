"""Peak memory of a piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Peak", "peak_memory"]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """Bytes of resident memory above those at the start; NaN where the system does not count them."""

    n_bytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the peak of the resident memory inside, on Linux, where the kernel counts it.

    Memory that was freed before, and that the process still holds, is used again without being counted.
    """
    peak = Peak()
    before = _reset_and_read()
    try:
        yield peak
    finally:
        if before is not None:
            after = _resident("VmHWM")
            peak.n_bytes = float("nan") if after is None else float(max(0, after - before))


def _reset_and_read() -> int | None:
    """Set the peak to what is resident now, and return that; None where that cannot be done."""
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(field: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return 1024 * int(found[0]) if found else None
