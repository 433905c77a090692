"""The two nearest points of the hulls of two classes, and the bounds of the objective step by step."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, ORANGE

from bayesmkl import KernelBank
from bayesmkl.discriminative import MWUMKLClassifier
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.normal(size=(160, 2))
y = X[:, 1] > 0.8 * np.sin(2.5 * X[:, 0])
X[:, 1] += np.where(y, 0.15, -0.15)
bank = KernelBank([Gaussian(width=w) for w in (0.3, 1, 3)])
kernels = bank.fit_transform(X)
runs = [MWUMKLClassifier(bank, C=10, epsilon=e).fit(X, y) for e in (0.5, 0.2, 0.1, 0.05, 0.02)]
model = runs[-1]

plt.rc("font", size=11)
fig, (plane, bounds) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained")
first, second = np.meshgrid(np.linspace(-3, 3, 70), np.linspace(-3, 3, 70))
scores = model.decision_function(np.column_stack([first.ravel(), second.ravel()])).reshape(first.shape)
plane.contour(first, second, scores, levels=[0], colors="black", linewidths=2)
share = np.abs(model.dual_coef_) / np.abs(model.dual_coef_).sum()
for side, color, marker in ((False, BLUE, "o"), (True, ORANGE, "s")):
    of = y == side
    plane.scatter(*X[of].T, s=6 + 2500 * share[of], c=color, marker=marker, alpha=0.6, linewidths=0)
plane.set(xlabel="feature 1", ylabel="feature 2", xlim=(-3, 3), ylim=(-3, 3))
plane.set_title(f"Weight on {len(model.support_)} of {len(X)} samples", fontsize=11, loc="left")
steps = np.arange(1, len(model.objective_history_) + 1)
bounds.plot(steps, model.objective_history_, color=BLUE, label="upper: primal value")
ends = [run.n_iter_ for run in runs]
lower = [run.objective_history_[-1] - run.duality_gap_ for run in runs]
bounds.plot(ends, lower, "s--", color=ORANGE, label="lower: from α")
bounds.set(xlabel="steps", ylabel="objective J")
bounds.set(ylim=(0, 1.8 * model.objective_history_[-1]))
gap = model.duality_gap_ / model.objective_history_[-1]
bounds.set_title(f"J known to {100 * gap:.1f} % after {model.n_iter_} steps", fontsize=11, loc="left")
bounds.legend(frameon=False, loc="lower right")
bounds.spines[["top", "right"]].set_visible(False)
