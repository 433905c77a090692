"""Two linear kernels (one has an intercept) where the classes change sides: without and with gates."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import ORANGE

from bayesmkl import KernelBank
from bayesmkl.discriminative import LMKLClassifier, SimpleMKLClassifier
from bayesmkl.kernels import Linear, Polynomial

rng = np.random.default_rng(0)
X = rng.uniform(-1.5, 1.5, size=(240, 2)) + np.repeat([[-1.8, 0], [1.8, 0]], 120, axis=0)
away = np.where(X[:, 0] < 0, X[:, 1] - 0.4 * (X[:, 0] + 1.8), -X[:, 1])  # from the border between the classes
X, y = X[np.abs(away) > 0.12], away[np.abs(away) > 0.12] > 0
bank = KernelBank([Linear(), Polynomial(degree=1)], normalize=None)
models = {
    "SimpleMKL": SimpleMKLClassifier(bank, C=10).fit(X, y),
    "LMKL": LMKLClassifier(bank, C=10, fallback=False, random_state=0).fit(X, y),
}

plt.rc("font", size=11)
fig, axes = plt.subplots(1, 2, figsize=(7, 3.3), layout="constrained", sharey=True)
first, second = np.meshgrid(np.linspace(-3.5, 3.5, 80), np.linspace(-1.7, 1.7, 60))
plane = np.column_stack([first.ravel(), second.ravel()])
for ax, (name, model) in zip(axes, models.items(), strict=True):
    gate = model.gates(plane)[:, 0].reshape(first.shape)
    image = ax.contourf(first, second, gate, levels=np.linspace(0, 1, 11), cmap="cividis")
    scores = model.decision_function(plane).reshape(first.shape)
    ax.contour(first, second, scores, levels=[0], colors="white", linewidths=5)
    ax.contour(first, second, scores, levels=[0], colors="black", linewidths=2.5)
    ax.scatter(*X[y].T, s=16, c=ORANGE, marker="s", edgecolors="white", linewidths=0.5, zorder=3)
    ax.scatter(*X[~y].T, s=16, c="white", marker="o", edgecolors="black", linewidths=0.7, zorder=3)
    ax.set_title(f"{name}: {100 * model.score(X, y):.0f} % right", fontsize=11, loc="left")
    ax.set_xlabel("feature 1")
axes[0].set_ylabel("feature 2")
fig.colorbar(image, ax=axes, label="gate of kernel 1", ticks=[0, 0.5, 1])
fig.suptitle("Two linear kernels: the same everywhere, and each in its place", x=0.02, ha="left", fontsize=12)
