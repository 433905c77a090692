"""Weights of two similar kernels restricted to be positive, their product, and the weights of two fits."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, DARK, ORANGE, tidy
from scipy.stats import truncnorm
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.datasets import load_diabetes
from bayesmkl.kernels import Gaussian

precision = np.array([[16.0, 14.0], [14.0, 16.0]])  # Λ: well known is the sum
pull = precision @ [0.5, 0.5]
scale, mean = 1 / np.sqrt(precision.diagonal()), np.array([0.5, 0.5])
for _ in range(100):  # weight after weight, as in the algorithm
    for m, other in ((0, 1), (1, 0)):
        location = (pull[m] - precision[m, other] * mean[other]) / precision[m, m]
        mean[m] = truncnorm.mean(-location / scale[m], np.inf, location, scale[m])
axis = np.linspace(0, 2.5, 251)
weights = np.stack(np.meshgrid(axis, axis))
exact = np.exp(
    np.tensordot(pull, weights, 1) - 0.5 * (weights * np.tensordot(precision, weights, 1)).sum(axis=0)
)
locations = (pull - precision[[0, 1], [1, 0]] * mean[::-1]) / precision.diagonal()
product = np.exp(-0.5 * (((weights.T - locations) / scale) ** 2).sum(axis=2))
deviations = []
for density in (exact, product):
    marginal = density.sum(axis=0) / density.sum()
    deviations.append(np.sqrt(marginal @ axis**2 - (marginal @ axis) ** 2))

X, y = load_diabetes(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[:200], y[:200]
views = {"age": [0], "sex": [1], "body mass": [2], "pressure": [3], "serum": [4, 5, 6, 7, 8, 9]}
bank = KernelBank(Gaussian(width=2), views, normalize="trace")
fits = [BEMKLRegressor(bank, nonnegative=restricted).fit(X, y) for restricted in (False, True)]

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.1))
left.contourf(axis, axis, exact / exact.max(), levels=[0.05, 0.2, 0.4, 0.6, 0.8, 1], cmap="Greys", vmax=1.9)
left.contour(axis, axis, product / product.max(), levels=[0.05, 0.4, 0.8], colors=ORANGE, linewidths=2)
left.axhline(0, color=DARK, linewidth=1)
left.axvline(0, color=DARK, linewidth=1)
ticks = {"xticks": [0, 0.5, 1, 1.5], "yticks": [0, 0.5, 1, 1.5]}
left.set(
    xlim=(-0.1, 1.6), ylim=(-0.1, 1.6), aspect="equal", xlabel="first weight", ylabel="second weight", **ticks
)
finding = f"A weight is known to ± {deviations[0]:.2f} (grey),"
left.set_title(f"{finding}\nto ± {deviations[1]:.2f} says the product (lines)", fontsize="medium")

rows = np.arange(len(views))
right.axvline(0, color=DARK, linewidth=1)
styles = [(-0.13, "o", BLUE, "plain"), (0.13, "s", ORANGE, "nonnegative")]
for fit, (shift, marker, color, label) in zip(fits, styles, strict=True):
    spread = 2 * fit.kernel_weights_std_
    style = {"fmt": marker, "color": color, "capsize": 3, "label": label}
    right.errorbar(fit.kernel_weights_, rows + shift, xerr=spread, **style)
right.set(xlabel="kernel weight ± 2 sd", ylim=(4.5, -0.5))
right.set_yticks(rows, views)
low = int(fits[0].kernel_weights_.argmin())
before, after = (f"{fit.kernel_weights_[low]:.2f}".replace("-", "−") for fit in fits)
right.set_title(
    f"The weight of {list(views)[low]}, {before},\nbecomes small and positive, {after}", fontsize="medium"
)
right.legend(loc="upper right", frameon=False)
tidy(right, "x")
