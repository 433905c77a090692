"""
Kernels that act in their own part of the plane
===============================================

At the left classes meet along a line, at the right one class surrounds the other. LMKL learns a gate for every
kernel, a smooth function of the place, together with a support vector machine. The plane is tinted by the kernel
with the larger gate: where a linear kernel is enough, few samples have to be support points. See
:doc:`/guide/discriminative`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import KernelBank
from bayesmkl.discriminative import LMKLClassifier, UniformMKLClassifier, plot_decision, plot_gates
from bayesmkl.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
line = rng.uniform([-6.0, -2.0], [-1.0, 2.0], size=(150, 2))
inner = np.arange(150) % 2 == 1
radius = np.where(inner, 0.3 * np.abs(rng.normal(size=150)), rng.normal(1.1, 0.1, size=150))
angle = rng.uniform(0.0, 2.0 * np.pi, size=150)
ring = np.column_stack([2.5 + radius * np.cos(angle), radius * np.sin(angle)])
X = np.concatenate([line, ring])
y = np.where(np.concatenate([line[:, 1] > 0.0, inner]), "A", "B")

bank = KernelBank([Linear(), Gaussian(width=0.5)], normalize=None)
model = LMKLClassifier(bank, n_init=3, fallback=False, random_state=0).fit(X, y)
same = UniformMKLClassifier(bank).fit(X, y)

figure, ax = plt.subplots(figsize=(7.4, 5.4), layout="constrained")
plot_decision(model, X, y, ax=ax, resolution=100)
ax.set_title(
    f"Gates need {len(model.support_)} of {len(X)} samples as support points, equal weights {len(same.support_)}",
    loc="left",
    fontsize="medium",
)
ax.set_xlabel("first feature (no unit)")
_ = ax.set_ylabel("second feature (no unit)")

# %%
# Gates of the samples
# --------------------
# From left to right in the plane: where does one kernel take over from the other?

lead = model.gates_.argmax(axis=1)  # the kernel with the largest gate: 0 linear, 1 Gaussian
left = X[:, 0] < 0.0  # the line, the others are the ring

figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
plot_gates(model, order_by=X[:, 0], ax=ax)
ax.set_title(
    f"The linear kernel leads at {100 * (lead[left] == 0).mean():.0f} % of the line, "
    f"the Gaussian at {100 * (lead[~left] == 1).mean():.0f} % of the ring",
    loc="left",
    fontsize="medium",
)
ax.axvline(left.sum() - 0.5, color="#555555", linestyle="--", linewidth=1.0)
for text, place in (("line", left.sum() / 2), ("ring", (left.sum() + len(X)) / 2)):
    ax.text(place, 0.5, text, ha="center", fontsize="large")
_ = ax.set_xlabel("samples, sorted by the first feature (at the ticks)")
