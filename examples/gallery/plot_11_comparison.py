"""
Which differences are real
==========================

Four ways to combine coarse views of the digits 3, 5, 8 and 9, and three single views, fitted to the same ten splits.
Training parts of splits share most of their samples, so that a plain t-test would find too many differences. The
second figure has posterior probabilities, corrected for that, that the accuracy of one model is higher than that of
another by more than one point. See :doc:`/guide/comparing`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.discriminative import EasyMKLClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.plots import plot_pairwise, plot_scores
from bayesmkl.kernels import Gaussian

digits = load_digits_views()
some = np.flatnonzero(np.isin(digits.target, [3, 5, 8, 9]))[:160]
views = {name: digits.views[name] for name in ("rows", "columns", "fourier", "quadrants")}
bank = KernelBank(Gaussian(width=4), views=views)
models = {
    "BEMKL": BEMKLClassifier(bank, intermediate_scale=1.0, tol=1e-2),
    "SimpleMKL": SimpleMKLClassifier(bank),
    "EasyMKL": EasyMKLClassifier(bank),
    "uniform": UniformMKLClassifier(bank),
}
for view in ("rows", "columns", "fourier"):
    single = KernelBank(Gaussian(width=4), views={view: views[view]})
    models[f"{view} only"] = UniformMKLClassifier(single)

found = compare_models(
    {name: make_pipeline(StandardScaler(), model) for name, model in models.items()},
    datasets={"digits": (digits.data[some], digits.target[some])},
    cv=10,
    scoring=["accuracy"],
)
pairs = found.significance(test="bayesian")
means = found.scores().mean()

figure, ax = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
plot_scores(found, ax=ax)
ax.set_title(f"Highest mean accuracy: {means.idxmax()}, {means.max():.3f}", loc="left", fontsize="medium")
_ = ax.set_ylabel("model")

# %%
# Pair by pair
# ------------
# A pair is decided where one of the two probabilities is above 95 %.

decided = (pairs[["p_first", "p_second"]].max(axis=1) > 0.95).sum()
figure, ax = plt.subplots(figsize=(6.4, 6.4), layout="constrained")
plot_pairwise(found, test="bayesian", ax=ax)
ax.set_title(
    f"{decided} of {len(pairs)} pairs differ by more than a point, with a probability over 95 %",
    loc="left",
    fontsize="medium",
)
_ = ax.set_ylabel("model of the row")
