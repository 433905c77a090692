"""The SVMs of two kernels on the samples where their gates are open, and their vote."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import ORANGE

from bayesmkl import KernelBank
from bayesmkl.discriminative import LDMKLClassifier
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-1.5, 1.5, size=(240, 2)) + np.repeat([[-1.8, 0], [1.8, 0]], 120, axis=0)
away = np.where(X[:, 0] < 0, X[:, 1], X[:, 0] - 1.8)  # from the border between the classes
X, y = X[np.abs(away) > 0.12], away[np.abs(away) > 0.12] > 0
bank = KernelBank(Gaussian(width=0.7), views="each")
paper = {"gate_targets": "train", "threshold": "paper"}
model = LDMKLClassifier(bank, gate_kernel=Gaussian(width=2), temperature=0.1, **paper).fit(X, y)

first, second = np.meshgrid(np.linspace(-3.5, 3.5, 80), np.linspace(-1.7, 1.7, 60))
plane = np.column_stack([first.ravel(), second.ravel()])
gates = np.moveaxis(model.gates(plane).reshape(*first.shape, 2), 2, 0)
kernels = model.kernel_bank_.transform(plane)
scores = np.einsum("imp,pm->pi", kernels, model.dual_coef_) + model.intercept_[:, None]
panels = [
    (f"kernel of feature {m + 1}:\nretrained on {n} of {len(X)}", scores[m], model.gates_[:, m] >= 0.5)
    for m, n in enumerate(model.n_selected_)
]
vote = f"vote:\n{100 * model.score(X, y):.0f} % right"
panels.append((vote, model.decision_function(plane), np.full(len(X), True)))

plt.rc("font", size=11)
fig, axes = plt.subplots(1, 3, figsize=(7, 3.3), layout="constrained", sharey=True)
for ax, (title, scores, trained) in zip(axes, panels, strict=True):
    scores = scores.reshape(first.shape)
    ax.contour(first, second, scores, levels=[0], colors="white", linewidths=5)
    ax.contour(first, second, scores, levels=[0], colors="black", linewidths=2.5)
    ax.scatter(*X[y & trained].T, s=14, c=ORANGE, marker="s", edgecolors="white", linewidths=0.5, zorder=3)
    ax.scatter(*X[~y & trained].T, s=14, c="white", marker="o", edgecolors="black", linewidths=0.7, zorder=3)
    ax.set_title(title, fontsize=11, loc="left")
    ax.set(xlabel="feature 1", facecolor="#DDDDDD")
for ax, gate in zip(axes, gates, strict=False):
    image = ax.contourf(first, second, gate, levels=np.linspace(0, 1, 11), cmap="cividis", zorder=0)
axes[0].set_ylabel("feature 2")
fig.colorbar(image, ax=axes, label="gate", location="bottom", ticks=[0, 0.5, 1], aspect=40)
fig.suptitle("SVMs are trained where their gates are open, and vote", x=0.02, ha="left", fontsize=12)
