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
# # Feature bands and brain responses
#
# Voxelwise encoding models predict the response of a voxel from features of the stimulus: motion energy, semantic
# categories, phonemes. Each set of features is a *band*, and the question is how much of the response each band
# explains. Banded ridge regression, as in himalaya, gives one number per band and voxel. A Gaussian process with one
# linear kernel per band is the same model with a prior on the scales of the bands, and gives an interval as well.
# Responses are simulated here, so that the intervals can be compared with the truth. The guides:
# [posteriors](../guide/posterior.md), [contributions](../guide/contributions.md).

# %%
# %matplotlib inline
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.kernels import Linear
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import feature_table, plot_kernel_weights, relevance, view_table

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_RUNS, N_TIMES, N_VOXELS, N_SCALES = (5, 45, 2, 10) if FAST else (6, 60, 4, 60)
INFERENCE = Marginal(n_points=100, n_draws=200) if FAST else Marginal(n_points=256, n_draws=1000)

# %% [markdown]
# ## Stimuli: three bands, four lags
#
# The stimulus is shown in runs of contiguous time points. Features vary smoothly, and all bands follow the scenes a
# little, so that they are correlated as in natural films. The blood flow answers late: every feature enters with
# lags of one to four time points, within its run.

# %%
BANDS = {"motion energy": 6, "semantic categories": 8, "phonemes": 8}
LAGS = [1, 2, 3, 4]
rng = np.random.default_rng(SEED)


def smooth(n_features):
    white = rng.normal(size=(N_RUNS, N_TIMES + 1, n_features))
    return 0.85 * white[:, 1:] + 0.5 * white[:, :-1]


def lagged(features):
    padded = np.pad(features, ((0, 0), (max(LAGS), 0), (0, 0)))
    late = [padded[:, max(LAGS) - lag : padded.shape[1] - lag] for lag in LAGS]
    return np.concatenate(late, axis=2).reshape(N_RUNS * N_TIMES, -1)


