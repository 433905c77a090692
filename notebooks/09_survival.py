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
# # Survival of patients
#
# How long until the cancer comes back, how sure is that, and what of a patient says so? Two clinical studies that
# come with the package: 686 women after breast cancer, beside a model of proportional hazards and the curve of
# all subjects, and 228 patients with lung cancer at 18 institutions, of whom not everything is known.

# %%
# %matplotlib inline
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import StratifiedKFold

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLSurvival
from bayesmkl.datasets import load_gbsg2, load_lung
from bayesmkl.evaluation import (
    concordance_index,
    integrated_brier_score,
    kaplan_meier,
    survival_calibration,
)
from bayesmkl.evaluation.plots import plot_survival_calibration, plot_survival_functions
from bayesmkl.marginal import Design, GPMKLSurvival, Marginal
from bayesmkl.posterior import effect_table, relevance, view_table

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_FOLDS, N_WOMEN = (2, 400) if FAST else (5, 686)
KERNELS, INFERENCE = (["rbf"], Marginal(n_points=120, n_draws=100)) if FAST else ("auto", Marginal())

# %% [markdown]
# ## Breast cancer: 686 women, three views
#
# The second trial of the German Breast Cancer Study Group. Times are years until the cancer came back or death; of
# more than half of the women all that is known is that it was later than their last visit. Views are the person, the
# tumour, and the receptors of its cells; numbers of nodes and amounts of receptors are skewed, so that logarithms
# are taken. Everything but the treatment is standardized.

# %%
X, y = load_gbsg2(return_X_y=True, as_frame=True)
order = np.random.default_rng(SEED).permutation(len(X))[:N_WOMEN]
X, y = X.iloc[order].reset_index(drop=True), y[order]
y["time"] /= 365.25
skewed = ["tumour_size", "positive_nodes", "progesterone_receptor", "estrogen_receptor"]
X[skewed] = np.log1p(X[skewed])
described = X.columns.drop("hormone_therapy")
X[described] = (X[described] - X[described].mean()) / X[described].std()
views = {
    "person": ["age", "postmenopausal"],
    "tumour": ["tumour_size", "tumour_grade", "positive_nodes"],
    "receptors": ["progesterone_receptor", "estrogen_receptor"],
}
everyone = kaplan_meier(y["event"], y["time"])
median_time = round(float(everyone.times[np.argmax(everyone.survival <= 0.5)]), 1)
print(f"{len(y)} women, {y['event'].sum()} events, a half of all until {median_time} years")

# %% [markdown]
# ## Four ways to predict
#
# {class}`~bayesmkl.marginal.GPMKLSurvival` gets a bank of kernels on each view. Hormone therapy is no view: it was
# what the trial was about, so it is a covariate of the `design`, with a linear effect that has a row of its own.
#
# {class}`~bayesmkl.bemkl.BEMKLSurvival` takes the same views by closed-form updates, with the treatment as one more.
#
# The model that one would otherwise take is Cox's, of proportional hazards. With a hazard that is constant between
# ten quantiles of the events it is a Poisson regression of the events in every interval, weighted by the years that
# a woman spent there, which scikit-learn has:

# %%
N_INTERVALS = 10
rates = PoissonRegressor(alpha=1e-3, fit_intercept=False, max_iter=1000)


def years_within(time, ends):
    return np.clip(np.asarray(time)[:, None], ends[:-1], ends[1:]) - ends[:-1]


def fit_hazards(X, y, ends):
    spent = years_within(y["time"], ends)
    came = y["event"][:, None] & (y["time"][:, None] <= ends[1:])
    row, k = np.nonzero(spent)
    Z = np.column_stack([X.to_numpy()[row], np.eye(len(ends) - 1)[k]])
    return rates.fit(Z, came[row, k] / spent[row, k], spent[row, k]).coef_


# %% [markdown]
# Every woman is predicted by models that have not seen her: in each of the folds one part is left out. Risks are
# scored within a fold; survival is kept for all.

