"""
What made the prediction of one sample?
=======================================

The score of a sample is the sum of what each view adds. Bars lead from one partial sum to the next, with an interval
for each part. See :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import contributions, plot_waterfall

X, y = load_wdbc(return_X_y=True)
X = StandardScaler().fit_transform(X)
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank(Gaussian(width=4), views=views, normalize="center")
model = GPMKLClassifier(bank, random_state=0).fit(X[::2], y[::2])
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
_ = plot_waterfall(contributions(model, X[1::2], random_state=0), sample=0, ax=ax)
