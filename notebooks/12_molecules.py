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
# # Molecules: fingerprints, assays and new scaffolds
#
# Circular fingerprints of several radii and a few measured properties, three assays. Which radius matters for which
# assay? Can predictions be trusted on scaffolds that the model has not seen? Which known molecules are most like a
# new one? What does one assay say about another that was run on few molecules? Molecules are simulated here, as
# graphs of atoms, so that the truth is known and nothing else has to be installed. The guides: [kernels and
# views](../guide/kernels.md), [missing views](../guide/missing_views.md), [tasks](../guide/designs.md).

# %%
# %matplotlib inline
import os
from zlib import crc32

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.kernels import Linear, Tanimoto
from bayesmkl.marginal import Design, Marginal
from bayesmkl.posterior import plot_predictions, task_table, view_table

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
SEED = 0
N_MOLECULES, N_FOLDS, N_TREES = (130, 3, 60) if FAST else (260, 5, 300)
INFERENCE = Marginal(n_points=160, n_draws=200) if FAST else Marginal(n_points=400)


# %% [markdown]
# ## Molecules as graphs
#
# A scaffold is a ring system, and a molecule is a scaffold with three groups in random order: a list of atoms and a
# list of bonds. Small letters are aromatic atoms.

# %%
def ring(n_atoms):
    return [(k, (k + 1) % n_atoms) for k in range(n_atoms)]


SCAFFOLDS = {
    "benzene": ("c c c c c c", ring(6)),
    "pyridine": ("n c c c c c", ring(6)),
    "pyrimidine": ("n c n c c c", ring(6)),
    "furan": ("o c c c c", ring(5)),
    "thiophene": ("s c c c c", ring(5)),
    "cyclohexane": ("C C C C C C", ring(6)),
    "piperidine": ("N C C C C C", ring(6)),
    "naphthalene": ("c c c c c c c c c c", [*ring(10), (0, 5)]),
    "quinoline": ("c n c c c c c c c c", [*ring(10), (0, 5)]),
    "indole": ("c c c c c c n c c", [*ring(9), (0, 5)]),
}
GROUPS = {
    "methyl": ("C", []),
    "hydroxyl": ("O", []),
    "amine": ("N", []),
    "chloro": ("Cl", []),
    "methoxy": ("O C", [(0, 1)]),
    "acid": ("C O O", [(0, 1), (0, 2)]),
    "amide": ("C O N", [(0, 1), (0, 2)]),
    "nitro": ("N O O", [(0, 1), (0, 2)]),
}


def assemble(scaffold, groups, places):
    atoms, bonds = SCAFFOLDS[scaffold][0].split(), list(SCAFFOLDS[scaffold][1])
    for group, place in zip(groups, places, strict=True):
        bonds += [(place, len(atoms)), *((a + len(atoms), b + len(atoms)) for a, b in GROUPS[group][1])]
        atoms += GROUPS[group][0].split()
    return atoms, bonds


rng = np.random.default_rng(SEED)
scaffold = rng.choice(list(SCAFFOLDS), N_MOLECULES)
groups = [rng.choice(list(GROUPS), 3) for _ in range(N_MOLECULES)]
names = [f"{core}({', '.join(held)})" for core, held in zip(scaffold, groups, strict=True)]
places = [rng.permutation([1, 2, 3]).tolist() for _ in range(N_MOLECULES)]
molecules = [assemble(*built) for built in zip(scaffold, groups, places, strict=True)]
print(names[0], *molecules[0], sep="\n")

# %% [markdown]
# ## Circular fingerprints
#
# As in Morgan's algorithm an atom starts with a number for its element, and takes up the numbers of its neighbors
# once for every step of the radius. The fingerprint counts the numbers of all atoms, folded to a fixed length. For
# real molecules RDKit has it in one line,
# `rdFingerprintGenerator.GetMorganGenerator(radius=2).GetCountFingerprintAsNumPy(molecule)`, where smaller
# environments are counted too.

# %%
N_BITS = 128


def grow(numbers, bonds):
    near = [[] for _ in numbers]
    for a, b in bonds:
        near[a].append(numbers[b])
        near[b].append(numbers[a])
    return [crc32(repr((own, sorted(others))).encode()) for own, others in zip(numbers, near, strict=True)]


