"""
Which differences between models are real?
==========================================

Three ways to combine the kernels of three groups of measurements, on the same ten splits. The intervals of the
means allow for the overlap of the training sets. See :doc:`/guide/comparing`.
"""

import matplotlib.pyplot as plt

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative import BestKernelClassifier, SimpleMKLClassifier
from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.plots import plot_scores

X, y = load_wdbc(return_X_y=True)
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank("auto", views=views)
models = {"BEMKL": BEMKLClassifier(bank), "SimpleMKL": SimpleMKLClassifier(bank)}
models["best kernel"] = BestKernelClassifier(bank)
found = compare_models(models, datasets={"tumors": (X[::2], y[::2])}, cv=10, scoring="accuracy")
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
_ = plot_scores(found, ax=ax)