# %%
years = np.linspace(0.5, median_time, 10)
gpmkl = GPMKLSurvival(
    KernelBank(KERNELS, views=views),
    design=Design(covariate_columns="hormone_therapy"),
    inference=INFERENCE,
    random_state=SEED,
)
bemkl = BEMKLSurvival(KernelBank(KERNELS, views=views | {"treatment": ["hormone_therapy"]}), random_state=SEED)
names = ["everybody", "proportional hazards", "BEMKLSurvival", "GPMKLSurvival"]
survival = {name: np.empty((len(y), len(years))) for name in names}
scores = []
for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED).split(X, y["event"]):
    X_train, y_train, X_test, y_test = X.iloc[train], y[train], X.iloc[test], y[test]
    events = y_train["time"][y_train["event"]]
    ends = np.concatenate([[0.0], np.quantile(events, np.arange(1, N_INTERVALS) / N_INTERVALS), [np.inf]])
    coef = fit_hazards(X_train, y_train, ends)
    log_ratio, hazards = X_test.to_numpy() @ coef[:-N_INTERVALS], np.exp(coef[-N_INTERVALS:])
    cumulative = years_within(years, ends) @ hazards
    risk = {"everybody": np.zeros(len(test)), "proportional hazards": log_ratio}
    survival["everybody"][test] = kaplan_meier(y_train["event"], y_train["time"]).at(years)
    survival["proportional hazards"][test] = np.exp(-np.exp(log_ratio)[:, None] * cumulative)
    for name, model in {"BEMKLSurvival": bemkl, "GPMKLSurvival": gpmkl}.items():
        risk[name] = model.fit(X_train, y_train).predict(X_test)
        survival[name][test] = model.predict_survival_function(X_test, years)
    for name in names:
        harrell = concordance_index(y_test, risk[name])
        uno = concordance_index(y_test, risk[name], y_train=y_train, tau=years[-1])
        brier = integrated_brier_score(y_train, y_test, survival[name][test], years)
        scores.append((name, harrell, uno, brier))
scores = pd.DataFrame(scores, columns=["model", "concordance", "Uno's", "integrated Brier score"])
means = scores.groupby("model", sort=False).mean()
means.round(3)

# %% [markdown]
# Concordance is the share of pairs of women whose order was right, one half by chance; the Brier score is a squared
# error of probabilities, the lower the better. All three models know far more than the curve of all subjects, and are
# close together: tumours and nodes act nearly as the simple model has it.
#
# ## Are the probabilities right?
#
# Those of all left-out women at the median time, in five bins, beside what became of them. The bars are a band that
# holds all bins of a calibrated model with a probability of 95 %, and `p` is that of a distance from the diagonal
# like this one:

# %%
calibration = {name: survival_calibration(y, survival[name][:, -1], median_time) for name in names[1:]}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.9), sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, calibration.items(), strict=True):
    plot_survival_calibration(found, ax=ax)
    ax.set_title(f"{name}, p = {found.p_value:.2f}", loc="left", fontsize="medium")
    ax.get_legend().remove()
plt.show()

# %% [markdown]
# In thirds by predicted survival, the curves of what became of the women, beside the means of what was predicted:

# %%
chance = survival["GPMKLSurvival"]
third = np.digitize(chance[:, -1], np.quantile(chance[:, -1], [1 / 3, 2 / 3]))
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
observed_by_third = []
for k, name in enumerate(["high", "middle", "low"]):
    curve = kaplan_meier(y["event"][third == k], y["time"][third == k])
    observed_by_third.append(float(curve.at(years[-1:])[0]))
    ax.step(curve.times, curve.survival, where="post", color=f"C{k}", label=f"{name} risk")
    ax.plot(years, chance[third == k].mean(axis=0), "o", color=f"C{k}", markersize=4)
ax.set(xlabel="years", ylabel="without recurrence", ylim=(0, 1.02), title="Lines: observed. Dots: predicted")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Curves of single women
#
# With the model of the last fold, for the women of its test part with nearly the highest, the middle and nearly the
# lowest risk. The band is that of the woman's own curve, not of the time itself:

