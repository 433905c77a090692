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
# tells a malignant tumor from a benign one? How surely do a few hundred tumors say so? And would anything simpler do
# as well?

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

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.datasets import load_wdbc
from bayesmkl.evaluation import evaluate_classifier
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import kernel_table, plot_posteriors, plot_reliability, to_datatree

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_TRAIN, N_TEST = 200 if FAST else 398, 171
DRAWS = {"n_points": 128, "n_draws": 500} if FAST else {}  # of the kernel weights; the defaults are more

# %% [markdown]
# ## A table with groups of columns
#
# The data are those of the Wisconsin diagnostic breast cancer study, which scikit-learn ships. A target of 1 is
# malignant.

# %%
X, y = load_wdbc(return_X_y=True, as_frame=True)
groups = {"mean": X.columns[:10], "error": X.columns[10:20], "worst": X.columns[20:]}
sizes = {"train_size": N_TRAIN, "test_size": N_TEST}
X_train, X_test, y_train, y_test = train_test_split(X, y, **sizes, random_state=SEED)
print(len(X_train), "tumors to learn from,", len(X_test), "kept for the test")
pd.DataFrame({name: list(columns) for name, columns in groups.items()})

# %% [markdown]
# ## Fit
#
# A {class}`~bayesmkl.kernels.KernelBank` says how tumors are compared: here by a Gaussian kernel on each group,
# three kernels in all. Standardize first: the width of a kernel is in the units of the columns, and two tumors are
# typically four to five standard deviations apart in ten of them.
#
# {class}`~bayesmkl.marginal.GPMKLClassifier` (GPMKL below) gives every kernel a function of its own, a Gaussian
# process. The score of a tumor is their sum, and the standard deviations of the functions are the kernel weights. All
# functions are integrated out, and the weights alone are drawn.

# %%
scaler = StandardScaler().set_output(transform="pandas")


def gpmkl(views):
    bank = KernelBank(Gaussian(width=4), views=views)
    return make_pipeline(clone(scaler), GPMKLClassifier(bank, inference=Marginal(**DRAWS), random_state=SEED))


views = {name: list(columns) for name, columns in groups.items()}
model = gpmkl(views).fit(X_train, y_train)
print(model[-1].outcome_.value)
print(f"k-hat {model[-1].pareto_k_:.2f}: draws can be relied on below 0.7")
print(f"accuracy on the tumors that were kept: {model.score(X_test, y_test):.3f}")

# %% [markdown]
# ## Which group tells?
#
# The *share* of a kernel is its part of the variance of the score over the training tumors; shares sum to one.
# {func}`~bayesmkl.posterior.kernel_table` lists them with 94 % intervals, and says which inference made these.

# %%
columns = ["kernel", "share", "share_lower", "share_upper", "interval_by"]
kernel_table(model)[columns].round(2)


# %% [markdown]
# The worst values carry about three quarters of the score, and the data leave open whether it is half of it or nearly
# all. The intervals of the other two begin near zero or below it: one group, or the other, may say nothing that the
# worst values do not. (A share is negative where the part of a kernel falls as the score rises.)
#
# How sure is it that the worst values come first, and that the errors come before the means? Every draw from the
# posterior has an answer to such a question; count them.

# %%
def orders_of(model):
    draws = to_datatree(model, random_state=SEED).posterior.kernel_shares
    mean, error, worst = draws.transpose("kernel", ...).values  # in the order of `groups`
    return [np.mean((worst > mean) & (worst > error)), np.mean(error > mean)]


orders = pd.DataFrame({"GPMKL": orders_of(model)}, ["worst first", "errors before means"])
orders.round(2)

# %% [markdown]
# The worst values come first, with a probability of 95 % or more. The second place remains open: a probability of
# four in five is no answer.
#
# ## A faster approximation, and what it leaves out
#
# {class}`~bayesmkl.bemkl.BEMKLClassifier` is another model of the same kernels. Its variational posterior takes the
# parts of the posterior as independent of each other, and needs a part of the time; it is the one to take with more
# samples or kernels. Here it is with two scales of its intermediate outputs: 1, that of its paper, and 0.1. By
# default five folds choose the scale, which takes some eight times as long.

# %%
closed = {}
for scale in (1.0, 0.1):
    bemkl = BEMKLClassifier(KernelBank(Gaussian(width=4), views=views), intermediate_scale=scale)
    closed[f"BEMKL, scale {scale:g}"] = make_pipeline(clone(scaler), bemkl).fit(X_train, y_train)
tables = {name: kernel_table(fast).set_index("view") for name, fast in closed.items()}
pd.concat(tables)[columns[1:]].round(2)

# %%
fig, ax = plt.subplots(figsize=(8.4, 4.8), layout="constrained")
plot_posteriors(closed | {"GPMKL": model}, ax=ax)
_ = ax.set_title("VB is surer than GPMKL, and of other shares", loc="left")

