"""
Which view matters, and how surely?
===================================

The share of a view is its part of the variance of the score. The line through each point is a 94 % interval. One view
carries most of the score here. See :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import plot_kernel_weights

X, y = load_wdbc(return_X_y=True)
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views=views)
model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, random_state=0)).fit(X[::2], y[::2])
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
_ = plot_kernel_weights(model, ax=ax, by_view=True)
