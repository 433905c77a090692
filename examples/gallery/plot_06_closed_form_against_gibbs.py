"""
How sure is variational Bayes
=============================

Variational Bayes (VB) treats groups of parameters as independent, and its intervals are too narrow for it. Gibbs
chains that start around it, and run until they agree, have the missing standard deviation, and means that VB missed.
The figure has the posterior of the share of every kernel under both; numbers at the right are ratios of standard
deviations. Margin and scale of the intermediate outputs are 1. More on the page :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import plot_posteriors, refine_posterior

X, y = load_wdbc(return_X_y=True)
groups = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank(Gaussian(width=4), views=groups)
model = make_pipeline(StandardScaler(), BEMKLClassifier(bank, margin=1.0, intermediate_scale=1.0)).fit(
    X[::10], y[::10]
)
refined = refine_posterior(model, random_state=0)

figure, ax = plt.subplots(figsize=(8.0, 4.4), layout="constrained")
plot_posteriors({"VB": model, "Gibbs": refined}, ax=ax)
ax.set_ylabel("kernel · view")
narrow = 100 * (model[-1].kernel_shares_std_ / refined.kernel_shares_std_).mean()
off = 100 * abs(model[-1].kernel_shares_ - refined.kernel_shares_).max()
_ = ax.set_title(
    f"Standard deviations of VB are {narrow:.0f} % of those of Gibbs, on average;\n"
    f"shares are up to {off:.0f} points off",
    loc="left",
    fontsize="medium",
)