def standardized(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


scenes = 0.6 * smooth(1)
shown = {band: smooth(size) + scenes for band, size in BANDS.items()}
shown["semantic categories"] = (shown["semantic categories"] > 0.8).astype(float)
shown["phonemes"] = rng.poisson(np.exp(0.7 * shown["phonemes"]))
views = {
    band: [f"{band} {k + 1}, lag {lag}" for lag in LAGS for k in range(size)] for band, size in BANDS.items()
}
columns = [column for held in views.values() for column in held]
X = pd.DataFrame(standardized(np.hstack([lagged(shown[band]) for band in BANDS])), columns=columns)
run = np.repeat(np.arange(N_RUNS), N_TIMES)
print(f"{N_RUNS} runs of {N_TIMES} time points, {X.shape[1]} columns in {len(views)} bands")

# %% [markdown]
# ## Voxels whose truth is known
#
# Voxels of four regions answer to the bands in different proportions. Every column has a weight of its own in every
# voxel, whose size follows the hemodynamic response; the model, too, takes weights as independent of each other.
# Half of the variance of their response is noise. Voxels of a fifth region are noise throughout. The noise is white,
# as after prewhitening.

# %%
HEMODYNAMIC = np.array([0.4, 1.0, 0.7, 0.3])
REGIONS = {
    "motion area": [0.9, 0.1, 0.0],
    "category area": [0.2, 0.8, 0.0],
    "speech area": [0.0, 0.2, 0.8],
    "association area": [0.35, 0.35, 0.3],
    "noise": [0.0, 0.0, 0.0],
}
voxels = [f"{region} {k + 1}" for region in REGIONS for k in range(N_VOXELS)]
weights, parts = {}, {}
for voxel in voxels:
    for band, share in zip(BANDS, REGIONS[voxel[:-2]], strict=True):
        drawn = np.repeat(HEMODYNAMIC, BANDS[band]) * rng.normal(size=len(views[band]))
        weights[voxel, band] = drawn * np.sqrt(share / 2) / (X[views[band]] @ drawn).std()
        parts[voxel, band] = X[views[band]] @ weights[voxel, band]
parts = pd.DataFrame(parts)
scores = parts.T.groupby(level=0, sort=False).sum().T
noise_std = np.where(scores.std() > 0, np.sqrt(0.5), 1.0)
Y = scores + noise_std * rng.normal(size=scores.shape)
signal = [voxel for voxel in voxels if not voxel.startswith("noise")]
known, new = run < N_RUNS - 1, run == N_RUNS - 1
print(f"{len(voxels)} voxels, {known.sum()} time points to learn from, the last run of {new.sum()} to predict")

# %% [markdown]
# ## A model for each voxel
#
# Kernel weights are shared by all columns of a two-dimensional `y`. Voxels whose bands differ get a model each, as
# banded ridge regression chooses scales for each. A linear kernel on standardized columns is taken as it is
# (`normalize=None`).

# %%
bank = KernelBank(Linear(), views, normalize=None)
models = {
    voxel: GPMKLRegressor(bank, inference=INFERENCE, random_state=SEED).fit(X[known], Y.loc[known, voxel])
    for voxel in voxels
}
tables = {voxel: view_table(model).set_index("view") for voxel, model in models.items()}
found = pd.concat(tables, names=["voxel", "band"])[["share", "share_lower", "share_upper"]]
truth = {
    (voxel, band): np.cov(parts.loc[known, (voxel, band)], scores.loc[known, voxel])[0, 1]
    for voxel in signal
    for band in BANDS
}
truth = pd.Series(truth) / scores.loc[known, signal].var().repeat(len(BANDS)).to_numpy()
found["truth"] = truth
found.loc[[f"{region} 1" for region in REGIONS]].round(2)

# %% [markdown]
# The share of a band is its part of the variance of the predicted response, $\operatorname{Cov}(f_b, f) /
# \operatorname{Var}(f)$, over draws from the posterior. It is the product measure of variance partitioning, and sums
# to one over bands, correlated ones too.

# %%
fig, ax = plt.subplots(figsize=(6.5, 2.2), layout="constrained")
_ = plot_kernel_weights(models["association area 1"], ax=ax)

# %% [markdown]
# ## Is there any signal?
#
# Shares of a noise voxel sum to one as well; their intervals are wide, and say nothing. Whether there is anything to
# divide is asked first, by {func}`~bayesmkl.posterior.relevance`: are left-out time points predicted better than by
# a constant?

# %%
verdicts = pd.concat({voxel: relevance(model, "all").iloc[0] for voxel, model in models.items()}, axis=1).T
verdicts["region"] = [voxel[:-2] for voxel in verdicts.index]
pd.crosstab(verdicts["region"], verdicts["verdict"]).loc[list(REGIONS)]

# %% [markdown]
# ## Variance partitioning with intervals, beside banded ridge regression
#
# Banded ridge regression scales the bands, joins them and fits a ridge regression. Scales are searched at random,
# and chosen for each voxel by cross-validation that leaves out whole runs. Contiguous runs are the groups, since
# neighbors in time are alike:

# %%
sizes = [len(held) for held in views.values()]
ridge = RidgeCV(np.logspace(0, 4, 9), alpha_per_target=True)
candidates = np.sqrt(np.vstack([np.ones(3) / 3, rng.dirichlet(np.ones(3), N_SCALES)]))
splits = list(LeaveOneGroupOut().split(X[known], groups=run[known]))
errors = []
for scales in candidates:
    left_out = cross_val_predict(ridge, X[known] * np.repeat(scales, sizes), Y[known], cv=splits)
    errors.append(((Y[known] - left_out) ** 2).mean())
best = pd.concat(errors, axis=1).to_numpy().argmin(axis=1)

banded, r2 = {}, {}
plain = pd.DataFrame(ridge.fit(X[known], Y[known]).predict(X[new]), columns=voxels)
for voxel, choice in zip(voxels, best, strict=True):
    scaled = X * np.repeat(candidates[choice], sizes)
    ridge.fit(scaled[known], Y.loc[known, [voxel]])
    coef = pd.Series(ridge.coef_.ravel(), columns)
    fitted = pd.DataFrame({band: scaled[held] @ coef[held] for band, held in views.items()})
    whole = fitted.sum(axis=1)
    for band in BANDS:
        banded[voxel, band] = np.cov(fitted.loc[known, band], whole[known])[0, 1] / whole[known].var()
    predictions = {
        "ridge": plain[voxel],
        "banded ridge": ridge.predict(scaled[new]),
        "GPMKL": models[voxel].predict(X[new]),
    }
    r2[voxel] = {name: r2_score(Y.loc[new, voxel], value) for name, value in predictions.items()}
found["banded"] = pd.Series(banded)

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 4.2), sharey=True, layout="constrained")
shown_voxels = [voxel for voxel in signal if int(voxel[-1]) <= 3][::-1]
for ax, band in zip(axes, BANDS, strict=True):
    table = found.xs(band, level="band").loc[shown_voxels]
    ax.hlines(table.index, table["share_lower"], table["share_upper"], linewidth=2, label="94 % interval")
    ax.plot(table["share"], table.index, "o", label="mean share")
    ax.plot(table["banded"], table.index, "C1x", label="banded ridge")
    ax.plot(table["truth"], table.index, "k|", markersize=12, label="truth")
    ax.set(xlim=(-0.15, 1.1), xlabel="share of the response", title=band)
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles, labels, frameon=False, loc="outside lower center", ncols=4)
plt.show()

# %%
of_signal = found.loc[signal]
covered = (of_signal["share_lower"] <= of_signal["truth"]) & (of_signal["truth"] <= of_signal["share_upper"])
error = of_signal[["share", "banded"]].sub(of_signal["truth"], axis=0).pow(2).mean().pow(0.5)
print(f"intervals hold {covered.mean():.2f} of the true shares")
error.rename({"share": "GPMKL", "banded": "banded ridge"}).rename("error of shares").to_frame().round(3)

