"""Let pytest-benchmark 5.3 run under pytest 9.2, which has no longer the attribute that it reads."""

from __future__ import annotations

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)
