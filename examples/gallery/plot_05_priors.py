"""
Priors of the kernel weights: from all kernels to few
=====================================================

Eight views were made, of which three matter. Their shares are known. The precision of every kernel weight has the
prior :math:`\\mathrm{Gamma}(c, c)`. From the right to the left :math:`c` falls from one, the default ("nonsparse"),
to :math:`10^{-10}` ("sparse"). Weights on the simplex (Dirichlet) and weights that are switched on or off (spike and
slab) are sampled by NUTS, which takes longer. See :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import Gamma
from bayesmkl.datasets import make_multiview
from bayesmkl.kernels import Gaussian

TRUE = (1.0, 0.6, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
CONCENTRATIONS = 10.0 ** np.array([-10, -8, -6, -4, -3, -2, -1, 0])

sample = make_multiview(200, kernel_weights=TRUE, random_state=0)
bank = KernelBank(Gaussian(width=1.4), views=sample.views)
shares = np.array(
    [
        BEMKLClassifier(bank, kernel_prior=Gamma(c, c), intermediate_scale=1.0, tol=1e-4)
        .fit(sample.data, sample.target)
        .kernel_shares_
        for c in CONCENTRATIONS
    ]
)

figure, ax = plt.subplots(figsize=(7.4, 4.4), layout="constrained")
looks = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D")]
for m, (color, marker) in enumerate(looks):
    ax.plot(CONCENTRATIONS, 100 * shares[:, m], color=color, marker=marker, label=f"view {m + 1}")
    ax.axhline(100 * sample.shares[m], color=color, linestyle=":", linewidth=1.5)
rest = ax.plot(CONCENTRATIONS, 100 * shares[:, 3:], color="#777777", marker="x", linewidth=0.9)
rest[0].set_label("views without effect")
ax.plot([], [], color="black", linestyle=":", label="true shares")
ax.set_xscale("log")
ax.set_xlabel("c of the prior Gamma(c, c): sparse at the left, nonsparse at the right")
ax.set_ylabel("share of the score (%)")
sparse, *_, nonsparse = 100 * shares[:, 3:].sum(axis=1)
ax.set_title(
    f"Views without effect get {nonsparse:.0f} % of the score by the nonsparse prior, {sparse:.0f} % by the sparse",
    loc="left",
    fontsize="medium",
)
_ = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
