"""Available memory, and refusals of allocations that could not succeed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def available_memory() -> int | None:
    """Return the bytes that this process can still take; None where the system does not say.

    It is the least of what the computer has left (without swapping), what the control groups of the process leave
    (containers and batch systems), and what its limit of address space leaves (``ulimit -v``).

    Examples
    --------
    >>> left = available_memory()
    >>> left is None or left > 0
    True
    """
    left = [*_left_on_machine(ROOT), *_left_in_groups(ROOT), *_left_in_address_space(ROOT)]
    return max(0, min(left)) if left else None


def require_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise before an allocation that does not fit into the memory that is available.

    Parameters
    ----------
    n_bytes : float
        Bytes to be allocated.
    what : str
        What takes them, in the singular.
    remedy : str
        What to do instead, one or more sentences.

    Raises
    ------
    MemoryError
        With both numbers and the remedy.

    Examples
    --------
    >>> require_memory(1e6, "the stack of 3 kernels", "Use landmarks.")
    """
    left = available_memory()
    if left is not None and n_bytes > left:
        raise MemoryError(
            f"`X`: {what} needs {format_bytes(n_bytes)}, and {format_bytes(left)} are available. {remedy}"
        )


def format_bytes(n: float) -> str:
    """Return a number of bytes for people, in decimal units.

    Examples
    --------
    >>> format_bytes(999), format_bytes(3.26e9), format_bytes(2**20)
    ('999 bytes', '3.3 GB', '1.0 MB')
    """
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= 0.9995 * size:
            return f"{n / size:.1f} {unit}" if n < 99.95 * size else f"{n / size:.0f} {unit}"
    return f"{n:.0f} bytes"


def _left_on_machine(root: Path) -> Iterator[int]:
    """Yield what can be taken without swapping, on Linux, which counts it."""
    kilobytes = _entry(root / "proc/meminfo", "MemAvailable:")
    if kilobytes is not None:
        yield 1024 * kilobytes


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yield limit minus use of the control group (version 2) of this process and of the groups around it."""
    top = root / "sys/fs/cgroup"
    for own in (line[3:] for line in _lines(root / "proc/self/cgroup") if line.startswith("0::")):
        group = top / own.strip("/")
        for folder in (group, *group.parents):  # a container sees its own group as the top one
            limit, usage = _number(folder / "memory.max"), _number(folder / "memory.current")
            if limit is not None and usage is not None:  # files that can be dropped are free
                yield limit - usage + (_entry(folder / "memory.stat", "inactive_file") or 0)
            if folder == top:
                break


def _left_in_address_space(root: Path) -> Iterator[int]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        pages = next(_lines(root / "proc/self/statm"), "0").split()[0]
        yield limit - int(pages) * resource.getpagesize()


def _entry(path: Path, name: str) -> int | None:
    """Return the number after `name` in a file of names and numbers."""
    for line in _lines(path):
        words = line.split()
        if len(words) > 1 and words[0] == name:
            return int(words[1])
    return None


def _number(path: Path) -> int | None:
    """Return the number in a file; None where there is no file, or it says "max"."""
    text = next(_lines(path), "")
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return
    yield from text.splitlines()
