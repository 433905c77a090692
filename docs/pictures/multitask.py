"""The model of several tasks, and the kernel weights of eight small tasks, alone and together."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREY, ORANGE, draw_model, tidy

from bayesmkl import BEMKLMultitaskRegressor, KernelBank
from bayesmkl.kernels import Linear

rng = np.random.default_rng(2)
X, tasks = rng.normal(size=(160, 24)), np.repeat(np.arange(8), 20)
effect = rng.normal(size=(8, 3, 8))  # view, feature, task
effect /= np.linalg.norm(effect, axis=1, keepdims=True)
effect *= np.array([0.6, 0.4, 0, 0, 0, 0, 0, 0])[:, None, None]
score = X @ effect.reshape(24, 8)
y = (score / score.std(axis=0))[np.arange(160), tasks] + 0.5 * rng.normal(size=160)

views = {f"view {m + 1}": list(range(3 * m, 3 * m + 3)) for m in range(8)}
bank = KernelBank(Linear(), views, normalize="trace")
alone = BEMKLMultitaskRegressor(bank, relation="separate").fit(X, y, tasks=tasks).kernel_weights_
model = BEMKLMultitaskRegressor(bank).fit(X, y, tasks=tasks)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.1))
nodes = {
    r"$\mathbf{\omega}$": (1.2, -1.9),
    r"$\mathbf{e}$": (2.7, -1.9),
    r"$\tau$": (4.2, -1.9),
    r"$\mathbf{e}_t$": (2.7, 0.0),
    r"$\mathbf{a}_t$": (0.0, 1.5),
    r"$\mathbf{G}_t$": (1.35, 1.5),
    r"$\mathbf{y}_t$": (2.7, 1.5),
    r"$b_t$": (4.05, 1.5),
}
omega, common, tau, weights, a, g, target, b = nodes
edges = [
    (omega, common),
    (common, weights),
    (tau, weights),
    (a, g),
    (g, target),
    (weights, target),
    (b, target),
]
plate = ("$T$ tasks", (-0.65, -0.65, 4.7, 2.15), "lower left")
draw_model(left, nodes, edges, [plate], {target}, {weights, common})
left.set_title("Weights of tasks around common ones", fontsize="medium")

rows = np.arange(8)
styles = [
    (
        alone,
        -0.18,
        {"marker": "o", "color": GREY, "markersize": 5, "markerfacecolor": "white"},
        "a task alone",
    ),
    (model.kernel_weights_, 0.18, {"marker": "D", "color": BLUE, "markersize": 4}, "a task among all"),
]
for found, shift, style, label in styles:
    right.plot(found.ravel(), np.tile(rows + shift, 8), linestyle="none", label=label, **style)
style = {"color": ORANGE, "markersize": 19, "markeredgewidth": 3, "zorder": 1}
right.plot(model.common_kernel_weights_, rows, "|", label="common", **style)
right.set(xlabel="kernel weight", ylim=(7.5, -0.5))
right.set_yticks(rows, views)
spread = [found.std(axis=0).mean() for found in (alone, model.kernel_weights_)]
finding = f"Weights of tasks alone differ by {spread[0]:.2f},"
right.set_title(f"{finding}\nof tasks among all by {spread[1]:.2f}", fontsize="medium")
right.legend(loc="lower right", frameon=False).legend_handles[-1].set_markersize(11)
tidy(right, "x")
