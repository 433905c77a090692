"""
Do probabilities come true
==========================

Waves of two kinds overlap, so that no classifier is always right. Of the new samples that were given a probability
near 0.8, eight in ten should belong to the class: then the points lie on the diagonal. Two margins of the model are
compared on samples that neither has seen; the histogram below each panel shows where the predictions lie.
:doc:`/guide/which_model` says more about the margin.
"""

import matplotlib.pyplot as plt

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import make_waveform
from bayesmkl.evaluation import expected_calibration_error
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import plot_reliability

train, new = make_waveform(200, random_state=0), make_waveform(4000, random_state=1)
bank = KernelBank([Gaussian(width=8), Gaussian(width=16), Linear()])

figure, axes = plt.subplots(1, 2, figsize=(8.4, 5.4), layout="constrained", sharey=True)
errors = {}
for ax, margin in zip(axes, (0.0, 1.0), strict=True):
    model = BEMKLClassifier(bank, margin=margin, tol=1e-5).fit(train.data, train.target)
    probability = model.predict_proba(new.data)[:, 1]
    plot_reliability(new.target == 1, probability, ax=ax)
    ax.set_title(f"Margin {margin:g}\n{ax.get_title(loc='left')}", loc="left", fontsize="medium")
    ax.child_axes[0].set_xlabel("")
    ax.set_xlabel("predicted probability", labelpad=95)  # below the histogram
    errors[margin] = expected_calibration_error(new.target == 1, probability)

better = min(errors, key=errors.get)
_ = figure.suptitle(
    f"Of these overlapping classes, margin {better:g} gives the probabilities that are nearer to what happens",
    x=0.01,
    ha="left",
    fontsize="medium",
)
