# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags
#     default_lexer: ipython3
#     formats: md:myst,py:percent
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Several omics layers of the same patients
#
# Expression, proteins, methylation and clinical variables of the same patients, some of whom lack a layer. Which
# layers predict the response to a treatment, and how sure is that? Which gene sets, and which genes inside them?
# What made the prediction of one patient, and which missing layer is worth measuring? Patients are simulated here,
# so that every answer can be compared with the truth; with your own tables, start at "Views and models". The guides:
# [missing views](../guide/missing_views.md), [posteriors](../guide/posterior.md),
# [contributions](../guide/contributions.md).

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.datasets import read_gene_sets
from bayesmkl.kernels import Linear
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import (
    contributions,
    feature_table,
    inclusion_table,
    plot_waterfall,
    relevance,
    value_of_view,
    view_table,
)

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_PATIENTS, N_NEW, N_FOLDS = (140, 60, 2) if FAST else (240, 100, 5)
LAYERS = Marginal(n_points=120, n_draws=200) if FAST else Marginal()
CHAINS = Marginal(n_points=1000, n_draws=500)
if FAST:
    CHAINS = Marginal(n_points=320, n_warmup=20, n_draws=150, n_chains=2)

# %% [markdown]
# ## The patients
#
# Eight pathways have twelve genes each, which follow the activity of their pathway. Proteins follow four of these
# activities and three immune factors that expression does not show. Methylation is opposed to the expression of a
# third of the genes, and has nothing to do with the response otherwise. The response comes from three genes of two
# pathways each, from the immune factors, and a little from the stage; the rest is noise.

# %%
PATHWAYS = ["REPAIR", "CYCLE", "APOPTOSIS", "GLYCOLYSIS", "MYC", "P53", "HYPOXIA", "INTERFERON"]
DRIVERS = {"REPAIR": ["REPAIR1", "REPAIR2", "REPAIR3"], "HYPOXIA": ["HYPOXIA1", "HYPOXIA2", "HYPOXIA3"]}
n, n_sets, size = N_PATIENTS + N_NEW, len(PATHWAYS), 12
rng = np.random.default_rng(SEED)


def named(values, prefix):
    return pd.DataFrame(values, columns=[f"{prefix}{k}" for k in range(1, values.shape[1] + 1)])


def standardized(values):
    return (values - values.mean()) / values.std()


