"""The model of several targets, and kernel shares from each target alone and from all together."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREY, LIGHT, ORANGE, draw_model, tidy

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.kernels import Linear

rng = np.random.default_rng(0)
shares, noise = np.array([0.5, 0.35, 0.15, 0.0]), np.array([0.2, 1.0, 1.0, 1.0])
X = rng.normal(size=(40, 12))
views = {f"view {m + 1}": list(range(3 * m, 3 * m + 3)) for m in range(4)}
parts = np.stack(
    [X[:, columns] @ rng.normal(size=(3, 4)) for columns in views.values()]
)  # view, sample, target
parts /= parts.std(axis=1, keepdims=True)
score = np.tensordot(shares, parts, axes=1)
y = score / score.std(axis=0) + noise * rng.normal(size=score.shape)

bank = KernelBank(Linear(), views=views, normalize="trace")
alone = np.stack([BEMKLRegressor(bank).fit(X, target).kernel_shares_ for target in y.T])
together = BEMKLRegressor(bank).fit(X, y).kernel_shares_

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.1))
nodes = {
    r"$\mathbf{\lambda}_c$": (0.0, 1.5),
    r"$\mathbf{a}_c$": (0.0, 0.0),
    r"$\upsilon_c$": (1.5, 1.5),
    r"$\mathbf{G}_c$": (1.5, 0.0),
    r"$\varepsilon_c$": (3.0, 1.5),
    r"$\mathbf{y}_c$": (3.0, 0.0),
    r"$b_c$": (4.2, 0.0),
    r"$\gamma_c$": (4.2, 1.5),
    r"$\mathbf{e}$": (3.0, -1.6),
    r"$\mathbf{\omega}$": (1.5, -1.6),
}
precision, a, upsilon, g, epsilon, target, b, gamma, e, omega = nodes
edges = [(precision, a), (a, g), (upsilon, g), (g, target), (epsilon, target), (gamma, b), (b, target)]
plate = ("$K$ targets", (-0.65, -0.95, 4.85, 2.1), "lower left")
draw_model(left, nodes, [*edges, (omega, e), (e, target)], [plate], {target}, {e})
left.set_title("Weights are common, noise is not", fontsize="medium")

rows = np.arange(len(shares))
right.barh(rows, shares, height=0.7, color=LIGHT, edgecolor=GREY, label="true")
right.plot(alone[0], rows, "s", color=BLUE, markersize=7, label="precise target alone")
right.plot(alone[1:].T, np.tile(rows, (3, 1)).T, "x", color=BLUE, markersize=7)
right.plot([], [], "x", color=BLUE, markersize=7, label="noisy targets alone")
right.plot(together, rows, "o", color=ORANGE, markersize=6, label="all together")
right.set(xlabel="share of the score", xlim=(-0.02, 0.75), ylim=(5.6, -0.5))
right.set_yticks(rows, views)
errors = np.abs(alone - shares).mean(axis=1)
finding = f"All together miss shares by {np.abs(together - shares).mean():.2f} on average,"
right.set_title(f"{finding}\nthe noisy targets alone by {errors[1:].mean():.2f}", fontsize="medium")
right.legend(loc="lower right", frameon=False, fontsize="small")
tidy(right, "x")
