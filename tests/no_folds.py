"""BEMKL classifiers take the usual scale of the intermediate outputs, without folds, in tests of something else.

Fifteen more fits in each of thousands would say nothing. What folds choose, all pages and the defaults are tested as
they are, by `folds`, a fixture of conftest.
"""

from __future__ import annotations

from bayesmkl.bemkl.estimators import scale_choice

MOST_SAMPLES = scale_choice.MOST_SAMPLES
scale_choice.MOST_SAMPLES = 0
