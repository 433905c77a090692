"""
Predictive bands of a regression
================================

A curve is measured with noise, and not at all in the middle. Three Gaussian kernels of different widths share the
work. The band should hold 95 % of new measurements; the title says how many it holds. In the gap the model
takes the curve that its kernels suggest, and is too sure of it: believe a band among training samples only.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

NOISE = 0.2


def curve(x):
    return np.sin(3 * x) + 0.5 * x


rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -0.8, 60), rng.uniform(0.8, 3, 60)])
y = curve(x) + NOISE * rng.normal(size=len(x))
bank = KernelBank([Gaussian(width=0.3), Gaussian(width=1), Gaussian(width=3)])
model = BEMKLRegressor(bank, tol=1e-5).fit(x[:, None], y)

grid = np.linspace(-3, 3, 601)
mean, std = model.predict(grid[:, None], return_std=True)
measured = curve(grid) + NOISE * rng.normal(size=len(grid))
inside = np.abs(measured - mean) < 1.96 * std
gap = np.abs(grid) < 0.8
held, held_in_gap = 100 * inside[~gap].mean(), 100 * inside[gap].mean()
wider = std[gap].max() / std[~gap].mean()

figure, ax = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
ax.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, color="#B9D3E8", label="95 % band")
ax.plot(grid, mean, color="#0072B2", linewidth=1.8, label="predictive mean")
ax.plot(grid, curve(grid), color="black", linestyle="--", linewidth=1.2, label="truth")
ax.plot(x, y, color="#D55E00", marker="o", markersize=3.5, linestyle="", label="training samples")
ax.set_xlabel("feature (no unit)")
ax.set_ylabel("target (no unit)")
ax.set_title(
    f"The 95 % band holds {held:.0f} % of new measurements among training samples\n"
    f"and {held_in_gap:.0f} % in the gap, where it is {wider:.1f} times as wide",
    loc="left",
    fontsize="medium",
)
_ = ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.15))
