"""A comparison on a local Dask cluster gives the result of a serial one."""

from __future__ import annotations

import logging

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.kernels import Gaussian, KernelBank

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")


def test_a_cluster_gives_what_one_process_gives(tmp_path):
    bank = KernelBank(Gaussian(width=1.0), views="each")
    models = {
        "uniform": make_pipeline(StandardScaler(), UniformMKLClassifier(bank)),
        "simple": make_pipeline(StandardScaler(), SimpleMKLClassifier(bank)),
        "svm": (make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0, 10.0]}),
    }
    X, y = make_classification(60, 4, random_state=0)
    table = pd.DataFrame(X, columns=list("abcd"))
    study = {"datasets": {"iris": "iris", "table": (table, np.where(y, "yes", "no"))}, "cv": 4}
    serial = compare_models(models, **study, scoring=["accuracy", "auc"])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as local,
        distributed.Client(local),
        joblib.parallel_config("dask"),
    ):
        found = compare_models(models, **study, scoring=["accuracy", "auc"], folder=tmp_path / "run")
    columns = [name for name in serial.cells if not name.endswith(("_seconds", "_mb", "_stacks"))]
    for one in (found, Comparison.load(tmp_path / "run")):
        pd.testing.assert_frame_equal(one.cells[columns], serial.cells[columns], check_exact=True)
        pd.testing.assert_frame_equal(one.predictions(), serial.predictions(), check_exact=True)