activity = rng.normal(size=(n, n_sets))
immune = rng.normal(size=(n, 3))
genes = np.repeat(0.6 * activity, size, axis=1) + 0.8 * rng.normal(size=(n, n_sets * size))
expression = pd.DataFrame(genes, columns=[f"{name}{k}" for name in PATHWAYS for k in range(1, size + 1)])
factors = np.hstack([immune, activity[:, :4]])
proteins = named(factors @ rng.normal(size=(7, 30)) / 7**0.5 + 0.5 * rng.normal(size=(n, 30)), "protein")
methylation = named(-0.8 * genes[:, ::3] + 0.6 * rng.normal(size=(n, n_sets * size // 3)), "site")
clinical = pd.DataFrame({"age": rng.normal(60, 10, n), "stage": rng.integers(1, 5, n).astype(float)})

effects = {
    "expression": 0.7 * standardized(expression[DRIVERS["REPAIR"]].sum(axis=1))
    + 0.6 * standardized(expression[DRIVERS["HYPOXIA"]].sum(axis=1)),
    "proteins": 0.65 * standardized(immune.sum(axis=1)),
    "methylation": np.zeros(n),
    "clinical": -0.25 * standardized(clinical["stage"]),
}
score = sum(effects.values())
response = (score + 0.5 * rng.normal(size=n)).rename("response")

# %% [markdown]
# Three patients in ten have no proteins, a quarter no methylation. Absent layers are NaN in all of their columns.
# The last patients are new: their response is not used for fitting.

# %%
layers = {
    "expression": expression,
    "proteins": proteins,
    "methylation": methylation,
    "clinical": clinical,
}
views = {layer: list(table) for layer, table in layers.items()}
complete = pd.concat(layers.values(), axis=1)
lost = pd.DataFrame(rng.random((n, 2)) < [0.3, 0.25], columns=["proteins", "methylation"])
X = complete.copy()
for layer in lost:
    X.loc[lost[layer], views[layer]] = np.nan
known, new = np.arange(N_PATIENTS), np.arange(N_PATIENTS, n)
print(f"{N_PATIENTS} patients, {X.shape[1]} columns, {N_NEW} new patients")
lost.loc[known].value_counts().rename("patients").reset_index()


# %% [markdown]
# ## Views and models
#
# A layer is a view: a name and its columns. One linear kernel on each view is a ridge regression whose amount of
# shrinkage differs between views; `KernelBank(["linear", "rbf"], ...)` would add functions that are not linear.
# Columns are standardized as for ridge regression, so that the kernel is taken as it is (`normalize=None`). With
# `missing_views="integrate"` the model averages over what an absent layer may say, given the layers that are there.

# %%
def by_views(views, **options):
    model = GPMKLRegressor(KernelBank(Linear(), views, normalize=None), random_state=SEED, **options)
    return make_pipeline(StandardScaler().set_output(transform="pandas"), model)


model = by_views(views, missing_views="integrate", inference=LAYERS).fit(X.loc[known], response[known])
shares = view_table(model).set_index("view")
true_score = score[known]
shares["truth"] = {view: np.cov(part[known], true_score)[0, 1] / true_score.var() for view, part in effects.items()}
shares[["truth", "share", "share_lower", "share_upper"]].round(2)

# %% [markdown]
# The share of a view is its part of the variance of the score, with a 94 % interval. Shares sum to one whether
# anything is predicted or not. {func}`~bayesmkl.posterior.relevance` answers the other question: does the model
# predict left-out patients better than one without any layer, and better than one without this layer?

# %%
needed = relevance(model).set_index("without")
needed[["elpd_diff", "se", "verdict"]].round(1)

# %% [markdown]
# Verdicts are strict: "needed" asks for a difference of more than two standard errors, and a layer whose information
# others also have is not needed. Proteins are needed, since no other layer shows the immune factors. Methylation is
# not: what it shares with the response is in expression.
#
# How much of a layer do the others tell? This is what absent layers are filled in from:

# %%
predictable = dict(zip(views, model[-1].predictability_.round(2).tolist(), strict=True))
print(predictable)

# %%
fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
table = shares[::-1]
ax.hlines(table.index, table["share_lower"], table["share_upper"], linewidth=2, label="94 % interval")
ax.plot(table["share"], table.index, "o", label="mean")
ax.plot(table["truth"], table.index, "k|", markersize=14, label="truth")
ax.set(xlim=(-0.05, 1), xlabel="share of the score")
fig.legend(frameon=False, loc="outside right upper")
plt.show()

# %% [markdown]
# ## Compared with ridge regression
#
# The usual alternative joins all columns, imputes means and fits a ridge regression whose penalty is chosen by
# cross-validation. Another one drops the patients who lack a layer. Every patient is predicted by models that have
# not seen them, who may lack layers themselves:

# %%
ridge = make_pipeline(SimpleImputer(), StandardScaler(), RidgeCV(np.logspace(0, 5, 30)))
X_known, y_known = X.loc[known], response[known]
whole = ~lost.loc[known].any(axis=1).to_numpy()
predicted = pd.DataFrame(index=X_known.index, dtype=float, columns=["mean", "ridge", "whole", "model", "std"])
for train, test in KFold(N_FOLDS, shuffle=True, random_state=SEED).split(X_known):
    X_train, y_train, X_test = X_known.iloc[train], y_known.iloc[train], X_known.iloc[test]
    predicted.loc[test, "mean"] = y_train.mean()
    predicted.loc[test, "ridge"] = ridge.fit(X_train, y_train).predict(X_test)
    dropped = clone(model).fit(X_train[whole[train]], y_train[whole[train]])
    predicted.loc[test, "whole"] = dropped.predict(X_test)
    mean, std = clone(model).fit(X_train, y_train).predict(X_test, return_std=True)
    predicted.loc[test, ["model", "std"]] = np.column_stack([mean, std])
names = {
    "mean": "mean response",
    "ridge": "ridge, imputed",
    "whole": "this model, complete patients",
    "model": "this model, all patients",
}
rmse = predicted[list(names)].sub(y_known, axis=0).pow(2).mean().pow(0.5)
inside = ((y_known - predicted["model"]).abs() < 1.88 * predicted["std"]).mean()
print(f"inside their 94 % interval: {inside:.2f} of the patients")
rmse.rename(names).rename("RMSE").to_frame().round(3)

# %% [markdown]
# The effects are linear here, and ridge regression predicts nearly as well. What the model of layers adds is shares
# with intervals, and an interval for every patient. To leave out the patients who lack a layer costs accuracy.
#
# ## Which gene sets
#
# Pathways come as a GMT file, with a line for each set: its name, a description and its genes. Here each set also
# has three genes of the next one, since real sets overlap. {func}`~bayesmkl.datasets.read_gene_sets` finds the
# columns.

# %%
members = {
    name: [f"{name}{k}" for k in range(1, size + 1)] + [f"{after}{k}" for k in range(size - 2, size + 1)]
    for name, after in zip(PATHWAYS, PATHWAYS[1:] + PATHWAYS[:1], strict=True)
}
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "pathways.gmt"
    file.write_text("\n".join("\t".join([name, "simulated", *held]) for name, held in members.items()))
    sets = read_gene_sets(file, expression)
print(len(sets), "sets; REPAIR:", *sets["REPAIR"])

# %% [markdown]
# Each set is a view now. With many views the prior says that most are not in the model, and the question becomes
# which are. `kernel_prior="spike-slab"` gives every set a probability of being in;
# {func}`~bayesmkl.posterior.inclusion_table` marks a list whose expected part of false ones is at most `fdr`:

# %%
by_set = by_views(sets, kernel_prior="spike-slab", inference=CHAINS)
by_set.fit(expression.loc[known], response[known])
included = inclusion_table(by_set, fdr=0.1)
selected = included.loc[included["selected"], "view"].tolist()
included[["view", "prob_included", "prob_mcse", "fdr", "selected"]].head(4).round(2)

# %%
fig, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
bars = included[::-1]
ax.barh(bars["view"], bars["prob_included"], color=np.where(bars["view"].isin(list(DRIVERS)), "C1", "C0"))
ax.set(xlim=(0, 1), xlabel="probability that the set is in (orange: it truly is)")
plt.show()

# %% [markdown]
# ## Which genes of a set
#
# {func}`~bayesmkl.posterior.feature_table` lists the slopes of the score along the genes of each set. Three genes of
# each selected set act on the response:

# %%
slopes = feature_table(by_set, random_state=SEED)
slopes = slopes[slopes["view"].isin(selected)]
drivers = [gene for held in DRIVERS.values() for gene in held]
slopes["acts"] = slopes["feature"].isin(drivers)
slopes[["view", "feature", "mean", "lower", "upper", "acts"]].head(8).round(2)

# %% [markdown]
# Genes of a pathway are correlated, and a linear kernel divides their effect: slopes are shrunk, and the order of
# the first few genes is worth more than the size of any.

# %%
own = slopes[[feature.startswith(view) for view, feature in zip(slopes["view"], slopes["feature"], strict=True)]]
acting, passive = own.loc[own["acts"], "mean"], own.loc[~own["acts"], "mean"]
above_zero = own["lower"] > 0
print(f"mean slope of genes that act {acting.mean():.3f}, of the others {passive.mean():.3f}")
print(f"interval above zero: {above_zero[own['acts']].sum()} of {len(acting)} genes that act, ", end="")
print(f"{above_zero[~own['acts']].sum()} of {len(passive)} others")

# %% [markdown]
# ## One patient
#
# {func}`~bayesmkl.posterior.contributions` splits a prediction into what each layer adds, with intervals. This is
# the first of the new patients without proteins; the interval of that layer is as wide as what the others leave
# open.

# %%
parts = contributions(model, X.loc[new], random_state=SEED)
patient = new[lost.loc[new, "proteins"].to_numpy()][0]
fig, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
plot_waterfall(parts, sample=patient, ax=ax)
plt.show()

# %%
ends = parts["interval"].sel(part="proteins").transpose("quantile", "sample").to_numpy()
width = pd.Series(ends[1] - ends[0], index=new).groupby(lost.loc[new, "proteins"]).mean()
print(f"width of the interval of the proteins' part: {width[False]:.2f} if measured, {width[True]:.2f} if not")

# %% [markdown]
# ## What to measure next
#
# For patients who lack layers, {func}`~bayesmkl.posterior.value_of_view` says what would be expected to change if
# one were measured: the size of the change of the prediction, and the width of its interval.

# %%
value = value_of_view(model, X.loc[new])
expected = value.groupby("view")[["decision_change", "width_change"]].mean()
expected.round(2)

# %% [markdown]
# The lost layers of simulated patients can be looked up. By how much do predictions change when they are shown?

# %%
before = pd.Series(model.predict(X.loc[new]), index=new)
shown = {}
for layer in lost:
    X_shown = X.loc[new]
    X_shown.loc[lost.loc[new, layer], views[layer]] = complete[views[layer]]
    shown[layer] = (model.predict(X_shown) - before).abs()[lost.loc[new, layer]].mean()
expected["realized_change"] = pd.Series(shown)
expected.round(2)

# %% [markdown]
# If there is money for one assay of these patients, it belongs to proteins.
#
# ## What to take from it
#
# * **Name the layers as views, and integrate over those that are absent.** Patients who lack a layer stay in, in
#   training and in prediction.
# * **Read shares with their intervals, and `relevance` beside them**: how much of the score is of a layer, and
#   whether predictions need it, are two questions.
# * **For many sets of genes, take the spike-and-slab prior** and the list with its false discovery rate; look at
#   genes inside the sets of that list.
# * **Compare with ridge regression.** Where it predicts as well, the reason to take this model is what it says about
#   layers and patients.
#
# What the text says, checked:

# %% tags=["hide-cell"]
assert needed.loc["all", "verdict"] == "signal"
assert needed.drop(index="all")["elpd_diff"].idxmin() in ("methylation", "clinical")
assert needed.loc["proteins", "verdict"] == "needed"
assert shares["share"].idxmin() in ("methylation", "clinical")
assert ((shares["share_lower"] - 0.1 < shares["truth"]) & (shares["truth"] < shares["share_upper"] + 0.1)).all()
assert predictable["clinical"] + 0.1 < min(predictable["proteins"], predictable["methylation"])
assert rmse["model"] < 0.9 * rmse["mean"]
assert rmse["model"] < rmse["whole"]
assert abs(rmse["model"] / rmse["ridge"] - 1) < 0.15
assert inside > 0.85
assert set(selected) == set(DRIVERS)
assert acting.mean() > passive.abs().mean() + 0.03
assert above_zero[own["acts"]].mean() > above_zero[~own["acts"]].mean() + 0.3
assert width[True] > 1.3 * width[False]
assert expected.loc["proteins", "decision_change"] > 1.3 * expected.loc["methylation", "decision_change"]
assert expected.loc["proteins", "width_change"] < expected.loc["methylation", "width_change"]
assert shown["proteins"] > 1.5 * shown["methylation"]
assert 0.5 < shown["proteins"] / expected.loc["proteins", "decision_change"] < 2.0
