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
# # Which group of measurements tells, and how surely?
#
# A pathologist measures the cell nuclei of a tumor: ten properties, each summarized over the cells of the sample by
# its mean, its standard error and its worst value. Three groups of columns, then, and three questions. Which group
# tells a malignant tumor from a benign one? How surely do 398 tumors say so? And would anything simpler do as well?

# %%
# %matplotlib inline
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.datasets import load_wdbc
from bayesmkl.evaluation import evaluate_classifier
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import (
    kernel_table,
    plot_posteriors,
    plot_reliability,
    refine_posterior,
    to_datatree,
)

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_DRAWS = 200 if FAST else 2000  # of the refined posterior

# %% [markdown]
# ## A table with groups of columns
#
# The data are those of the Wisconsin diagnostic breast cancer study, which scikit-learn ships. A target of 1 is
# malignant.

# %%
X, y = load_wdbc(return_X_y=True, as_frame=True)
groups = {"mean": X.columns[:10], "error": X.columns[10:20], "worst": X.columns[20:]}
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=SEED)
print(len(X_train), "tumors to learn from,", len(X_test), "kept for the test")
pd.DataFrame({name: list(columns) for name, columns in groups.items()})

# %% [markdown]
# ## Fit
#
# A {class}`~bayesmkl.kernels.KernelBank` says how tumors are compared: here by a Gaussian kernel on each group,
# three kernels in all. Standardize first: the width of a kernel is in the units of the columns, and two tumors are
# typically four to five standard deviations apart in ten of them.

# %%
scaler = StandardScaler().set_output(transform="pandas")


def bemkl(views):
    bank = KernelBank(Gaussian(width=4), views=views)
    return make_pipeline(clone(scaler), BEMKLClassifier(bank))


model = bemkl({name: list(columns) for name, columns in groups.items()})
model.fit(X_train, y_train)
print(model[-1].outcome_.value)
print(f"accuracy on the tumors that were kept: {model.score(X_test, y_test):.3f}")

# %% [markdown]
# ## Which group tells?
#
# The score of a tumor is a sum over kernels. The *share* of a kernel is its part of the variation of that score over
# the training tumors; shares sum to one. {func}`~bayesmkl.posterior.kernel_table` lists them with 94 % intervals.

# %%
columns = ["kernel", "share", "share_lower", "share_upper"]
kernel_table(model)[columns].round(2)

# %% [markdown]
# The worst values carry more than half of the score, and the intervals are narrow. They are too narrow: the closed
# form that made this posterior takes its parts as independent of each other, and is surer than it should be.
# {func}`~bayesmkl.posterior.refine_posterior` replaces it by draws of a short Gibbs run that starts from it.

# %%
refined = refine_posterior(model, n_draws=N_DRAWS, random_state=SEED)
kernel_table(refined)[columns].round(2)

# %% [markdown]
# The intervals are wider, and the worst values are still first, clear of the rest. Below them the two posteriors
# disagree.

# %%
fig, ax = plt.subplots(figsize=(8.4, 4.0), layout="constrained")
_ = plot_posteriors({"closed form": model, "refined": refined}, ax=ax)

# %% [markdown]
# How sure is it, then, that the worst values come first, and that the means come before the errors? Every draw from
# a posterior has an answer to such a question; count them.

# %%
orders = pd.DataFrame(index=["worst values first", "means before errors"])
for name, posterior in {"closed form": model, "refined": refined}.items():
    draws = to_datatree(posterior, random_state=SEED).posterior
    mean, error, worst = draws.kernel_shares.transpose("kernel", ...).values  # in the order of `groups`
    orders[name] = [np.mean((worst > mean) & (worst > error)), np.mean(mean > error)]
orders.round(2)

# %% [markdown]
# Both are sure of the first place. The closed form thinks that the means come second, the refined posterior that the
# errors do. Two answers, and a short Gibbs run is the better one, not a final one: leave the second place open.
#
# ## Predictions, with probabilities
#
# `predict` gives labels, `predict_proba` what they are worth. Here are the five tumors of which the model is least
# sure, and the five of which it is surest.

# %%
probability = model.predict_proba(X_test)[:, 1]
answers = pd.DataFrame({"P(malignant)": probability.round(3), "malignant": y_test.to_numpy() == 1})
answers["predicted"] = model.predict(X_test) == 1
order = np.argsort(np.abs(probability - 0.5))
answers.iloc[np.r_[order[:5], order[-5:]]]

# %% [markdown]
# Errors are among the tumors that the model calls doubtful. So a probability is of use in practice: send the
# doubtful ones to somebody who looks again.

# %%
doubtful = (probability > 0.05) & (probability < 0.95)
wrong = model.predict(X_test) != y_test.to_numpy()
errors = pd.DataFrame({"tumors": [(~doubtful).sum(), doubtful.sum()]}, index=["sure", "doubtful"])
errors["errors"] = [wrong[~doubtful].sum(), wrong[doubtful].sum()]
errors