# %%
ranked = np.argsort(-gpmkl.predict(X_test))
shown = X_test.iloc[ranked[[len(ranked) // 20, len(ranked) // 2, -len(ranked) // 20]]]
grid = np.linspace(0.0, 6.0, 40)
curve, lower, upper = gpmkl.predict_survival_function(shown, grid, ci_prob=0.94)
labels = ["high risk", "in the middle", "low risk"]
ax = plot_survival_functions(grid, curve, lower, upper, y=y_train, names=labels)
_ = ax.set(xlabel="years", ylabel="without recurrence")

# %% [markdown]
# ## What matters
#
# The same model says how the views share what is left after the treatment, and what the treatment does: its effect
# is one on log times, so that its exponential is the factor by which therapy stretches the time until recurrence.

# %%
shares = view_table(gpmkl, random_state=SEED).set_index("view")[["share", "share_lower", "share_upper"]]
shares.round(2)

# %%
therapy = effect_table(gpmkl).set_index("effect").loc["hormone_therapy"]
factor = np.exp(therapy[["mean", "lower", "upper"]].astype(float))
print(f"times with therapy: {factor['mean']:.2f} times as long [{factor['lower']:.2f}, {factor['upper']:.2f}]")

# %% [markdown]
# The tumour has most of it, the receptors some, and age little. The interval of therapy is that of a comparison of
# women who are alike in the views. Whether a view is *needed* is another question, since one may stand for the
# other; {func}`~bayesmkl.posterior.relevance` fits the model again without each (the short form asks the first
# question alone, whether there is any signal):

# %%
needed = relevance(gpmkl, "all" if FAST else "view", random_state=SEED)
needed[["without", "share", "elpd_diff", "se", "verdict"]].round(1)

# %% [markdown]
# ## Lung cancer: institutions, and values that nobody wrote down
#
# The North Central Cancer Treatment Group asked 228 patients with advanced lung cancer and their physicians how well
# they were. Of 47 nobody knows what they ate. `missing_views="impute"` takes the gaps inside a view; three patients
# without an institution or a physician's word are left out, since a design has no gaps. The institution is a group:
# patients of one are alike in ways that no view says.

# %%
X_lung, y_lung = load_lung(return_X_y=True, as_frame=True)
complete = X_lung[["institution", "ecog_physician", "karnofsky_physician"]].notna().all(axis=1).to_numpy()
X_lung, y_lung = X_lung[complete], y_lung[complete]
described = X_lung.columns.drop("institution")
X_lung[described] = (X_lung[described] - X_lung[described].mean()) / X_lung[described].std()
said_by = {
    "person": ["age", "female"],
    "physician": ["ecog_physician", "karnofsky_physician"],
    "patient": ["karnofsky_patient"],
    "meals": ["meal_calories"],
    "weight": ["weight_loss"],
}
lung = GPMKLSurvival(
    KernelBank(KERNELS, views=said_by),
    design=Design(group_columns="institution"),
    missing_views="impute",
    inference=INFERENCE,
    random_state=SEED,
).fit(X_lung, y_lung)
lung_shares = view_table(lung, random_state=SEED).set_index("view")[["share", "share_lower", "share_upper"]]
lung_shares.round(2)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=[3, 5])
for ax, table, name in zip(axes, (shares, lung_shares), ("breast cancer", "lung cancer"), strict=True):
    table = table[::-1]
    ax.hlines(table.index, table["share_lower"], table["share_upper"], linewidth=2)
    ax.plot(table["share"], table.index, "o")
    ax.set(xlim=(-0.05, 1), xlabel="share of the score", title=name)
plt.show()

# %% [markdown]
# Two hundred patients do not tell the views apart: intervals are wide, and those of physician and patient, who speak
# of the same thing, may be exchanged for each other. What they eat and lost in weight adds little. Institutions
# hardly differ:

# %%
institutions = effect_table(lung).set_index("effect").loc["institution"]
spread = np.exp(institutions[["mean", "lower", "upper"]].astype(float))
print(f"times differ by a factor of {spread['mean']:.2f} [{spread['lower']:.2f}, {spread['upper']:.2f}]")
together = relevance(lung, "all", random_state=SEED).iloc[0]
print(f"all views: {together['elpd_diff']:.0f} nats, standard error {together['se']:.0f}: {together['verdict']}")

# %% [markdown]
# ## What to take from it
#
# * **A smooth model of views predicts as well as proportional hazards**, and says with intervals what matters. With
#   three clinical views there is little to gain in order.
# * **Judge probabilities as well as order**: concordance says nothing of calibration, which has to be looked at
#   where decisions hang on a number, on subjects that the model has not seen.
# * **What is to be accounted for goes into the design**, not into a view: a treatment gets an effect with an
#   interval, institutions a spread.
# * **Few patients say little about single views**, and the intervals say so.
#
# What the text says, checked:

# %% tags=["hide-cell"]
gain = means - means.loc["everybody"]
assert (gain.drop(index="everybody")[["concordance", "Uno's"]] > 0.07).all(axis=None)
assert (gain.drop(index="everybody")["integrated Brier score"] < -0.005).all()
rest = means.drop(index=["everybody", "GPMKLSurvival"])
assert means.loc["GPMKLSurvival", "concordance"] > rest["concordance"].max() - 0.02
assert means.loc["GPMKLSurvival", "integrated Brier score"] < rest["integrated Brier score"].min() + 0.006
assert calibration["GPMKLSurvival"].p_value > 0.01
assert np.all(np.diff(observed_by_third) > 0.08)
assert np.all(np.diff(curve[:, -1]) > 0.0)
assert curve[2, -1] > curve[0, -1] + 0.2
assert np.all((lower <= curve + 0.01) & (curve <= upper + 0.01))
assert (shares["share"].idxmax(), shares["share"].idxmin()) == ("tumour", "person")
assert factor["mean"] > 1.1
assert factor["upper"] > 1.3
assert needed["log_evidence_diff"].iloc[0] > 2.0
assert (lung_shares["share_upper"] - lung_shares["share_lower"])[["person", "physician", "patient"]].min() > 0.25
assert lung_shares.loc[["meals", "weight"], "share"].max() < 0.2
assert 1.0 < spread["mean"] < 1.4
assert together["elpd_diff"] > 0.0
