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
# # Digits in six views: which of them matter, and what if some are lost
#
# The 8 × 8 images of handwritten digits that scikit-learn ships, seen in six ways: as pixels, sums of rows and of
# columns, Fourier magnitudes, directions of gradients, and ink per quadrant. One model of ten classes learns from all
# of them. Which views does it use, how sure is that, does every digit need the same ones, and how well does it do for
# images that lack views? The guides: [classes](../guide/classes.md), [posteriors](../guide/posterior.md), [missing
# views](../guide/missing_views.md).

# %%
# %matplotlib inline

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import view_table

FAST = "BAYESMKL_FAST" in os.environ
n_known, n_new, n_repeats = (120, 400, 1) if FAST else (200, 800, 4)
fractions = [0.0, 0.2, 0.6] if FAST else [0.0, 0.1, 0.2, 0.4, 0.6]
plt.style.use("tableau-colorblind10")

# %% [markdown]
# ## Six views of a digit
#
# `views` names the columns of each view, in the form that a kernel bank wants. Every view is computed from the
# pixels; what differs is what it keeps.

# %%
digits = load_digits_views()
X, y, views = digits.data, digits.target, digits.views
print({view: len(columns) for view, columns in views.items()})

# %%
seen = {view: X[8, columns] for view, columns in views.items()}
shapes = dict(zip(views, [(8, 8), (8, 1), (1, 8), (8, 5), (4, 8), (2, 2)], strict=True))
figure, axes = plt.subplots(1, 6, figsize=(10, 2), layout="constrained")
for ax, (view, values) in zip(axes, seen.items(), strict=True):
    ax.imshow(values.reshape(shapes[view]), cmap="cividis")
    ax.set(title=f"{view} ({len(values)})", xticks=[], yticks=[])
axes[4].set(xlabel="direction", ylabel="quadrant")
figure.suptitle(f"One image of the digit {y[8]}: the fewer numbers, the less is left of it")
plt.show()

# %% [markdown]
# ## All views together
#
# A narrow and a wide Gaussian kernel on each view, and one set of kernel weights for all ten classes, which is the
# default. A few images of each digit are known; the accuracy is that on others. The margin is 1, and the scale of the
# intermediate outputs is 1 as in the paper; by default the margin is 0, and five folds choose the scale.

# %%
widths = [Gaussian(width=4.0), Gaussian(width=10.0)]


def make_model(names=tuple(views), **options):
    bank = KernelBank(widths, views={view: views[view] for view in names})
    settings = {"margin": 1.0, "intermediate_scale": 1.0, "tol": 1e-3}
    return make_pipeline(StandardScaler(), BEMKLClassifier(bank, **settings, **options))


sizes = {"train_size": n_known, "test_size": n_new, "stratify": y}
known, new = train_test_split(np.arange(len(y)), random_state=0, **sizes)
model = make_model().fit(X[known], y[known])
accuracy = model.score(X[new], y[new])
print(f"{n_known} known images, {n_new} new ones: accuracy {accuracy:.3f}")

# %% [markdown]
# And from one view at a time, or without one of them:

# %%
alone = {view: make_model([view]).fit(X[known], y[known]).score(X[new], y[new]) for view in views}
rests = {view: [other for other in views if other != view] for view in views}
without = {
    view: make_model(rest).fit(X[known], y[known]).score(X[new], y[new]) for view, rest in rests.items()
}
single = pd.DataFrame({"alone": alone, "all others": without}).sort_values("alone")
single.round(3)

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
ax.barh(single.index, single["alone"], color="#56B4E9", label="this view alone")
ax.plot(single["all others"], single.index, "D", color="#D55E00", label="all others without it")
ax.axvline(accuracy, color="black", linestyle="--", linewidth=1, label="all six")
best = single["alone"].max()
finding = f"No view reaches alone ({best:.2f}) what six reach together ({accuracy:.2f})"
ax.set(xlabel="accuracy on new images", xlim=(0, 1), title=finding)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %% [markdown]
# Each of them can be left out at little loss: the views overlap, and the others stand in. That will matter below.
#
# ## Which views the model uses
#
# {func}`~bayesmkl.posterior.view_table` sums the shares of the kernels on each view, with 94 % intervals:

# %%
table = view_table(model, random_state=0).set_index("view")
table[["share", "share_lower", "share_upper"]].round(2)

# %% [markdown]
# An interval says how sure the posterior is, given these images. Other images ask the question again: three more sets
# of as many known images, fitted afresh, are crosses in the picture.

# %%
again = []
for seed in (1, 2, 3):
    other, _ = train_test_split(np.arange(len(y)), random_state=seed, **sizes)
    refitted = make_model().fit(X[other], y[other])
    again.append(view_table(refitted, random_state=0).set_index("view")["share"])