# %% [markdown]
# Are the probabilities right? Put predictions of about the same size together, and count how many came true.
# Calibrated predictions lie on the diagonal, within the accuracy of the count.

# %%
for name, value in evaluate_classifier(model, X_test, y_test).items():
    print(f"{name:9} {value:.3f}")
fig, ax = plt.subplots(figsize=(4.6, 5.0), layout="constrained")
_ = plot_reliability(y_test, model.predict_proba(X_test), n_bins=5, ax=ax)

# %% [markdown]
# ## Save it, load it
#
# A model file holds arrays and names, no code. The loaded pipeline gives the same probabilities, bit for bit.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "tumors.skops"
    save_model(model, path)
    again = load_model(path)
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")
same = (again.predict_proba(X_test) == model.predict_proba(X_test)).all()
print("the same probabilities:", same)

# %% [markdown]
# ## Would anything simpler do?
#
# A plain support vector machine with its default parameters, on the same split: on all thirty columns, and on each
# group alone. BEMKL on each group alone is beside it.

# %%
svm = make_pipeline(StandardScaler(), SVC())
correct = {}
for name, chosen in {"all three": X.columns, **groups}.items():
    machine = model if name == "all three" else bemkl({name: list(chosen)}).fit(X_train[chosen], y_train)
    correct[name, "BEMKL"] = machine.predict(X_test[chosen]) == y_test
    correct[name, "SVM"] = svm.fit(X_train[chosen], y_train).predict(X_test[chosen]) == y_test
accuracy = pd.DataFrame(correct).mean().unstack()
accuracy.round(3)

# %%
fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
names = accuracy.sort_values("SVM", ascending=False).index
for offset, method, marker, color in ((-0.12, "BEMKL", "o", "#0072B2"), (0.12, "SVM", "s", "#D55E00")):
    counts = [binomtest(int(correct[name, method].sum()), len(y_test)) for name in names]
    ends = np.array([count.proportion_ci(0.94, method="wilson") for count in counts])
    middle = accuracy.loc[names, method].to_numpy()
    reach = np.abs(ends.T - middle)
    ax.errorbar(middle, np.arange(4) + offset, xerr=reach, fmt=marker, color=color, capsize=3, label=method)
ax.set_yticks(range(4), names)
ax.invert_yaxis()
ax.set(xlabel="accuracy on the tumors that were kept, with 94 % interval", ylabel="columns used")
ax.legend(frameon=False, loc="upper left")
gap = 100 * (accuracy.loc["all three"] - accuracy.loc["worst"]).abs().max()
_ = ax.set_title(f"The worst values alone come within {gap:.1f} points of all columns", loc="left")

# %% [markdown]
# And tumor by tumor, for the two that see all columns:

# %%
ours, theirs = correct["all three", "BEMKL"], correct["all three", "SVM"]
print("right for both         ", (ours & theirs).sum())
print("right for BEMKL only   ", (ours & ~theirs).sum())
print("right for the SVM only ", (~ours & theirs).sum())
print("wrong for both         ", (~ours & ~theirs).sum())

# %% [markdown]
# ## What to take home
#
# * **Which group?** The worst values. They have the largest share, and they predict best alone, with both methods.
# * **How surely?** Surely that they come first; which of the other groups is second remains open. Read the refined
#   intervals, not those of the closed form.
# * **Anything simpler?** To predict, yes: a plain support vector machine errs about as often, and so does BEMKL on
#   the worst values alone, a third of the columns. What the posterior adds is the answer to the first two questions
#   in one fit, and probabilities that say which answers to doubt.
#
# How far such a posterior can be trusted is the subject of [the next notebook](02_posterior_analysis.md). The guide
# has more on [kernels and views](../guide/kernels.md), on [reading a posterior](../guide/posterior.md) and on
# [comparing models](../guide/comparing.md) on more than one split.
#
# What the text says, checked:

# %% tags=["hide-cell"]
vb, exact = kernel_table(model), kernel_table(refined)
assert vb["view"][0] == exact["view"][0] == "worst"
assert vb["share"][0] > 0.5
assert exact["share_std"].mean() > 1.3 * vb["share_std"].mean()
assert (orders.loc["worst values first"] > 0.9).all()
assert orders.loc["means before errors", "closed form"] > 0.6 > orders.loc["means before errors", "refined"]
assert wrong[doubtful].mean() > wrong[~doubtful].mean()
assert wrong[~doubtful].mean() < 0.03
assert same
assert (accuracy.loc[list(groups)].idxmax() == "worst").all()
assert abs(accuracy.loc["all three", "BEMKL"] - accuracy.loc["all three", "SVM"]) < 0.03
assert (accuracy.loc["all three"] - accuracy.loc["worst"]).abs().max() < 0.03
