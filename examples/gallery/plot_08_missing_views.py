"""
Fewer views, wider intervals
============================

Three sensors see the same state, and each is lost in three samples of ten, in training and afterwards. The model
averages over what an absent view may have said. Boxes are the predictive standard deviations of new samples, diamonds
the errors that were made: where the two agree, the model knows how much a lost view costs. See
:doc:`/guide/missing`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(1)
state = rng.normal(size=(1200, 2))
X = np.hstack([state, state, state]) + 0.4 * rng.normal(size=(1200, 6))
y = np.sin(2 * state[:, 0]) + state[:, 1] + 0.1 * rng.normal(size=1200)
lost = rng.random(size=(1200, 3)) < 0.3
lost[lost.all(axis=1)] = False
X[np.repeat(lost, 2, axis=1)] = np.nan

train, new = slice(0, 300), slice(300, 1200)
bank = KernelBank(Gaussian(width=1), views={"sonar": [0, 1], "radar": [2, 3], "camera": [4, 5]})
model = BEMKLRegressor(bank, missing_views="integrate", tol=1e-5).fit(X[train], y[train])
mean, std = model.predict(X[new], return_std=True)

# %%
# New samples by the number of views that they lack:

n_lost = lost[new].sum(axis=1)
rows = [n_lost == n for n in range(3)]
errors = [np.sqrt(np.mean((y[new] - mean)[some] ** 2)) for some in rows]
said = [np.sqrt(np.mean(std[some] ** 2)) for some in rows]
inside = np.mean(np.abs(y[new] - mean) < 1.96 * std)

figure, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
ax.boxplot(
    [std[some] for some in rows],
    positions=range(3),
    widths=0.5,
    patch_artist=True,
    showfliers=False,
    boxprops={"facecolor": "#B9D3E8"},
    medianprops={"color": "black"},
)
ax.plot(
    range(3), errors, color="#D55E00", marker="D", linestyle="", markersize=8, label="root mean square error"
)
ax.set_xticks(range(3), [f"{n} lost\n({some.sum()} samples)" for n, some in enumerate(rows)])
ax.set_xlabel("views that a new sample lacks, of three")
ax.set_ylabel("predictive standard deviation (units of the target)")
ax.set_ylim(bottom=0.0)
ax.set_title(
    f"With two views lost intervals are {said[2] / said[0]:.1f} times as wide and errors {errors[2] / errors[0]:.1f} "
    f"times as large;\n{100 * inside:.0f} % of all 95 % intervals hold",
    loc="left",
    fontsize="medium",
)
_ = ax.legend(frameon=False, loc="upper left")