def environments(molecule, radius):
    numbers = [crc32(atom.encode()) for atom in molecule[0]]
    for _ in range(radius):
        numbers = grow(numbers, molecule[1])
    return numbers


found = {radius: [environments(molecule, radius) for molecule in molecules] for radius in (0, 1, 2)}
prints = {
    f"radius {radius}": np.array([np.bincount(np.array(seen) % N_BITS, minlength=N_BITS) for seen in lists])
    for radius, lists in found.items()
}
{f"radius {radius}": len({number for seen in lists for number in seen}) for radius, lists in found.items()}


# %% [markdown]
# The numbers of different environments, of which the fingerprint of radius 2 folds some together.
#
# ## Three assays whose truth is known
#
# Melting points depend on the structure in part. Solubility depends on the elements (radius 0) and on the melting
# point. Two potencies are correlated: the first comes from environments of radius 2, the second from the first and
# from environments of radius 1. For a quarter of the molecules nobody has measured the properties.

# %%
def standardized(values):
    return (values - values.mean()) / values.std()


def of_environments(radius):
    counts = pd.DataFrame([pd.Series(seen).value_counts() for seen in found[radius]]).fillna(0.0)
    return standardized(counts.to_numpy() @ rng.normal(size=counts.shape[1]))


measured = pd.DataFrame(
    {
        "melting point": standardized(0.6 * of_environments(1) + 0.8 * rng.normal(size=N_MOLECULES)),
        "pKa": standardized(0.6 * of_environments(1) + 0.8 * rng.normal(size=N_MOLECULES)),
    }
)
potency, elements = of_environments(2), of_environments(0)
melting = measured["melting point"].to_numpy()
scores = pd.DataFrame(
    {
        "solubility": standardized(elements - melting),
        "potency A": potency,
        "potency B": standardized(potency + 0.6 * of_environments(1)),
    }
)
assays = scores + 0.3 * rng.normal(size=scores.shape)
X = pd.concat([pd.DataFrame(held).add_prefix(f"{view}, ") for view, held in prints.items()], axis=1)
X = X.join(measured[rng.random(N_MOLECULES) > 0.25])
views = {view: [column for column in X if column.startswith(view)] for view in prints}
views["measured"] = list(measured)
print(f"{N_MOLECULES} molecules, {X['pKa'].isna().sum()} without measured properties")
assays.corr().round(2)

# %% [markdown]
# ## Which radius matters for which assay
#
# The Tanimoto kernel compares counts: what two molecules share, over what either has. It suits fingerprints, not
# measured numbers, whose kernel is a linear one: a dict has the kernels of each view.

# %%
bank = KernelBank({view: Tanimoto() if view in prints else Linear() for view in views}, views, normalize=None)
blank = GPMKLRegressor(bank, missing_views="integrate", inference=INFERENCE, random_state=SEED)
models = {assay: clone(blank).fit(X, assays[assay]) for assay in assays}
tables = {assay: view_table(model).set_index("view") for assay, model in models.items()}
shares = pd.concat(tables, names=["assay", "view"])[["share", "share_lower", "share_upper"]]
shares["share"].unstack("assay")[list(assays)].loc[list(views)].round(2)

# %%
fig, axes = plt.subplots(1, 3, figsize=(9.5, 2.4), sharey=True, layout="constrained")
for ax, assay in zip(axes, assays, strict=True):
    table = shares.loc[assay].loc[list(views)[::-1]]
    ax.hlines(table.index, table["share_lower"], table["share_upper"], linewidth=2)
    ax.plot(table["share"], table.index, "o")
    ax.set(xlim=(-0.25, 1.1), xlabel="share, 94 % interval", title=assay)
    ax.axvline(0, color="grey", linewidth=0.8)
plt.show()

# %%
of_measured = shares.xs("measured", level="view").loc[list(assays)]
of_measured["truth"] = [-np.cov(melting, elements - melting)[0, 1] / (elements - melting).var(), 0.0, 0.0]
of_measured.round(2)

