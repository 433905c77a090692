"""
From one kernel to all: the norm of the weights
===============================================

LpMKL learns kernel weights :math:`d \\ge 0` with :math:`\\lVert d \\rVert_p \\le 1`. At :math:`p = 1` few kernels
have a weight, with growing :math:`p` all of them approach the same. Weights are shown as parts of their sum. Which
norm predicts best is a question for cross-validation; see :doc:`/guide/discriminative`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative import LpMKLClassifier
from bayesmkl.kernels import Gaussian

NORMS = np.array([1.0, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0, 10.0])

data = load_wdbc()
X, y = StandardScaler().fit_transform(data.data)[::3], data.target[::3]
bank = KernelBank(Gaussian(width=1), views={name: [m] for m, name in enumerate(data.feature_names)})
stack = bank.fit_transform(X)
weights = np.array([LpMKLClassifier("precomputed", p_norm=p).fit(stack, y).kernel_weights_ for p in NORMS])
weights /= weights.sum(axis=1, keepdims=True)

figure, ax = plt.subplots(figsize=(8.2, 4.4), layout="constrained")
ax.plot(NORMS, 100 * weights, color="#AAAAAA", linewidth=0.8)
looks = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"), ("#CC79A7", "^")]
for m, (color, marker) in zip(np.argsort(-weights[0]), looks, strict=False):
    ax.plot(NORMS, 100 * weights[:, m], color=color, marker=marker, label=data.feature_names[m])
ax.plot([], [], color="#AAAAAA", linewidth=0.8, label=f"{weights.shape[1] - len(looks)} others")
ax.set_xscale("log")
ax.set_xticks([1, 1.2, 1.5, 2, 3, 5, 10], ["1", "1.2", "1.5", "2", "3", "5", "10"])
ax.minorticks_off()
ax.set_xlabel("p, norm of the weights (logarithmic)")
ax.set_ylabel("kernel weight (% of their sum)")
needed = [1 + int(np.argmax(np.cumsum(-np.sort(-row)) > 0.9)) for row in weights]
ax.set_title(
    f"{needed[0]} of {weights.shape[1]} kernels hold 90 % of the weight at p = 1, {needed[-1]} at p = {NORMS[-1]:g}",
    loc="left",
    fontsize="medium",
)
_ = ax.legend(frameon=False)
