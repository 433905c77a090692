"""
Which views tell which digit
============================

Images of digits are seen in six ways, from single pixels to the ink in each quadrant. With
``multiclass="one-versus-all"`` every digit has kernel weights of its own, and a row of the picture is the model of
one digit against all others. :doc:`/guide/which_model` compares this with weights that all classes share.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.kernels import Gaussian

digits = load_digits_views()
some = np.random.default_rng(0).permutation(len(digits.target))[:200]
X, y = StandardScaler().fit_transform(digits.data[some]), digits.target[some]
bank = KernelBank([Gaussian(width=6)], views=digits.views)
settings = {"kernel_prior": "sparse", "intermediate_scale": 1.0, "tol": 1e-3}
model = BEMKLClassifier(bank, multiclass="one-versus-all", **settings).fit(X, y)
shares = 100 * model.kernel_shares_  # a row per digit

figure, ax = plt.subplots(figsize=(7.4, 5.4), layout="constrained")
picture = ax.imshow(shares, cmap="cividis", vmin=0.0, vmax=shares.max(), aspect="auto")
for (k, m), share in np.ndenumerate(shares):
    ax.text(
        m,
        k,
        f"{share:.0f}",
        ha="center",
        va="center",
        color="black" if share > 0.5 * shares.max() else "white",
    )
ax.set_xticks(range(len(digits.views)), list(digits.views))
ax.set_yticks(range(10), model.classes_)
ax.set_xlabel("view")
ax.set_ylabel("digit against all others")
first, second = np.argsort(-shares.mean(axis=0))[:2]
names = list(digits.views)
ax.set_title(
    f"{names[first].capitalize()} and {names[second]} carry {shares[:, [first, second]].sum(axis=1).mean():.0f} % "
    "of the score of a digit, on average",
    loc="left",
    fontsize="medium",
)
_ = figure.colorbar(picture, ax=ax, label="share of the score (%)")
