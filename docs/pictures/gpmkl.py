"""Prior and posterior of two shares of the additive Gaussian process, and its intervals beside those of BEMKL."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, DARK, GREY, LIGHT, ORANGE, tidy

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank
from bayesmkl.datasets import make_multiview
from bayesmkl.gp import DirichletShares, Marginal
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import kernel_table

N_PRIOR = 2000


def variance_shares(parts):
    """Return shares of the variance, (n_draws, n_kernels), of parts (n_draws, n_kernels, n_samples)."""
    around = parts - parts.mean(axis=2, keepdims=True)
    covariance = np.einsum("dmi,di->dm", around, around.sum(axis=1))
    return covariance / covariance.sum(axis=1, keepdims=True)


sample = make_multiview(120, kernel_weights=(1.0, 0.6, 0.0, 0.0), random_state=2)
bank = KernelBank(Gaussian(width=2**0.5), views=sample.views)
process = GPMKLClassifier(bank, inference=Marginal(n_points=256)).fit(sample.data, sample.target)
plain = BEMKLClassifier(bank).fit(sample.data, sample.target)

kernels = np.moveaxis(bank.fit_transform(sample.data), 2, 0)
units = kernels.diagonal(axis1=1, axis2=2).mean(axis=1) - kernels.mean(axis=(1, 2))
truth = variance_shares((sample.kernel_weights[:, None] * (kernels @ sample.dual))[None])[0]
rng = np.random.default_rng(0)
roots = np.linalg.cholesky(kernels / units[:, None, None] + 1e-8 * np.eye(len(sample.data)))
functions = np.moveaxis(roots @ rng.standard_normal((*kernels.shape[:2], N_PRIOR)), 2, 0)
coordinates = rng.standard_normal((N_PRIOR, len(kernels) + 1))  # the first is that of the total
weights = np.array([DirichletShares().weights(u).values for u in coordinates])
prior = variance_shares(weights[:, :, None] * functions)
drawn = process.posterior_.shares

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1, 1.15))
bins = np.linspace(-0.2, 1.1, 66)
signal, noise = 0, 3
curves = [
    (prior[:, noise], {"color": LIGHT, "histtype": "stepfilled", "label": "prior of each view"}),
    (drawn[:, noise], {"color": ORANGE, "histtype": "step", "label": "view 4, pure noise"}),
    (drawn[:, signal], {"color": BLUE, "histtype": "step", "label": "view 1, signal"}),
]
for shares, style in curves:
    height = np.histogram(shares, bins)[0].max()
    left.hist(shares, bins, weights=np.full(len(shares), 1 / height), linewidth=1.6, **style)
left.set(xlabel="share of the variance of the score", xlim=(-0.2, 1.1), ylim=(0, 1.55), yticks=[])
left.set_ylabel("density, relative to the highest")
left.legend(loc="upper right", frameon=False)
before, after = (np.mean(shares[:, noise] > 0.1) for shares in (prior, drawn))
left.set_title(
    f"Probability that noise has more than a\ntenth: {before:.2f} before, {after:.2f} after the data",
    fontsize="medium",
)
left.spines["left"].set_visible(False)
tidy(left, "x")

rows = np.arange(len(kernels))
held = []
models = [
    (plain, sample.shares, -0.16, "s", GREY, "BEMKL (of standard deviations)"),
    (process, truth, 0.16, "o", BLUE, "GPMKL (of variance)"),
]
for model, true, shift, marker, color, label in models:
    table = kernel_table(model, shares=True).set_index("view").loc[list(sample.views)]
    lower, upper = table["share_lower"].to_numpy(), table["share_upper"].to_numpy()
    mean = table["share"].to_numpy()
    held.append(int(((lower <= true) & (true <= upper))[sample.kernel_weights > 0].sum()))
    style = {"fmt": marker, "color": color, "capsize": 3, "label": label}
    right.errorbar(mean, rows + shift, xerr=(mean - lower, upper - mean), **style)
    right.plot(true, rows + shift, "|", color=DARK, markersize=15, markeredgewidth=2, zorder=3)
right.plot([], [], "|", color=DARK, markersize=11, markeredgewidth=2, label="true")
right.set(xlabel="share, 94 % interval", xlim=(-0.06, 0.9), ylim=(4.9, -0.5))
right.set_yticks(rows, [f"view {m + 1}" for m in rows])
right.legend(loc="lower right", frameon=False, fontsize="small")
right.set_title(
    f"Intervals of the two views of signal that hold\nthe true share: BEMKL {held[0]}, GPMKL {held[1]}",
    fontsize="medium",
)
tidy(right, "x")
