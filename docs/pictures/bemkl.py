"""The model of BEMKL, and the kernel shares that a fit finds in data whose shares are known."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, GREY, LIGHT, ORANGE, draw_model, tidy

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import make_multiview
from bayesmkl.kernels import Gaussian

sample = make_multiview(200, kernel_weights=(1.0, 0.6, 0.0, 0.0), random_state=2)
bank = KernelBank(Gaussian(width=2**0.5), views=sample.views)
found = {}
for prior in ("nonsparse", "sparse"):
    model = BEMKLClassifier(bank, kernel_prior=prior, intermediate_scale=1.0)
    found[prior] = model.fit(sample.data, sample.target).kernel_shares_

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1.45, 1))
nodes = {
    r"$\mathbf{\lambda}$": (0.0, 3.7),
    r"$\mathbf{a}$": (0.0, 2.4),
    r"$\mathbf{k}_{m,i}$": (2.25, 3.7),
    r"$g_i^m$": (2.25, 2.4),
    r"$\omega_m$": (1.15, 0.85),
    r"$e_m$": (2.25, 0.85),
    r"$f_i$": (3.9, 2.4),
    r"$y_i$": (5.2, 2.4),
    r"$b$": (3.9, 0.85),
    r"$\gamma$": (5.2, 0.85),
}
lam, a, k, g, omega, e, f, y, b, gamma = nodes
edges = [(lam, a), (a, g), (k, g), (omega, e), (e, f), (g, f), (gamma, b), (b, f), (f, y)]
plates = [
    ("$P$ kernels", (0.6, -0.05, 2.85, 4.3), "lower right"),
    ("$N$ samples", (1.65, 1.55, 5.75, 4.45), "upper right"),
]
draw_model(left, nodes, edges, plates, observed={k, y})
left.set_title("The model: grey is observed", fontsize="medium")

rows = np.arange(len(sample.shares))
right.barh(rows, sample.shares, height=0.62, color=LIGHT, edgecolor=GREY, label="true")
for (prior, shares), marker, color in zip(found.items(), "os", (BLUE, ORANGE), strict=True):
    right.plot(shares, rows, marker, color=color, markersize=7, label=f"found, {prior} prior")
lost = [f"{100 * shares[sample.shares == 0].sum():.0f} %" for shares in found.values()]
right.set(xlabel="share of the score", xlim=(-0.02, 0.75), ylim=(5.3, -0.5))
right.set_yticks(rows, [f"kernel {m + 1}" for m in rows])
right.set_title(
    f"Kernels that play no part get\n{lost[0]} of the score; if sparse, {lost[1]}", fontsize="medium"
)
right.legend(loc="lower right", frameon=False)
tidy(right, "x")