# %% [markdown]
# Both find the band that a region answers to. What the single number of banded ridge regression does not say is that
# shares are known to within the lengths of these intervals only.
#
# Both predict the last run about as well:

# %%
r2 = pd.DataFrame(r2).T
by_region = r2.groupby([voxel[:-2] for voxel in r2.index]).mean().loc[list(REGIONS)]
by_region.round(2)

# %% [markdown]
# Predictions of responses have intervals, too:

# %%
inside = []
for voxel in voxels:
    mean, std = models[voxel].predict(X[new], return_std=True)
    inside.append(np.abs(Y.loc[new, voxel] - mean) < 1.88 * std)
print(f"responses of the last run inside their 94 % interval: {np.mean(inside):.2f}")

# %% [markdown]
# ## A region at once
#
# If voxels of a region answer to the same bands, they can share the kernel weights: `y` gets a column for each.
# Shares are then those of the region, and known better than those of one voxel.

# %%
members = [voxel for voxel in voxels if voxel.startswith("association")]
region = GPMKLRegressor(bank, inference=INFERENCE, random_state=SEED).fit(X[known], Y.loc[known, members])
together = view_table(region).set_index("view")[["share", "share_lower", "share_upper"]]
covariances = [parts.loc[known, (voxel, band)].cov(scores.loc[known, voxel]) for voxel in members for band in BANDS]
together["truth"] = pd.Series(
    np.reshape(covariances, (-1, len(BANDS))).sum(axis=0) / scores.loc[known, members].var().sum(), list(BANDS)
)
width_together = (together["share_upper"] - together["share_lower"]).mean()
width_alone = (found["share_upper"] - found["share_lower"]).loc[members].mean()
print(f"mean length of the intervals: {width_alone:.2f} of a voxel, {width_together:.2f} of the region")
together.round(2)

# %% [markdown]
# ## When does the voxel answer?
#
# {func}`~bayesmkl.posterior.feature_table` has the weight of every column with its interval. For the feature of
# motion energy that weighs most in the first voxel of the motion area, along the lags:

# %%
voxel, band = "motion area 1", "motion energy"
slopes = feature_table(models[voxel], per="unit", random_state=SEED).set_index("feature").loc[views[band]]
true_slopes = pd.Series(weights[voxel, band], views[band])
strongest = slopes["mean"].abs().to_numpy().reshape(len(LAGS), -1).sum(axis=0).argmax()
response = slopes.iloc[strongest :: BANDS[band]]
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.vlines(LAGS, response["lower"], response["upper"], linewidth=2, label="94 % interval")
ax.plot(LAGS, response["mean"], "o", label="mean weight")
ax.plot(LAGS, true_slopes[response.index], "k_", markersize=14, label="truth")
ax.axhline(0, color="grey", linewidth=0.8)
ax.set(xlabel="lag (time points)", ylabel="weight", xticks=LAGS, title=f"{voxel}: {band} {strongest + 1}")
ax.legend(frameon=False)
plt.show()
slopes_covered = ((slopes["lower"] <= true_slopes) & (true_slopes <= slopes["upper"])).mean()
print(f"intervals hold {slopes_covered:.2f} of the {len(slopes)} weights of this band")

# %% [markdown]
# ## What to take from it
#
# * **A band is a view, with lags as columns of it**; one linear kernel on each is banded ridge regression with a
#   prior on the scales.
# * **Ask for signal first, for shares afterwards.** Shares of a voxel without signal mean nothing.
# * **Report shares with their intervals**: point estimates differ from the truth by amounts that the intervals tell.
# * **Leave out whole runs** wherever something is chosen or scored by cross-validation.
# * **Voxels that answer alike share a model**, and their shares are known better.
#
# What the text says, checked:

# %% tags=["hide-cell"]
assert (verdicts.loc[signal, "verdict"] == "signal").mean() > 0.7
assert (verdicts.loc[verdicts["region"] == "noise", "verdict"] == "no signal").mean() > 0.4
noise_width = (found["share_upper"] - found["share_lower"]).drop(index=signal, level="voxel").mean()
assert noise_width > 1.3 * (of_signal["share_upper"] - of_signal["share_lower"]).mean()
assert covered.mean() > 0.75
assert error["share"] < error["banded"] + 0.02
assert error["share"] < 0.2
leading = of_signal["share"].unstack().idxmax(axis=1)
for area, band_of_area in zip(list(REGIONS)[:3], BANDS, strict=True):
    assert (leading[leading.index.str.startswith(area)] == band_of_area).mean() > 0.6
assert by_region["GPMKL"].drop("noise").mean() > by_region["banded ridge"].drop("noise").mean() - 0.03
assert by_region["GPMKL"].drop("noise").mean() > 0.15
assert by_region.loc["noise", "GPMKL"] < 0.1
assert np.mean(inside) > 0.88
assert width_together < 0.95 * width_alone
assert (together["share_lower"] - 0.1 < together["truth"]).all()
assert (together["truth"] < together["share_upper"] + 0.1).all()
assert slopes_covered > 0.5
