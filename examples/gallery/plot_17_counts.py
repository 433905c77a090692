"""
Counts that vary more than chance
=================================

How many lymph nodes beyond the first has a breast cancer reached? The count of 250 women of the German breast cancer
study 2 by three views, with two likelihoods. A Poisson distribution cannot be as scattered as these counts are: it
takes scatter for signal, and its intervals of shares are too narrow. Leave-one-out densities find that out. See
:doc:`/guide/outcomes`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.datasets import load_gbsg2
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import view_table

N_TRAIN = 250
table, _ = load_gbsg2(return_X_y=True, as_frame=True)
table = table.sample(frac=1.0, random_state=0).reset_index(drop=True)
nodes = table["positive_nodes"].to_numpy() - 1  # all women of the study have one or more
receptors = ["progesterone_receptor", "estrogen_receptor"]
views = {
    "person": ["age", "postmenopausal"],
    "tumour": ["tumour_size", "tumour_grade"],
    "receptors": receptors,
}
X = table[[column for own in views.values() for column in own]].astype(float)
X[["tumour_size", *receptors]] = np.log1p(X[["tumour_size", *receptors]])
X = (X - X[:N_TRAIN].mean()) / X[:N_TRAIN].std()

bank, quick = KernelBank("auto", views=views, normalize="center"), Marginal(n_points=256, n_draws=500)
models = {
    likelihood: GPMKLRegressor(bank, likelihood=likelihood, inference=quick).fit(X[:N_TRAIN], nodes[:N_TRAIN])
    for likelihood in ("negative-binomial", "poisson")
}
gain = models["negative-binomial"].elpd_i_ - models["poisson"].elpd_i_

# %%
# Intervals of shares on the left are those of 94 %. On the right new women are put in five bins by the count that the
# negative binomial model expects, with means of their counts.

figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
for shift, (name, model) in zip((-0.1, 0.1), models.items(), strict=True):
    found = view_table(model).set_index("view").loc[list(views)]
    ends = [found["share"] - found["share_lower"], found["share_upper"] - found["share"]]
    axes[0].errorbar(np.arange(3) + shift, found["share"], yerr=ends, fmt="o", capsize=3, label=name)
axes[0].set_xticks(np.arange(3), list(views))
axes[0].set_xlabel("view")
axes[0].set_ylabel("share")
axes[0].set_ylim(0.0, 1.0)
axes[0].legend()
axes[0].set_title(
    f"{gain.sum():.0f} nats in favor of the negative binomial,\n"
    f"standard error {gain.std() * np.sqrt(len(gain)):.0f}",
    loc="left",
    fontsize="medium",
)

expected, known = models["negative-binomial"].predict(X[N_TRAIN:]), nodes[N_TRAIN:]
bins = np.array_split(np.argsort(expected), 5)
said, came = (np.array([values[rows].mean() for rows in bins]) for values in (expected, known))
error = [1.96 * known[rows].std() / np.sqrt(len(rows)) for rows in bins]
axes[1].errorbar(said, came, error, fmt="o", capsize=3)
axes[1].axline((4.0, 4.0), slope=1.0, color="grey", linewidth=1.0)
axes[1].set_xlabel("expected further nodes")
axes[1].set_ylabel("mean of the women")
_ = axes[1].set_title(f"{len(known)} new women", loc="left", fontsize="medium")
