"""Two moons with three labels each: the decision from the labels alone, and with the graph."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, ORANGE
from matplotlib.collections import LineCollection
from sklearn.datasets import make_moons

from bayesmkl import KernelBank
from bayesmkl.discriminative import LapMKLClassifier
from bayesmkl.kernels import Gaussian

X, y = make_moons(140, noise=0.08, random_state=0)
labels = np.full(len(y), -1)  # no label
for k in (0, 1):
    known = np.flatnonzero(y == k)[:3]
    labels[known] = k
bank = KernelBank([Gaussian(width=0.3), Gaussian(width=1)])
first, second = np.meshgrid(np.linspace(-1.4, 2.4, 60), np.linspace(-0.9, 1.4, 60))
plane = np.column_stack([first.ravel(), second.ravel()])

plt.rc("font", size=11)
fig, axes = plt.subplots(1, 2, figsize=(7, 2.9), layout="constrained", sharey=True)
found = []
for ax, (name, price) in zip(axes, (("labels alone", 0.0), ("with the graph", 1.0)), strict=True):
    model = LapMKLClassifier(bank, gamma_intrinsic=price, n_neighbors=6, unlabeled_label=-1).fit(X, labels)
    unlabeled = labels == -1
    found.append(100 * np.mean(model.transduction_[unlabeled] == y[unlabeled]))
    if price:
        edges = np.argwhere(np.triu(model.laplacian_.toarray(), 1) < 0)
        ax.add_collection(LineCollection(X[edges], colors="#999999", linewidths=0.6, zorder=1))
    scores = model.decision_function(plane).reshape(first.shape)
    ax.contour(first, second, scores, levels=[0], colors="black", linewidths=2)
    for k, color, marker in ((0, BLUE, "o"), (1, ORANGE, "s")):
        rest, given = unlabeled & (y == k), labels == k
        ax.scatter(*X[rest].T, s=14, c=color, marker=marker, alpha=0.6, linewidths=0, zorder=2)
        ax.scatter(*X[given].T, s=90, c=color, marker=marker, edgecolors="black", linewidths=1.5, zorder=3)
    ax.set_title(f"{name}: {found[-1]:.0f} % right", fontsize=11, loc="left")
    ax.set(xlabel="feature 1", aspect="equal")
axes[0].set_ylabel("feature 2")
fig.suptitle("Three labels per moon (large), which the graph carries along", x=0.02, ha="left", fontsize=12)
