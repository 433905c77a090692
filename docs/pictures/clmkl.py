"""Two soft clusters of the samples, and the kernel weights of each."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, ORANGE, YELLOW

from bayesmkl import KernelBank
from bayesmkl.discriminative import CLMKLClassifier
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-1.5, 1.5, size=(240, 2)) + np.repeat([[-2.5, 0], [2.5, 0]], 120, axis=0)
away = np.where(X[:, 0] < 0, X[:, 1], X[:, 0] - 2.5)  # from the border between the classes
X, y = X[np.abs(away) > 0.12], away[np.abs(away) > 0.12] > 0
bank = KernelBank(Gaussian(width=1), views="each")
model = CLMKLClassifier(bank, n_clusters=2, p_norm=1.1, evenness=0.3, C=10, random_state=0).fit(X, y)
order = np.argsort(X[:, 0] @ model.memberships_)  # clusters from left to right

plt.rc("font", size=11)
fig, (ax, bars) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained", width_ratios=[2.2, 1])
first, second = np.meshgrid(np.linspace(-4.2, 4.2, 80), np.linspace(-1.7, 1.7, 60))
plane = np.column_stack([first.ravel(), second.ravel()])
membership = model.memberships(plane)[:, order[1]].reshape(first.shape)
image = ax.contourf(first, second, membership, levels=np.linspace(0, 1, 11), cmap="cividis")
scores = model.decision_function(plane).reshape(first.shape)
ax.contour(first, second, scores, levels=[0], colors="white", linewidths=5)
ax.contour(first, second, scores, levels=[0], colors="black", linewidths=2.5)
ax.scatter(*X[y].T, s=16, c=ORANGE, marker="s", edgecolors="white", linewidths=0.5, zorder=3)
ax.scatter(*X[~y].T, s=16, c="white", marker="o", edgecolors="black", linewidths=0.7, zorder=3)
ax.set(xlabel="feature 1", ylabel="feature 2")
fig.colorbar(image, ax=ax, label="membership in cluster 2", location="bottom", ticks=[0, 0.5, 1])
ax.set_title(f"Two soft clusters: {100 * model.score(X, y):.0f} % right", fontsize=11, loc="left")
weights = model.kernel_weights_[order]
bars.bar([-0.2, 0.8], weights[:, 0], 0.38, color=BLUE, ec="black", label="of feature 1")
bars.bar([0.2, 1.2], weights[:, 1], 0.38, color=YELLOW, ec="black", hatch="//", label="of feature 2")
bars.set_xticks([0, 1], ["cluster 1", "cluster 2"])
bars.set(ylabel="kernel weight", ylim=(0, 1.45), yticks=[0, 0.5, 1])
bars.legend(frameon=False, loc="upper left", fontsize=10)
bars.set_title("Weights of each", fontsize=11, loc="left")
bars.spines[["top", "right"]].set_visible(False)
