"""
Which view matters, and how surely?
===================================

To the left, the size of the effect of each view. To the right, the part of the variance that it explains, and in grey
what is not explained. Lines are 94 % intervals. See :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import plot_views

X, y = load_wdbc(return_X_y=True)
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views=views)
model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, random_state=0)).fit(X[::2], y[::2])
_, ax = plt.subplots(figsize=(9, 3), layout="constrained")
_ = plot_views(model, ax=ax)
