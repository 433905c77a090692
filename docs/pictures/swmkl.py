"""Where the SVMs of two kernels are right, and the gates that regressions make of that."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, ORANGE
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.discriminative import SwMKLClassifier
from bayesmkl.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
bank = KernelBank(Linear(), views={"right": [1], "left": [2]}, normalize=None)
paper = {"gate_targets": "train", "temperature": None}
model = SwMKLClassifier(bank, gate_kernel=Gaussian(width=0.5), gate_columns=[0], **paper)
model.fit(X, y)
place = np.linspace(-3, 3, 200)
gates = model.gates(np.column_stack([place, np.zeros((200, 2))]))

plt.rc("font", size=11)
fig, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained", sharey=True)
for m, (ax, name) in enumerate(zip(axes, ("kernel of feature 2", "kernel of feature 3"), strict=True)):
    success = SVC(kernel="linear").fit(X[:, [m + 1]], y).predict(X[:, [m + 1]]) == y
    jitter = rng.uniform(-0.05, 0.05, size=len(X))
    ax.scatter(X[success, 0], 1.12 + jitter[success], s=9, c=BLUE, marker="o", linewidths=0)
    ax.scatter(X[~success, 0], -0.12 + jitter[~success], s=14, c=ORANGE, marker="x", linewidths=1)
    ax.plot(place, gates[:, m], color="#333333", linewidth=2.5)
    ax.axvline(0, color="#999999", linestyle=":")
    ax.set_title(f"{name}: alone {100 * success.mean():.0f} % right", fontsize=11, loc="left")
    ax.set(xlabel="feature 1 (standardized)", xlim=(-3, 3), yticks=[-0.12, 0, 0.5, 1, 1.12])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_yticklabels(["wrong", "0", "0.5", "1", "right"])
axes[0].set_ylabel("gate (line)")
score = 100 * model.score(X, y)
title = f"Gates rise where a kernel alone is right; together: {score:.0f} % right"
fig.suptitle(title, x=0.02, ha="left", fontsize=12)
