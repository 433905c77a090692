"""
How many landmarks are enough
=============================

The exact model compares every sample with all training samples. With landmarks it compares with a few centers
instead, and its time grows in proportion to the number of samples. A plane of two features is sooner covered with
centers than the space of images of 64 pixels. See :doc:`/guide/many_samples`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.kernels import Gaussian

NUMBERS = [8, 16, 32, 64, 128, 256]
N_TRAIN = 400

rng = np.random.default_rng(0)
plane = rng.uniform(0, 3, size=(2400, 2))
board = np.floor(plane).sum(axis=1) % 2  # the colors of nine squares
digits = load_digits_views()
order = rng.permutation(len(digits.target))
pixels, odd = digits.data[order][:, digits.views["pixels"]] / 16, digits.target[order] % 2


def losses(X, y, widths):
    """Return the loss on new samples for every number of landmarks, and last that of the exact model."""
    found = []
    for landmarks in [*NUMBERS, None]:
        bank = KernelBank([Gaussian(width=width) for width in widths], landmarks=landmarks)
        model = BEMKLClassifier(bank, intermediate_scale=1.0, tol=1e-4).fit(X[:N_TRAIN], y[:N_TRAIN])
        found.append(log_loss(y[N_TRAIN:], model.predict_proba(X[N_TRAIN:])))
    return np.array(found)


tasks = {
    "a board of nine squares (2 features)": losses(plane, board, [0.3, 1]),
    "odd digits (64 pixels)": losses(pixels, odd, [1, 2]),
}

# %%
# The level lines are the exact models.

figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
looks = [("#0072B2", "o", "--", 3.5), ("#D55E00", "s", ":", 2.0)]
enough = []
for (name, loss), (color, marker, level, width) in zip(tasks.items(), looks, strict=True):
    ax.plot(NUMBERS, loss[:-1], color=color, marker=marker, label=name)
    exact = f"exact: {loss[-1]:.3f} nats"
    ax.axhline(loss[-1], color=color, linestyle=level, linewidth=width, alpha=0.7, label=exact)
    near = [n for n, one in zip(NUMBERS, loss[:-1], strict=True) if one < loss[-1] + 0.05]
    enough.append(f"{near[0]} landmarks" if near else f"more than {NUMBERS[-1]}")
ax.set_xscale("log", base=2)
ax.set_xticks(NUMBERS, NUMBERS)
ax.set_ylim(bottom=0.0)
ax.set_xlabel("number of landmarks (logarithmic)")
ax.set_ylabel("log loss of new samples (nats)")
ax.set_title(
    f"To within 0.05 nats of the exact model: {enough[0]} for the board, {enough[1]} for digits",
    loc="left",
    fontsize="medium",
)
_ = ax.legend(frameon=False)