# %% [markdown]
# Solubility is divided between the elements, which are radius 0, and the measured properties. The potencies come
# from larger environments, and measured properties have hardly any part in them. Radii are nested: an environment of
# radius 2 contains those of radius 0 and 1, so that fingerprints can stand for each other, and the intervals say how
# far they can be told apart.
#
# ## Predictions for new scaffolds
#
# Molecules of the same scaffold resemble each other. A random split asks about new molecules of known scaffolds; for
# new scaffolds whole groups have to be left out, by `GroupKFold`. Random forests on all columns, with means for what
# was not measured, are what many would take; the mean of the training molecules is the least that a model has to
# beat.

# %%
splits = {
    "known scaffolds": list(KFold(N_FOLDS, shuffle=True, random_state=SEED).split(X)),
    "new scaffolds": list(GroupKFold(N_FOLDS).split(X, groups=scaffold)),
}
forest = RandomForestRegressor(N_TREES, random_state=SEED)
rows = []
for kind, folds in splits.items():
    for fold, (train, test) in enumerate(folds):
        filled, known = X.fillna(X.iloc[train].mean()), assays.iloc[train]
        trees = forest.fit(filled.iloc[train], known).predict(filled.iloc[test])
        for k, assay in enumerate(assays):
            model = clone(blank).fit(X.iloc[train], known[assay])
            mean, std = model.predict(X.iloc[test], return_std=True)
            held = {"row": test, "y": assays[assay].iloc[test], "GPMKL": mean, "std": std}
            rivals = {"forest": trees[:, k], "mean": known[assay].mean()}
            rows.append(pd.DataFrame(held | rivals).assign(split=kind, fold=fold, assay=assay))
left_out = pd.concat(rows)
left_out["inside"] = (left_out["y"] - left_out["GPMKL"]).abs() < 1.88 * left_out["std"]
for name in ("mean", "forest", "GPMKL"):
    left_out[f"RMSE, {name}"] = (left_out["y"] - left_out[name]) ** 2
of_errors = [column for column in left_out if column.startswith("RMSE")]
summary = left_out.groupby(["split", "assay"], sort=False)[[*of_errors, "std", "inside"]].mean()
summary[of_errors] **= 0.5
summary.round(2)

# %% [markdown]
# Errors are larger on new scaffolds, and standard deviations grow with them, so that the intervals keep about what
# they promise. A model that does not beat the mean there has learned its scaffolds. On average over the rows errors
# are smaller than those of forests; a single row can go either way.

# %%
of_new = left_out[left_out["split"] == "new scaffolds"]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for ax, assay in zip(axes, assays, strict=True):
    rows_of = of_new[of_new["assay"] == assay]
    plot_predictions(rows_of["y"], rows_of["GPMKL"], rows_of["std"], ax=ax)
    ax.set_title(f"{assay}, new scaffolds", loc="left")
plt.show()

# %% [markdown]
# ## Nearest analogues
#
# A prediction is easier to believe beside the molecules that it rests on. For the molecule of a new scaffold whose
# potency is predicted highest, these are the most similar ones among those that the model was fitted to, all of
# other scaffolds:

# %%
similarity = pd.DataFrame(Tanimoto()(prints["radius 2"], prints["radius 2"]))
candidates = of_new[of_new["assay"] == "potency A"].set_index("row").sort_index()
fold = candidates["fold"].to_numpy()
others = similarity.where(fold[:, None] != fold[None, :])
best = candidates["GPMKL"].idxmax()
print(f"{names[best]}: predicted {candidates['GPMKL'][best]:.1f} ± {candidates['std'][best]:.1f}, ", end="")
print(f"measured {candidates['y'][best]:.1f}")
nearest = others.loc[best].nlargest(4)
pd.DataFrame(
    {"similarity": nearest, "potency A": assays["potency A"], "molecule": pd.Series(names)}
).loc[nearest.index].round(2)

# %% [markdown]
# The standard deviation knows when there are none: it is larger where the most similar known molecule is less
# similar.