again = pd.concat(again, axis=1).loc[table.index]
inside = again.ge(table["share_lower"], axis=0) & again.le(table["share_upper"], axis=0)

# %%
figure, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
reach = [table["share"] - table["share_lower"], table["share_upper"] - table["share"]]
interval = {"fmt": "o", "color": "#0072B2", "capsize": 3, "label": "share, 94 % interval"}
ax.errorbar(table["share"], table.index, xerr=reach, **interval)
for k, shares in enumerate(again.T.to_numpy()):
    ax.plot(shares, again.index, "x", color="#D55E00", label="other images" if k == 0 else "_")
four = [view for view in table.index if view not in ("columns", "quadrants")]
finding = f"{', '.join(four)}: together {table['share'][four].sum():.0%} of the score"
ax.set(xlabel="share of the score", xlim=(0, None), title=finding)
ax.invert_yaxis()
ax.legend(loc="lower right")
plt.show()
print(f"{inside.to_numpy().sum()} of {inside.size} shares from other images lie inside the intervals")

# %% [markdown]
# Four views carry most of the score and two little, whatever the images. Variational intervals are too narrow as a
# rule ([](../guide/trust.md)); here other images mostly agree with them.
#
# ## A view for every digit
#
# With `multiclass="one-versus-all"` each digit has kernel weights of its own, and one can ask what tells *this* digit
# from the rest.

# %%
separate = make_model(multiclass="one-versus-all").fit(X[known], y[known])
per_digit = view_table(separate, random_state=0).pivot(index="class", columns="view", values="share")
per_digit = per_digit[list(table.index)]
print(f"accuracy {separate.score(X[new], y[new]):.3f}, with shared weights {accuracy:.3f}")

# %%
figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
picture = ax.imshow(per_digit, cmap="cividis", vmin=0, aspect="auto")
for (i, j), share in np.ndenumerate(per_digit.to_numpy()):
    color = "black" if share > 0.2 else "white"
    ax.text(j, i, f"{share:.2f}", ha="center", va="center", fontsize=8, color=color)
ax.set_xticks(range(6), per_digit.columns)
ax.set_yticks(range(10), per_digit.index)
figure.colorbar(picture, label="share of the score")
fourier, rows = per_digit["fourier"], per_digit["rows"]
finding = f"{fourier.idxmax()} shows in its spectrum ({fourier.max():.0%}), "
finding += f"{rows.idxmax()} in its rows ({rows.max():.0%})"
ax.set(ylabel="digit", title=finding)
plt.show()

# %% [markdown]
# ## Losing views
#
# Now let every image lose each of its views with the same probability, in training and in prediction. (One that would
# lose all six keeps its pixels.) An absent view is NaN in all of its columns.

# %%
view_of_column = np.repeat(np.arange(6), [len(columns) for columns in views.values()])


def lose(X, fraction, seed):
    lost = np.random.default_rng(seed).random((len(X), 6)) < fraction
    lost[lost.all(axis=1), 0] = False
    return np.where(lost[:, view_of_column], np.nan, X), lost.sum(axis=1)


# %% [markdown]
# Five ways to go on. BEMKL can integrate over what an absent view may say, or it gets numbers in its place: zeros,
# the means of the columns, or means over the five nearest training images by what is there. Or training images
# that lack anything are dropped; new images cannot be, and BEMKL integrates over what they lack.

# %%
integrating = make_model(missing_views="integrate")
ways = {
    "integrated": integrating,
    "nearest images": make_pipeline(*[StandardScaler(), KNNImputer(), make_model()[-1]]),
    "means": make_pipeline(SimpleImputer(), *make_model()),
    "zeros": make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), *make_model()),
    "rows dropped": integrating,
}
results = []
for fraction in fractions:
    for seed in range(n_repeats):
        known, new = train_test_split(np.arange(len(y)), random_state=seed, **sizes)
        partial, n_lost = lose(X, fraction, seed)
        for way, candidate in ways.items():
            rows = known[n_lost[known] == 0] if way == "rows dropped" else known
            if np.bincount(y[rows], minlength=10).min() < 2:
                continue  # too few images of some digit are left
            chance = candidate.fit(partial[rows], y[rows]).predict_proba(partial[new])
            right = (chance.argmax(axis=1) == y[new]).mean()
            results.append((fraction, way, right, log_loss(y[new], chance), len(rows)))
results = pd.DataFrame(results, columns=["lost", "way", "accuracy", "log loss", "rows"])
means = results.groupby(["lost", "way"], sort=False)[["accuracy", "log loss"]].mean().unstack()
means["accuracy"].round(3)