# %% [markdown]
# The first place is the same. The intervals are narrow, and they are *too* narrow, as `interval_by` says: at the
# right are standard deviations relative to those of GPMKL. (Shares of BEMKL are parts of a sum of standard
# deviations, not of a variance, and so the means need not agree.) What becomes of the second place?

# %%
for name, fast in closed.items():
    orders[name] = orders_of(fast)
orders.round(2)

# %% [markdown]
# One scale is nearly sure that the means come second, the other that the errors do, and neither leaves it open.
# [The next notebook](02_posterior_analysis.md) holds such a posterior against the exact one of the same model. For
# shares and their order, read GPMKL.
#
# ## Predictions, with probabilities
#
# `predict` gives labels, `predict_proba` what they are worth. Here are the five tumors of which the model is least
# sure, and the five of which it is surest.

# %%
probability = model.predict_proba(X_test)[:, 1]
answers = pd.DataFrame({"P(malignant)": probability.round(3), "malignant": y_test.to_numpy() == 1})
predicted = model.predict(X_test)
answers["predicted"] = predicted == 1
order = np.argsort(np.abs(probability - 0.5))
answers.iloc[np.r_[order[:5], order[-5:]]]

# %% [markdown]
# Errors are among the tumors that the model calls doubtful. So a probability is of use in practice: send the
# doubtful ones to somebody who looks again.

# %%
doubtful = (probability > 0.05) & (probability < 0.95)
wrong = predicted != y_test.to_numpy()
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
# group alone. GPMKL on each group alone is beside it.

# %%
svm = make_pipeline(StandardScaler(), SVC())
correct = {}
for name, chosen in {"all three": X.columns, **groups}.items():
    fitted = model if name == "all three" else gpmkl({name: list(chosen)}).fit(X_train[chosen], y_train)
    correct[name, "GPMKL"] = fitted.predict(X_test[chosen]) == y_test
    correct[name, "SVM"] = svm.fit(X_train[chosen], y_train).predict(X_test[chosen]) == y_test
accuracy = pd.DataFrame(correct).mean().unstack()
accuracy.round(3)

# %%
fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
names = accuracy.sort_values("SVM", ascending=False).index
for offset, method, marker, color in ((-0.12, "GPMKL", "o", "#0072B2"), (0.12, "SVM", "s", "#D55E00")):
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
ours, theirs = correct["all three", "GPMKL"], correct["all three", "SVM"]
print("right for both         ", (ours & theirs).sum())
print("right for GPMKL only   ", (ours & ~theirs).sum())
print("right for the SVM only ", (~ours & theirs).sum())
print("wrong for both         ", (~ours & ~theirs).sum())

# %% [markdown]
# ## What to take home
#
# * **Which group?** The worst values. They have the largest share, and they predict best alone, with both methods.
# * **How surely?** Surely that they come first, with half of the score or nearly all of it; which of the other groups
#   is second remains open. Read intervals of {class}`~bayesmkl.marginal.GPMKLClassifier`, not those of the closed
#   form.
# * **Anything simpler?** To predict, yes: a plain support vector machine errs about as often, and so does GPMKL on
#   the worst values alone, a third of the columns. What the posterior adds is the answer to the first two questions
#   in one fit, and probabilities that say which answers to doubt.
#
# How far VB can be trusted is the subject of [the next notebook](02_posterior_analysis.md). The guide
# has more on [kernels and views](../guide/kernels.md), on [reading a posterior](../guide/posterior.md) and on
# [comparing models](../guide/comparing.md) on more than one split.
#
# What the text says, checked:

# %% tags=["hide-cell"]
table = kernel_table(model).set_index("view")
assert table.index[0] == "worst"
assert 0.7 < table["share"]["worst"] < 0.8
assert 0.4 < table["share_lower"]["worst"] < 0.55
assert table["share_upper"]["worst"] > 0.95
assert (table["share_lower"][["mean", "error"]] < 0.02).all()
assert model[-1].pareto_k_ < 0.5
assert 0.7 < orders.loc["errors before means", "GPMKL"] < 0.9
for narrow in tables.values():
    assert narrow.index[0] == "worst"
    assert narrow["share_std"].mean() < 0.6 * table["share_std"].mean()
    assert (narrow["share_std"] < 0.8 * table["share_std"][narrow.index]).all()
assert (orders.loc["worst first"].round(2) >= 0.95).all()
assert orders.loc["errors before means", "BEMKL, scale 1"] < 0.15
assert orders.loc["errors before means", "BEMKL, scale 0.1"] > 0.85
assert wrong[doubtful].mean() > wrong[~doubtful].mean()
assert wrong[~doubtful].mean() < 0.03
assert same
assert (accuracy.loc[list(groups)].idxmax() == "worst").all()
assert abs(accuracy.loc["all three", "GPMKL"] - accuracy.loc["all three", "SVM"]) < 0.03
assert (accuracy.loc["all three"] - accuracy.loc["worst"]).abs().max() < 0.03
