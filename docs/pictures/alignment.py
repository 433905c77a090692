"""Centered kernels of three views, the target, and the combination that is aligned with it best."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl.datasets import load_wine
from bayesmkl.discriminative import AlignmentMKLClassifier
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.alignment import centered_alignment

X, y = load_wine(return_X_y=True)
X, y = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)
rows = np.concatenate([np.flatnonzero(y > 0)[:40], np.flatnonzero(y < 0)[::2][:40]])
X, y = X[rows], y[rows]
views = {"acids": slice(0, 5), "phenols": slice(5, 9), "color": slice(9, 13)}
bank = KernelBank(Gaussian(width=2), views=views)
model = AlignmentMKLClassifier(bank).fit(X, y)
kernels, combined, target = bank.fit_transform(X), model.combined_kernel(X), np.outer(y, y)

centering = np.eye(len(y)) - 1 / len(y)
single, together = centered_alignment(kernels, y), centered_alignment(combined, y)
panels = [
    (f"{view}\nalignment {a:.2f}\nweight {w:.2f}", kernels[:, :, m])
    for m, (view, a, w) in enumerate(zip(views, single, model.kernel_weights_, strict=True))
]
panels += [(f"combination\nalignment {together:.2f}\n", combined), ("target\nalignment 1\n", target)]

plt.rc("font", size=11)
fig, axes = plt.subplots(1, 5, figsize=(7, 3.3), layout="constrained")
for ax, (title, kernel) in zip(axes, panels, strict=True):
    entries = centering @ kernel @ centering
    entries *= len(y) / np.linalg.norm(entries)
    image = ax.imshow(entries, cmap="cividis", vmin=-2, vmax=2)
    ax.set_title(title, fontsize=11, loc="left")
    ax.set_xticks([20, 60], ["+", "−"])
    ax.set_yticks([])
axes[0].set_yticks([20, 60], ["+", "−"])
axes[0].set_ylabel("class")
fig.colorbar(image, ax=axes, label="entry (centered, mean square 1)", location="bottom", aspect=40)
title = f"Centered alignment: {single.max():.2f} of the best kernel, {together:.2f} of the combination"
fig.suptitle(title, x=0.02, ha="left", fontsize=12)