# %%
means["log loss"].round(2)

# %%
colors, markers = ["#0072B2", "#009E73", "#E69F00", "#CC79A7", "#555555"], ["o", "s", "D", "^", "x"]
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for ax, measure in zip(axes, ["accuracy", "log loss"], strict=True):
    for way, color, marker, line in zip(ways, colors, markers, ["-", "--", "-.", ":", "-"], strict=True):
        curve = means[measure, way].dropna()
        ax.plot(100 * curve.index, curve, marker=marker, linestyle=line, color=color, label=way)
    ax.set(xlabel="views lost (%)", ylabel=measure)
last = means.loc[fractions[-1]].unstack(level=0)
axes[0].set_title(
    "At the end {:.2f} integrated, {:.2f} from zeros".format(*last["accuracy"][["integrated", "zeros"]])
)
axes[1].set_title(
    "At the end {:.1f} integrated, {:.1f} from zeros".format(*last["log loss"][["integrated", "zeros"]])
)
axes[1].set_ylabel("log loss (nats)")
axes[0].legend()
plt.show()

# %% [markdown]
# ## Does the model know what it does not know
#
# Two of these models, with two views of five lost, and new images by the number of views that they lack. What share
# of the predictions is right, and what does the model believe it is: the mean probability of the predicted digit?

# %%
partial, n_lost = lose(X, 0.4, seed=0)
known, new = train_test_split(np.arange(len(y)), random_state=0, **sizes)
beliefs = {}
for way in ("integrated", "zeros"):
    chance = ways[way].fit(partial[known], y[known]).predict_proba(partial[new])
    right = chance.argmax(axis=1) == y[new]
    belief = pd.DataFrame({"right": right, "believed": chance.max(axis=1), "lost": n_lost[new].clip(0, 4)})
    beliefs[way] = belief.groupby("lost").mean()
pd.concat(beliefs, axis=1).round(2)

# %%
too_sure = {way: 100 * (table["believed"] - table["right"]) for way, table in beliefs.items()}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True, layout="constrained")
for ax, (way, belief) in zip(axes, beliefs.items(), strict=True):
    ax.plot(belief.index, belief["right"], "o-", color="#0072B2", label="right")
    ax.plot(belief.index, belief["believed"], "s--", color="#D55E00", label="believed to be right")
    verdict = "too sure" if too_sure[way][4] > 0 else "too careful"
    ax.set_title(f"{way}: {verdict} by {abs(too_sure[way][4]):.0f} points if most is lost")
    ax.set_xticks(range(5), [0, 1, 2, 3, "4 or 5"])
    ax.set_xlabel("views that an image lacks")
axes[0].set(ylabel="share of new images", ylim=(0, 1))
axes[0].legend()
plt.show()

# %% [markdown]
# ## What to take from it
#
# * **Together the views do better than the best of them alone**, and no single one is needed: without any one of
#   them the others lose little.
# * **Pixels, gradients, rows and the spectrum carry most of the score**, sums of columns and the ink of quadrants
#   little, on these images and on others. Which view tells a digit from the rest depends on the digit: the 4 by its
#   rows, the 8 by its spectrum. One set of weights for all digits is as accurate as ten.
# * **Where views are lost, integrate.** Dropping incomplete images is the worst that can be done with them, zeros the
#   worst that can be filled in; means are better than zeros, and nearest images come close to integration in
#   accuracy. With most views lost, integration has the lowest log loss of all.
# * **Zeros make too sure.** On images that lack most views, a model that was given zeros believes more than is true;
#   integration errs on the careful side, if at all.
#
# These views overlap by construction, which is the best case for integration: what is lost is partly in what is left.
# [](../guide/missing_views.md) says when to expect less.
#
# What the text says, checked:

# %% tags=["hide-cell"]
assert accuracy > single["alone"].max() + 0.02
assert (single["all others"] > accuracy - 0.06).all()
assert again.loc[four].sum().min() > 0.75
assert table["share"][four].sum() > 0.75
assert inside.to_numpy().mean() > 0.7
assert per_digit["fourier"].idxmax() == 8
assert per_digit.loc[4].idxmax() == "rows"
assert abs(separate.score(X[new], y[new]) - model.score(X[new], y[new])) < 0.05
at_end, some = last["accuracy"], means["accuracy"].loc[0.2]
assert some["rows dropped"] == some.min()
assert at_end["integrated"] > at_end["means"] + 0.01
assert at_end["means"] > at_end["zeros"] + 0.02
assert at_end["integrated"] > at_end["nearest images"] - 0.03
assert last["log loss"].idxmin() == "integrated"
assert too_sure["zeros"][4] > 2
assert too_sure["integrated"][4] < 5
