"""Where the kernel weights stand in the models of several classes, and their shares in the wine data."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREEN, ORANGE, PINK, draw_model, tidy
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_wine
from bayesmkl.kernels import Gaussian

X, y = load_wine(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[::2], y[::2]
views = {"acids": [0, 1, 2, 3, 4], "phenols": [5, 6, 7, 8], "color": [9, 10, 11, 12]}
bank = KernelBank(Gaussian(width=2), views)
separate = BEMKLClassifier(bank, multiclass="one-versus-all", intermediate_scale=1.0).fit(X, y).kernel_shares_
shared = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X, y).kernel_shares_

figure = plt.figure(figsize=(7, 3.5), layout="constrained")
grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25))
a, g, e, f, label = (
    r"$\mathbf{a}_c$",
    r"$\mathbf{G}_c$",
    r"$\mathbf{e}$",
    r"$\mathbf{f}_c$",
    r"$\mathbf{y}_c$",
)
chain = {a: (0, 0), g: (1.3, 0), f: (2.6, 0), label: (3.9, 0)}
for row, title in enumerate(("One-versus-all", "Shared weights")):
    ax = figure.add_subplot(grid[row, 0])
    weights = r"$\mathbf{e}_c$" if row == 0 else e
    nodes = chain | {weights: (2.6, 1.25) if row == 0 else (2.6, 1.5)}
    plate = ("$K$ classes", (-0.6, -0.6, 4.5, 1.85 if row == 0 else 0.95), "upper left")
    draw_model(ax, nodes, [(a, g), (g, f), (weights, f), (f, label)], [plate], {label}, {weights})
    ax.set_title(title, fontsize="medium")

ax = figure.add_subplot(grid[:, 1])
rows = np.arange(len(views))
for c, (shares, marker, color) in enumerate(zip(separate, "osD", (BLUE, GREEN, PINK), strict=True)):
    ax.plot(shares, rows, marker, color=color, markersize=7, label=f"class {c} against the rest")
ax.plot(
    shared, rows, "|", color=ORANGE, markersize=30, markeredgewidth=3, label="all classes, shared", zorder=1
)
ax.set(xlabel="share of the score", xlim=(-0.02, 0.8), ylim=(4.4, -0.5))
ax.set_yticks(rows, views)
view = int(np.ptp(separate, axis=0).argmax())
low, high = separate[:, view].min(), separate[:, view].max()
finding = f"The share of {list(views)[view]} is {low:.2f} to {high:.2f} class by class;"
ax.set_title(f"{finding}\nshared weights give it {shared[view]:.2f} in all", fontsize="medium")
ax.legend(loc="lower right", frameon=False).legend_handles[-1].set_markersize(11)
tidy(ax, "x")
