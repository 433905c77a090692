"""
A set of kernel weights for every cluster
=========================================

Three groups of samples lie apart. In one of them the second feature tells the classes apart, in one the first, and in
one only both together. C-LMKL finds clusters without looking at the classes, and learns kernel weights for each. The
plane is shaded by the largest membership: light in the middle of a cluster, dark between clusters. See
:doc:`/guide/discriminative`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import KernelBank
from bayesmkl.discriminative import CLMKLClassifier, LDMKLClassifier, plot_gates
from bayesmkl.kernels import Gaussian

CENTERS = np.array([[-2.2, 0.0], [2.2, 0.0], [0.0, 2.6]])

rng = np.random.default_rng(0)
group = np.repeat([0, 1, 2], 70)
place = rng.uniform(-1.0, 1.0, size=(210, 2))
place += 0.1 * np.sign(place)  # a gap between the classes
X = CENTERS[group] + place
y = np.choose(group, [place[:, 1], place[:, 0], place[:, 0] * place[:, 1]]) > 0
bank = KernelBank(Gaussian(width=0.7), views={"first feature": [0], "second feature": [1], "both": [0, 1]})
clustered = CLMKLClassifier(bank, n_clusters=3, p_norm=1.1, evenness=0.35, C=10, random_state=0).fit(X, y)

# %%
# Clusters are numbered from left to right.

member = clustered.memberships_
order = np.argsort((X[:, 0] @ member) / member.sum(axis=0))
weights = clustered.kernel_weights_[order]
views = list(bank.views)

figure, (ax, bars) = plt.subplots(1, 2, figsize=(9.0, 4.6), layout="constrained", width_ratios=[1.5, 1])
first, second = np.meshgrid(np.linspace(-3.6, 3.6, 80), np.linspace(-1.4, 4.0, 70))
plane = np.column_stack([first.ravel(), second.ravel()])
largest = clustered.memberships(plane).max(axis=1).reshape(first.shape)
picture = ax.contourf(first, second, largest, levels=np.linspace(1 / 3, 1, 9), cmap="cividis")
score = clustered.decision_function(plane).reshape(first.shape)
ax.contour(first, second, score, levels=[0], colors="white", linewidths=3.5)
ax.contour(first, second, score, levels=[0], colors="black", linewidths=1.5)
ax.scatter(*X[y].T, s=18, c="#D55E00", marker="s", edgecolors="black", linewidths=0.6, zorder=3)
ax.scatter(*X[~y].T, s=18, c="white", marker="o", edgecolors="black", linewidths=0.7, zorder=3)
box = {"facecolor": "white", "edgecolor": "black", "boxstyle": "circle"}
for r, k in enumerate(order):
    x, top = np.average(X, axis=0, weights=member[:, k] ** 4)
    ax.text(x, top, str(r + 1), ha="center", va="center", fontsize="xx-large", zorder=4, bbox=box)
ax.set_xlabel("first feature (no unit)")
ax.set_ylabel("second feature (no unit)")
ax.set_title(
    f"Black boundary: {100 * clustered.score(X, y):.0f} % of the samples are right",
    loc="left",
    fontsize="medium",
)
figure.colorbar(picture, ax=ax, label="largest membership", ticks=[0.4, 0.6, 0.8, 1.0], format="%.1f")
looks = [("#0072B2", ""), ("#E69F00", "///"), ("white", "")]
for m, (color, hatch) in enumerate(looks):
    bars.bar(
        np.arange(3) + 0.27 * (m - 1),
        weights[:, m],
        0.25,
        color=color,
        hatch=hatch,
        edgecolor="black",
        label=views[m],
    )
bars.set_xticks(range(3), [f"cluster {r + 1}" for r in range(3)])
bars.set_ylim(0.0, 1.05)
bars.spines[["top", "right"]].set_visible(False)
bars.set_ylabel("kernel weight (vectors of norm 1)")
bars.set_title("Weights of the kernels", loc="left", fontsize="medium")
bars.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.1))
best = [views[m] for m in weights.argmax(axis=1)]
_ = figure.suptitle(
    f"Most weight in clusters 1, 2 and 3 is on: {best[0]}, {best[1]} and {best[2]}", x=0.01, ha="left"
)

# %%
# Gates of LD-MKL
# ---------------
# LD-MKL has no clusters. It trains an SVM with every kernel and learns where each of them can be trusted.

local = LDMKLClassifier(bank, gate_kernel=Gaussian(width=2), gate_targets="train", temperature=0.2).fit(X, y)
suits = np.array([1, 0, 2])[group]  # the kernel that tells the classes apart in the group of a sample
agree = [100 * (model.gates_.argmax(axis=1) == suits).mean() for model in (clustered, local)]
names = np.array(["left group", "right group", "upper group"])[group]

figure, axes = plt.subplots(2, 1, figsize=(7.4, 7.6), layout="constrained")
for ax, model, text in zip(axes, (clustered, local), ("C-LMKL", "LD-MKL"), strict=True):
    plot_gates(model, order_by=names, ax=ax)
    right = 100 * model.score(X, y)
    ax.set_title(f"{text}: {right:.0f} % of the samples are right", loc="left", fontsize="medium")
    ax.set_ylim(-0.03, 1.05)
_ = figure.suptitle(
    f"The kernel that suits the group has the largest gate at {agree[0]:.0f} % of the samples\n"
    f"by C-LMKL, at {agree[1]:.0f} % by LD-MKL",
    x=0.01,
    ha="left",
    fontsize="medium",
)
