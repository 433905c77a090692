"""The losses of PrimalMKL, and how fast three updates of the kernel weights come to the optimum."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREEN, ORANGE
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative import PrimalMKLClassifier
from bayesmkl.kernels import Gaussian

score = np.linspace(-2, 3.4, 200)
residual = np.abs(1 - score)
losses = {
    "squared hinge": 0.5 * np.maximum(0, 1 - score) ** 2,
    "squared": 0.5 * residual**2,
    "Huber": np.where(residual <= 1, 0.5 * residual**2, residual - 0.5),
}

X, y = load_wdbc(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[:150], y[:150]
kernels = KernelBank(Gaussian(width=1), views="each").fit_transform(X)
best = PrimalMKLClassifier("precomputed", tol=1e-7).fit(kernels, y)
lowest = best.objective_history_[-1] - best.duality_gap_

plt.rc("font", size=11)
fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=[1, 1.4])
colors, lines = (BLUE, ORANGE, GREEN), ("-", "--", "-.")
for (name, loss), color, line in zip(losses.items(), colors, lines, strict=True):
    left.plot(score, loss, line, color=color, label=name, linewidth=2)
left.set(xlabel="score f, target 1", ylabel="loss", ylim=(-0.05, 3))
left.set_title("Curvature is 0 or 1", fontsize=11, loc="left")
left.legend(frameon=False, loc="upper right", fontsize=10)
for weights, color, line in zip(("spg", "closed", "paper"), colors, lines, strict=True):
    model = PrimalMKLClassifier("precomputed", weights=weights, tol=1e-3).fit(kernels, y)
    distance = model.objective_history_ / lowest - 1
    label = f"{weights}: {model.n_iter_}"
    right.loglog(range(1, len(distance) + 1), distance, line, color=color, linewidth=2, label=label)
    right.plot(len(distance), distance[-1], "o", color=color)
right.set(xlabel="updates of the weights", ylabel="relative distance from optimum")
right.set_title("Updates until the gap is 0.1 %", fontsize=11, loc="left")
right.legend(frameon=False, loc="lower left")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
