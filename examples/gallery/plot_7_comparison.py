"""
Which differences between models are real?
==========================================

Four classifiers on the same ten splits of handwritten digits. The intervals of the means allow for the overlap of the
training sets. See :doc:`/guide/comparing`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.discriminative import BestKernelClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.plots import plot_scores

digits = load_digits_views()
some = np.flatnonzero(np.isin(digits.target, [3, 5, 8, 9]))[:200]
views = {name: digits.views[name] for name in ("rows", "columns", "fourier", "quadrants")}
bank = KernelBank("auto", views=views)
models = [
    BEMKLClassifier(bank),
    SimpleMKLClassifier(bank),
    UniformMKLClassifier(bank),
    BestKernelClassifier(bank),
]
data = {"digits": (digits.data[some], digits.target[some])}
found = compare_models(models, datasets=data, cv=10, scoring="accuracy")
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
_ = plot_scores(found, ax=ax)
