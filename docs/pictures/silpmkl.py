"""Planes below the objective over the weights of two kernels, and the bounds step by step for ten of them."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREY, ORANGE, tidy

from bayesmkl.discriminative.outer import fit_at
from bayesmkl.discriminative.svm.cuts import lowest_point
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 10))
y = np.where(np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] + 0.3 * rng.normal(size=80) > 0, 1.0, -1.0)
ten = DenseStack(np.stack([np.exp(-0.5 * (x[:, None] - x) ** 2) for x in X.T]))


def search(stack, n_steps):
    """Return the planes, the weights where each was found, and both bounds after every step."""
    weights, planes, lower, upper = np.full(stack.n_kernels, 1.0 / stack.n_kernels), [], [], []
    for _ in range(n_steps):
        planes.append(fit_at(stack, y[None], Hinge(2.0), weights, 1e-7))
        upper.append(min(plane.objective for plane in planes))
        bound, weights = lowest_point(planes)
        lower.append(bound)
    return planes, lower, upper


plt.rc("font", size=11)
fig, (cuts, bounds) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
two = ten.select([0, 1])
grid = np.linspace(0, 1, 41)
values = [fit_at(two, y[None], Hinge(2.0), np.array([t, 1 - t]), 1e-6).objective for t in grid]
cuts.plot(grid, values, color=BLUE, linewidth=2.5, label="J")
for k, plane in enumerate(search(two, 4)[0]):
    at = plane.kernel_weights[0]
    slope = -0.5 * (plane.quadratics[0] - plane.quadratics[1])
    label = "planes" if k == 0 else None
    cuts.plot(grid, plane.objective + slope * (grid - at), color=GREY, linewidth=1, label=label)
    cuts.plot(at, plane.objective, "o", color=ORANGE)
    cuts.annotate(str(k + 1), (at, plane.objective), (3, 6), textcoords="offset points", fontsize=9)
cuts.set(
    xlabel="weight of the first kernel", ylabel="objective J", ylim=(0.5 * min(values), 1.15 * max(values))
)
cuts.set_title("Each SVM gives a plane", fontsize=11, loc="left")
cuts.legend(frameon=False, loc="upper center")
_, lower, upper = search(ten, 40)
steps = np.arange(1, 41)
bounds.plot(steps, upper, color=BLUE, label="best objective")
bounds.plot(steps, lower, "--", color=ORANGE, label="linear program")
bounds.set(xlabel="SVMs", ylim=(0, 1.6 * upper[-1]))
bounds.set_title("The bounds close in on ten kernels", fontsize=11, loc="left")
bounds.legend(frameon=False, loc="lower right")
for ax in (cuts, bounds):
    tidy(ax)
