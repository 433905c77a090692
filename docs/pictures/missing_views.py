"""Intermediate outputs of views that were lost, as expected from the others, and the errors that follow."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, DARK, GREEN, ORANGE, tidy
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
state = rng.normal(size=(1000, 2))
full = np.hstack([state, state, state]) + 0.4 * rng.normal(size=(1000, 6))
y = np.sin(2 * state[:, 0]) + state[:, 1] + 0.1 * rng.normal(size=1000)
lost = rng.random(size=(1000, 3)) < 0.3
lost[lost.all(axis=1)] = False
X = np.where(np.repeat(lost, 2, axis=1), np.nan, full)
train, new = slice(0, 200), slice(200, 1000)

bank = KernelBank(Gaussian(width=1), views={"sonar": [0, 1], "radar": [2, 3], "camera": [4, 5]})
model = BEMKLRegressor(bank, missing_views="integrate").fit(X[train], y[train])
filled = make_pipeline(SimpleImputer(), BEMKLRegressor(bank)).fit(X[train], y[train])

outputs = model.posterior_.intermediate  # with expectations in the place of what is absent
moments = outputs.absent.moments
rows = np.nan_to_num(model.kernel_bank_.transform(full[train]))  # what the lost views would have said
said = np.einsum("ijm,j->im", rows - moments.center.T, model.dual_coef_)
expected, absent = outputs.mean[0].T, lost[train]

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.1))
ends = np.array([said[absent].min(), said[absent].max()])
left.plot(ends, ends, color=DARK, linewidth=1)
for m, (view, marker, color) in enumerate(zip(bank.views, "osD", (BLUE, ORANGE, GREEN), strict=True)):
    gone = absent[:, m]
    left.plot(said[gone, m], expected[gone, m], marker, color=color, markersize=4, label=view)
agreement = np.corrcoef(said[absent], expected[absent])[0, 1]
left.set(xlabel="what its kernel would have said", ylabel="expected from the other views")
left.set_title(f"Outputs of a view that was lost:\ncorrelation {agreement:.2f}", fontsize="medium")
left.legend(frameon=False, fontsize="small", handletextpad=0.1)
tidy(left)

counts, n_lost = np.arange(3), lost[new].sum(axis=1)
error, stated = np.empty((2, 3)), np.empty((2, 3))
for which, fit in enumerate((model, filled)):
    mean, std = fit.predict(X[new], return_std=True)
    for n in counts:
        error[which, n] = np.sqrt(np.mean((mean - y[new])[n_lost == n] ** 2))
        stated[which, n] = std[n_lost == n].mean()
for which, (color, marker, name) in enumerate(
    [(BLUE, "o", "integrated"), (ORANGE, "s", "filled with means")]
):
    right.plot(counts, error[which], marker, color=color, markersize=8, label=f"{name}: error (rmse)")
    right.plot(
        counts, stated[which], "--" if which else "-", color=color, linewidth=2, label="as predicted (sd)"
    )
right.set(
    xlabel="views that a new sample lost",
    ylabel="error, in units of the target",
    xticks=counts,
    ylim=(0, 1.15),
    xlim=(-0.2, 2.2),
)
title = "\n".join(
    f"{who}: error {error[which, 2]:.2f}, predicted {stated[which, 2]:.2f}"
    for which, who in enumerate(("Two views lost", "Filled by means"))
)
right.set_title(title, fontsize="medium")
right.legend(loc="lower right", frameon=False, fontsize="small")
tidy(right, "y")
