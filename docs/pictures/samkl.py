"""Which samples a kernel misleads, and for which SAMKL switches it off."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from _drawing import ORANGE
from matplotlib.colors import ListedColormap

from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative import SAMKLClassifier

sample = make_corrupted(120, corruption="kernels", fraction=0.3, random_state=0)
train, new = slice(0, 60), slice(60, 120)
K, K_new = sample.kernels[train, train], sample.kernels[new, train]
y, y_new = sample.target[train], sample.target[new]
order = np.argsort(y, kind="stable")
corrupted = sample.corrupted[train]
warnings.filterwarnings(
    "ignore", ".* predicts 1 for all training samples"
)  # with a budget of two, as the page says
panels = [("truly misled", corrupted, f"{100 * corrupted.mean():.0f} % of the pairs")]
for budget in (1, 2):
    model = SAMKLClassifier("precomputed", max_switches=budget, ties="largest", fallback=False).fit(K, y)
    off = ~model.kernel_switches_
    hit = 100 * (off & corrupted).sum() / off.sum()
    accuracy = 100 * model.score(K_new, y_new)
    panels.append((f"off, $m_0$ = {budget}", off, f"{hit:.0f} % of these misled\naccuracy {accuracy:.0f} %"))

marks = ListedColormap(["#E8E8E8", "#0B3C6F"])
plt.rc("font", size=11)
fig, axes = plt.subplots(1, 3, figsize=(7, 3.9), layout="constrained", sharey=True)
for ax, (title, marked, text) in zip(axes, panels, strict=True):
    ax.imshow(marked[order], cmap=marks, aspect="auto", interpolation="nearest")
    ax.axhline((y < 0).sum() - 0.5, color=ORANGE, linewidth=2)
    ax.set_title(f"{title}\n{text}", fontsize=11, loc="left")
    ax.set(xlabel="kernel", xticks=range(8), xticklabels=range(1, 9))
axes[0].set_yticks([(y < 0).sum() / 2, (y < 0).sum() + (y > 0).sum() / 2], ["−", "+"])
axes[0].set_ylabel("samples by class")
fig.suptitle("Most kernels are switched off where they do not mislead", x=0.02, ha="left", fontsize=12)
