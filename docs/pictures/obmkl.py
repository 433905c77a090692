"""Two kernels, the empirical optimal kernel, and how near their combinations come to it."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREEN, ORANGE
from sklearn.preprocessing import MinMaxScaler

from bayesmkl import KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative import OBMKLClassifier
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.alignment import empirical_optimal_kernel

X, y = load_wdbc(return_X_y=True)
X = MinMaxScaler((-1, 1)).fit_transform(X)
rows = np.concatenate([np.flatnonzero(y == label)[:40] for label in np.unique(y)])
X, y = X[rows], y[rows]
bank = KernelBank([Gaussian(width=0.3), Gaussian(width=2)])
kernels = bank.fit_transform(X)
optimal = empirical_optimal_kernel(kernels, y)


def distance(wide):
    combined = kernels @ [1 - wide, wide]
    return np.linalg.norm(combined - optimal) / np.linalg.norm(optimal)


wide = np.linspace(0, 1, 51)
models = {method: OBMKLClassifier(bank, method=method, C=10).fit(X, y) for method in ("ratio", "qp", "aqp")}

plt.rc("font", size=11)
fig = plt.figure(figsize=(7, 3.2), layout="constrained")
axes = fig.subplot_mosaic("nwox", width_ratios=[1, 1, 1, 1.75])
for name, title, kernel in (
    ("n", "narrow kernel", kernels[:, :, 0]),
    ("w", "wide kernel", kernels[:, :, 1]),
    ("o", r"$K_{opti}$", optimal),
):
    image = axes[name].imshow(kernel, cmap="cividis", vmin=0, vmax=1)
    axes[name].set_title(title, fontsize=11)
    axes[name].set_xticks([20, 60], ["+", "−"])
    axes[name].set_yticks([20, 60], ["+", "−"])
fig.colorbar(image, ax=[axes[name] for name in "nwo"], label="kernel value", location="bottom", aspect=30)
ax = axes["x"]
ax.plot(wide, [distance(w) for w in wide], color="#555555")
for (method, model), color, marker in zip(models.items(), (ORANGE, BLUE, GREEN), "^os", strict=True):
    w = model.kernel_weights_[1]
    ax.plot(w, distance(w), marker, color=color, markersize=9, label=f"{method}: {w:.2f}", zorder=3)
ax.set(xlabel="weight of the wide kernel", ylabel=r"distance to $K_{opti}$")
ax.legend(frameon=False, loc="upper center")
ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("The best entry for every pair, and weights that come near it", x=0.02, ha="left", fontsize=12)
