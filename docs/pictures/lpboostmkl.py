"""Scores of two kernels in cross-validation with the line that weighs them, and the weights for many margins."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREY, ORANGE, tidy
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

from bayesmkl.discriminative.global_weights.lpboostmkl import maximize_margin

rng = np.random.default_rng(0)
X = rng.normal(size=(160, 4))
y = np.where(X[:, 0] + 0.8 * X[:, 1] + 0.3 * rng.normal(size=160) > 0, 1, -1)
scores = np.stack(
    [
        cross_val_predict(SVC(kernel="rbf", gamma=0.5), x[:, None], y, cv=5, method="decision_function")
        for x in X.T
    ]
)
margins = (y * scores)[:, :, None]
nu = 0.2
found = maximize_margin(margins, nu)
weights = found.kernel_weights

plt.rc("font", size=11)
fig, (plane, path) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for side, color, marker in ((-1, BLUE, "o"), (1, ORANGE, "s")):
    of = y == side
    size = 8 + 1500 * found.sample_weights[of, 0]
    plane.scatter(*scores[:2, of], s=size, c=color, marker=marker, alpha=0.6, linewidths=0)
ends = np.array([-2.5, 2.5])
plane.plot(ends, -weights[0] / weights[1] * ends, color="black", linewidth=2)
plane.set(xlabel="score of kernel 1", ylabel="score of kernel 2", xlim=(-2, 2), ylim=(-2, 2))
plane.set_title("The sum of the scores decides", fontsize=11, loc="left")
values = np.linspace(0.05, 0.95, 37)
curves = np.array([maximize_margin(margins, v).kernel_weights for v in values])
for m, (color, style) in enumerate(((BLUE, "-"), (ORANGE, "--"), (GREY, "-"), (GREY, ":"))):
    label = f"kernel {m + 1}" if m < 2 else "noise" if m == 2 else None
    path.plot(values, curves[:, m], style, color=color, linewidth=2, label=label)
path.set(xlabel="ν", ylabel="weight", ylim=(-0.03, 1.03))
path.set_title("Larger ν, fewer kernels", fontsize=11, loc="left")
path.legend(frameon=False, loc="upper left")
for ax in (plane, path):
    tidy(ax)
