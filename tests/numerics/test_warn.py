"""Warnings point at the line that called the package."""

from __future__ import annotations

import sys
import warnings

import pytest

from bayesmkl._utils.warnings import warn_user


def within(package, depth, message="too hot", category=UserWarning):
    """Warn from `depth` nested functions in a module of `package`; return where the warning points."""
    code = "def level0(): warn_user(message, category)\n" + "".join(
        f"def level{n}(): level{n - 1}()\n" for n in range(1, depth)
    )
    names = {"__name__": package, "warn_user": warn_user, "message": message, "category": category}
    exec(compile(code, "inside.py", "exec"), names)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names[f"level{depth - 1}"](); line = sys._getframe().f_lineno  # fmt: skip # noqa: E702
    (one,) = caught
    assert str(one.message) == message
    assert one.category is category
    return one.filename, one.lineno, line


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_line_outside_the_package_is_named(depth):
    filename, found, line = within("bayesmkl.kernels.bank", depth, "too cold", RuntimeWarning)
    assert filename == __file__
    assert found == line
