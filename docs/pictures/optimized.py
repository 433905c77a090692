"""Where bounds of different norms put the weights of two kernels, and how many of eight kernels they keep."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREEN, ORANGE, PINK
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.discriminative import LpMKLClassifier, SimpleMKLClassifier
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 8))
y = X @ np.array([1.5, 1.0, 0.7, 0.5, 0.3, 0.0, 0.0, 0.0]) + 0.3 * rng.normal(size=100) > 0
bank = KernelBank(Gaussian(width=1), views="each")
norms = (1, 4 / 3, 2, 4)


def weights(kernels, p):
    model = SimpleMKLClassifier("precomputed") if p == 1 else LpMKLClassifier("precomputed", p_norm=p)
    return model.fit(kernels, y).kernel_weights_


def objective(kernel):
    svm = SVC(kernel="precomputed").fit(kernel, y)
    dual, support = svm.dual_coef_[0], svm.support_
    return np.abs(dual).sum() - 0.5 * dual @ kernel[np.ix_(support, support)] @ dual


kernels = bank.fit_transform(X)
grid = np.linspace(0.02, 1.12, 23)
values = np.array([[objective(kernels[:, :, [0, 3]] @ [a, b]) for a in grid] for b in grid])

plt.rc("font", size=11)
fig, (plane, bars) = plt.subplots(1, 2, figsize=(7, 3.7), layout="constrained", width_ratios=[1, 1.15])
contours = plane.contour(grid, grid, values, levels=8, colors="#888888", linewidths=1)
plane.clabel(contours, fontsize=9, fmt="%.0f")
looks = list(zip(norms, (BLUE, ORANGE, GREEN, PINK), ("-", "--", "-.", ":"), "osD^", strict=True))
circle = np.array([np.cos(np.linspace(0, np.pi / 2, 200)), np.sin(np.linspace(0, np.pi / 2, 200))])
for p, color, line, marker in looks:
    ball = circle / np.linalg.norm(circle, ord=p, axis=0)
    best = weights(kernels[:, :, [0, 3]], p)
    plane.plot(*ball, line, color=color, linewidth=2)
    plane.plot(*best, marker, color=color, markersize=9, zorder=3)
plane.set(xlabel="weight of kernel 1", ylabel="weight of kernel 4")
plane.set(xlim=(0, 1.12), ylim=(0, 1.12), aspect="equal")
plane.set_title("Lowest J(d) on each norm's ball", fontsize=11, loc="left")
kept = []
for p, color, line, marker in looks:
    found = weights(kernels, p)
    kept.append(int((found > 1e-6 * found.max()).sum()))
    share = found / found.sum()
    bars.plot(range(1, 9), share, line, marker=marker, color=color, label=f"p = {p:.3g}")
bars.set(xlabel="kernel (6 to 8 are noise)", ylabel="weight (sum 1)", ylim=(0, None))
bars.set_title(f"Kernels in use: {kept[0]} (p = 1), {kept[-1]} (p = 4)", fontsize=11, loc="left")
bars.legend(frameon=False)
bars.spines[["top", "right"]].set_visible(False)