# %%
closest = others.max(axis=1)
far = closest < closest.median()
std_by_distance = candidates["std"].groupby(far).mean()
relation = candidates["std"].corr(closest, method="spearman")
print(f"mean std {std_by_distance[False]:.2f} with close analogues, {std_by_distance[True]:.2f} without; ", end="")
print(f"rank correlation with similarity {relation:.2f}")

# %% [markdown]
# ## An assay that was run on few molecules
#
# Say that potency B is expensive and known of a quarter of the molecules. It is correlated with potency A, which is
# known of all. With one row for every known value and a column that says which assay it is of, a `Design` with a
# `task_column` learns how the assays are related, and what one says about the other:

# %%
run = np.zeros(N_MOLECULES, dtype=bool)
run[rng.permutation(N_MOLECULES)[: N_MOLECULES // 4]] = True
fingerprints = X[[column for view in prints for column in views[view]]]
rows_known = pd.concat([fingerprints.assign(assay="A"), fingerprints[run].assign(assay="B")])
values_known = np.concatenate([assays["potency A"], assays["potency B"][run]])
tanimoto = KernelBank(Tanimoto(), {view: views[view] for view in prints}, normalize=None)
settings = {"inference": INFERENCE, "random_state": SEED}
together = GPMKLRegressor(tanimoto, design=Design(task_column="assay"), **settings).fit(rows_known, values_known)
alone = GPMKLRegressor(tanimoto, **settings).fit(fingerprints[run], assays["potency B"][run])
rest = fingerprints[~run]
predictions = {
    "potency B alone": alone.predict(rest, return_std=True),
    "with potency A": together.predict(rest.assign(assay="B"), return_std=True),
}
truth = assays["potency B"][~run]
tasks = pd.DataFrame(
    {
        name: {
            "RMSE": ((mean - truth) ** 2).mean() ** 0.5,
            "inside 94 %": (np.abs(mean - truth) < 1.88 * std).mean(),
        }
        for name, (mean, std) in predictions.items()
    }
)
tasks.round(2)

# %%
correlation = task_table(together).iloc[0]
true_correlation = scores["potency A"].corr(scores["potency B"])
print(f"correlation of the assays {correlation['mean']:.2f} ", end="")
print(f"[{correlation['lower']:.2f}, {correlation['upper']:.2f}], truly {true_correlation:.2f}")

# %% [markdown]
# ## What to take from it
#
# * **One view for each radius, with Tanimoto kernels on counts**, and measured properties as a view that may be
#   absent.
# * **Shares with intervals say which radius matters**, as far as nested fingerprints can be told apart.
# * **Leave out scaffolds, not molecules**, to learn what predictions for new chemistry are worth; intervals are
#   wider there.
# * **Look at analogues**: where there are none, the standard deviation says so.
# * **Related assays go together as tasks**, which pays where one of them is known of few molecules.
#
# What the text says, checked:

# %% tags=["hide-cell"]
by_assay = shares["share"].unstack("assay")
assert by_assay.drop(index="measured")["solubility"].idxmax() == "radius 0"
assert (by_assay.loc["radius 0", ["potency A", "potency B"]] < 0.5).all()
assert of_measured.loc["solubility", "share_lower"] > 0.1
assert (of_measured.loc[["potency A", "potency B"], "share"] < 0.2).all()
assert (of_measured["share_lower"] - 0.1 < of_measured["truth"]).all()
assert (of_measured["truth"] < of_measured["share_upper"] + 0.1).all()
assert summary["inside"].min() > 0.8
assert summary["inside"].mean() > 0.88
known_ones, new_ones = summary.loc["known scaffolds"], summary.loc["new scaffolds"]
assert new_ones["RMSE, GPMKL"].mean() > known_ones["RMSE, GPMKL"].mean()
assert new_ones["std"].mean() > known_ones["std"].mean()
assert summary["RMSE, GPMKL"].mean() < summary["RMSE, forest"].mean()
assert (summary["RMSE, GPMKL"] < summary["RMSE, mean"]).mean() > 0.8
assert relation < -0.1
assert tasks.loc["RMSE", "with potency A"] < tasks.loc["RMSE", "potency B alone"]
assert tasks.loc["inside 94 %"].min() > 0.8
assert correlation["lower"] > 0.0
