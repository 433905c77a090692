"""
Which kernels carry the score
=============================

Thirty measurements of cell nuclei come in three groups, and each group is compared at two length scales. A share is
the part of the variance of the score that a kernel makes; shares sum to one. The line through a point is a 94 %
interval, from draws of the kernel weights with all else integrated out. How to read such a table is on the page
:doc:`/guide/reading`, and what is drawn on the page :doc:`/algorithms/gpmkl`.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import plot_kernel_weights, view_table

X, y = load_wdbc(return_X_y=True)
groups = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views=groups)
model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, random_state=0)).fit(X[::2], y[::2])

figure, ax = plt.subplots(figsize=(7.6, 3.6), layout="constrained")
plot_kernel_weights(model, ax=ax)
_ = ax.set_ylabel("kernel · view")

# %%
# Sorted by view
# --------------
# The same intervals, with the kernels of each view together.

figure, ax = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
plot_kernel_weights(model, ax=ax, by_view=True)
ax.set_ylabel("view and kernel")
best = view_table(model, random_state=0).iloc[0]
low = 100 * best["share_lower"]
_ = ax.set_title(f'View "{best["view"]}" carries {low:.0f} % of the score or more', loc="left")
