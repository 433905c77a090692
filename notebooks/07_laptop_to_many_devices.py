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
# # The same numbers, in every storage
#
# A fit multiplies kernels with vectors. In which form the kernels are held while it does, and whether NumPy or JAX
# multiplies, changes memory and time but not the posterior. This notebook counts what a fit takes before it runs,
# measures it, and then fits one model in the ways that [](../guide/scaling.md) describes, to see that the numbers
# agree and what each way saves. Sizes are small, so that all of it runs on a laptop. Times on real computers are in
# [](../performance.md).

# %%
# %matplotlib inline

import os
import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import VB, Storage
from bayesmkl.datasets import make_waveform, open_rows
from bayesmkl.evaluation import evaluate_classifier
from bayesmkl.kernels import Gaussian

plt.style.use("tableau-colorblind10")
FAST = "BAYESMKL_FAST" in os.environ
N_EXACT, N_ROWS, N_LANDMARKS, N_NEW = (200, 1000, 32, 400) if FAST else (480, 6000, 64, 2000)
BUDGETS, N_TIMES = ([4, 16, 64], 2) if FAST else ([4, 8, 16, 32, 64], 3)
ONE_LOOP = {"margin": 1.0, "intermediate_scale": 1.0}  # no folds that choose the scale
SWEEPS = ONE_LOOP | {"max_iter": 20, "tol": 0.0, "inference": VB(accelerate=False)}  # as many everywhere
SEED = 0

data = make_waveform(N_ROWS, random_state=SEED)
fresh = make_waveform(N_NEW, random_state=SEED + 1)
X, y, X_new, y_new = data.data, data.target, fresh.data, fresh.target
kernels = [Gaussian(width=1), Gaussian(width=4)]
P = len(kernels) * X.shape[1]  # both on each feature
print(f"{P} kernels")


# %% [markdown]
# Two Gaussian kernels on each of 21 features: a bank of 42 kernels, of which the model is to find those that matter.
#
# ## Count first
#
# $P$ kernels between $N$ samples are $P N^2$ numbers of eight bytes. One sweep multiplies all of them with a vector
# twice, $4 P N^2$ operations, inverts one matrix over samples and two over kernels, $N^3 + 2 P^3$, and combines
# kernels with each other, about $2 P^2 N$. Double $N$, and memory is four times as much, the work of a sweep between
# four and eight times.

# %%
def counted(n):
    return pd.Series({"bytes": 8 * P * n**2, "operations": 4 * P * n**2 + n**3 + 2 * P**3 + 2 * P**2 * n})


sizes = [N_EXACT // 4, N_EXACT // 2, N_EXACT]
plan = pd.DataFrame({n: counted(n) for n in sizes}).T.rename_axis("samples")
print(plan.assign(MB=(plan["bytes"] / 1e6).round(1)))


# %% [markdown]
# Now measure. The memory that a fit adds is what NumPy asked for at the same time, at most; the work of one sweep is
# processor time, of fits of different lengths, subtracted.

# %%
def most_bytes(model, X, y):
    tracemalloc.start()
    model.fit(X, y)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def seconds(n, n_sweeps):
    model = BEMKLClassifier(exact, storage=Storage("dense", "numpy"), **SWEEPS | {"max_iter": n_sweeps})
    start = time.process_time()
    model.fit(X[:n], y[:n])
    return time.process_time() - start


exact = KernelBank(kernels, views="each")
dense = BEMKLClassifier(exact, storage=Storage("dense", "numpy"), **SWEEPS)
dense.fit(X[:50], y[:50])  # loads what fits load
plan["measured bytes"] = [most_bytes(dense, X[:n], y[:n]) for n in sizes]
quickest = {(n, k): min(seconds(n, k) for _ in range(N_TIMES)) for n in sizes for k in (5, 55)}
work = pd.Series({n: quickest[n, 55] - quickest[n, 5] for n in sizes})
ratios = pd.DataFrame(
    {
        "measured / counted bytes": plan["measured bytes"] / plan["bytes"],
        "bytes, to half as many": plan["measured bytes"].pct_change() + 1,
        "work counted, to half": plan["operations"].pct_change() + 1,
        "work measured, to half": work.pct_change() + 1,
    }
)
print(ratios.round(1).to_string())

# %% [markdown]
# The first ratio falls towards one: kernels grow with $N^2$, and most of what a fit needs beside them grows with $N$.
# Processor time shakes with whatever else the computer does, and as a rule grows more slowly than the count, as some
# costs of a sweep do not depend on its size. The count is the safer guide for larger plans.
#
# ## One model, three ways to hold its kernels
#
# Which of these is used is decided by `storage`. The model is the same, so are the sweeps; hence the results can be
# compared number by number.

# %%
rows, held = [], {}
some, labels = X[:N_EXACT], y[:N_EXACT]
for storage in ("dense", "float32", "compressed"):
    model = held[storage] = BEMKLClassifier(exact, storage=Storage(storage, "numpy"), **SWEEPS)
    most = most_bytes(model, some, labels)
    off = np.abs(model.predict_proba(X_new) - held["dense"].predict_proba(X_new)).max()
    rows.append((storage, model.kernel_bytes_ / 1e6, most / 1e6, f"{model.elbo_:.4f}", off))
columns = ["storage", "kernels, MB", "most in the fit, MB", "ELBO, nats", "probabilities off by"]
storages = pd.DataFrame(rows, columns=columns).set_index("storage")
print(storages.to_string(float_format="{:.3g}".format))

# %% [markdown]
# * `float32` rounds the entries to half as many bytes, sums are still in double precision. It differs by about as
#   much as numbers of single precision do.
# * `compressed` stores factors. Kernels on single features have low rank, so that most of the memory is not needed;
#   the factors are exact to ten digits.
#
# A fourth way, `streamed`, holds no kernels. It is for many samples, and follows below.
#
# ## Fewer points to compare with
#
# A sweep still costs $N^3$ and more. Landmarks change that, and the model with it: samples are compared with $B$
# points in place of all samples, $8 P N B$ bytes. With the training samples themselves as landmarks it would be the
# exact model:

# %%
few, few_labels = X[:100], y[:100]
on_numpy = Storage(backend="numpy")
plain = BEMKLClassifier(exact, storage=on_numpy, **SWEEPS).fit(few, few_labels)
itself = BEMKLClassifier(KernelBank(kernels, views="each", landmarks=few), storage=on_numpy, **SWEEPS)
itself.fit(few, few_labels)
same = np.abs(itself.predict_proba(X_new) - plain.predict_proba(X_new)).max()
print(f"all samples as landmarks: probabilities off by {same:.0e}")

# %% [markdown]
# How many landmarks does it take? The exact model of some samples is compared with landmarks for the same samples,
# and for all rows that there are. These fits converge:

# %%
converged = ONE_LOOP | {"storage": on_numpy, "tol": 1e-4}
full_model = BEMKLClassifier(exact, **converged).fit(some, labels)
exact_loss = evaluate_classifier(full_model, X_new, y_new)["log_loss"]
loss = {}
for n in (N_EXACT, N_ROWS):
    for b in BUDGETS:
        bank = KernelBank(kernels, views="each", landmarks=b, random_state=SEED)
        model = BEMKLClassifier(bank, **converged).fit(X[:n], y[:n])
        loss[n, b] = evaluate_classifier(model, X_new, y_new)["log_loss"]

# %%
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for n, marker in ((N_EXACT, "o"), (N_ROWS, "s")):
    ax.plot(BUDGETS, [loss[n, b] for b in BUDGETS], marker=marker, label=f"{n} samples, landmarks")
ax.axhline(exact_loss, color="black", linestyle="dashed", label=f"{N_EXACT} samples, exact")
ax.set(xscale="log", xlabel="landmarks", ylabel="log loss on new samples (nats)")
ax.set_xticks(BUDGETS, BUDGETS)
best = min(loss[N_ROWS, b] for b in BUDGETS)
title = f"{best:.2f} nats by landmarks from {N_ROWS} samples, {exact_loss:.2f} exactly from {N_EXACT}"
ax.set_title(title, loc="left")
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %% [markdown]
# Landmarks pay twice here: with the same samples they cost less and predict no worse than the exact model, and what
# they leave of the memory buys more samples. On other data it takes more of them; [](../performance.md) has some.
#
# ## Memory against samples
#
# Lines are counted, markers measured.

# %%
sizes = [N_EXACT // 4, N_EXACT // 2, N_EXACT, N_ROWS // 2, N_ROWS]
bank = KernelBank(kernels, views="each", landmarks=N_LANDMARKS, random_state=SEED)
forms = {  # kernels, how they are held, for how many samples
    "exact, dense": (exact, "dense", sizes[:3]),
    "landmarks, dense": (bank, "dense", sizes),
    "landmarks, streamed": (bank, "streamed", sizes),
}
measured = {}
for name, (some_bank, storage, used) in forms.items():
    model = BEMKLClassifier(some_bank, storage=Storage(storage, "numpy"), **SWEEPS | {"max_iter": 3})
    measured[name] = np.array([most_bytes(model, X[:n], y[:n]) for n in used]) / 1e6

# %%
figure, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
reach = np.array([sizes[0], 20 * N_ROWS])
ax.plot(reach, 8 * P * reach**2 / 1e6, "C0-", label="exact: kernels, counted")
ax.plot(reach, 8 * P * N_LANDMARKS * reach / 1e6, "C1--", label="landmarks: kernels, counted")
for (name, points), style in zip(measured.items(), ("C0o", "C1s", "C3^"), strict=True):
    ax.plot(sizes[: len(points)], points, style, markersize=8, label=f"{name}: measured")
ax.set(xscale="log", yscale="log", xlabel="samples", ylabel="memory of the fit (MB)")
saved = measured["landmarks, streamed"][-1] / measured["landmarks, dense"][-1]
title = f"At {N_ROWS} samples a streamed fit takes {100 * saved:.0f} % of the memory of a stored one"
ax.set_title(title, loc="left")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# What is left of a streamed fit is a block of kernel values, one at a time, and some arrays of $P$ numbers per
# sample.
#
# ## The same fit from a file, and on JAX
#
# From here on there is one model with landmarks, given as points so that all ways have the same. Its rows come from
# an array, or from a file of which one row group is in memory at a time. Its sweeps are made by NumPy, or by
# JAX on an accelerator or, here, the processor.

# %%
folder = tempfile.TemporaryDirectory()
names = [f"t{k}" for k in range(X.shape[1])]
paths = [Path(folder.name) / "waveform.parquet", Path(folder.name) / "new.parquet"]
for path, table in zip(paths, (X, X_new), strict=True):
    pd.DataFrame(table, columns=names).to_parquet(path, row_group_size=N_ROWS // 5)
on_disk, new_on_disk = (open_rows(path, columns=names) for path in paths)
print(on_disk.shape)

# %%
landmarks = bank.fit(X).landmarks_
bank = KernelBank(kernels, views="each", landmarks=landmarks)
ways = {
    "NumPy, dense": Storage("dense", "numpy"),
    "NumPy, float32": Storage("float32", "numpy"),
    "NumPy, streamed": Storage("streamed", "numpy"),
    "NumPy, streamed from disk": Storage("streamed", "numpy"),
    "JAX, dense": Storage("dense", "jax"),
}
models = {name: BEMKLClassifier(bank, storage=storage, **SWEEPS) for name, storage in ways.items()}

# %% [markdown]
# JAX compiles a sweep. At these sizes that is most of the time of the next cell.

# %%
rows, reference = [], models["NumPy, dense"].fit(X, y)
for name, model in models.items():
    old, new = (on_disk, new_on_disk) if "disk" in name else (X, X_new)
    model.fit(old, y)
    weights_off = np.abs(model.dual_coef_ - reference.dual_coef_).max() / np.abs(reference.dual_coef_).max()
    off = np.abs(model.predict_proba(new) - reference.predict_proba(X_new)).max()
    rows.append((name, model.kernel_bytes_ / 1e6, f"{model.elbo_:.4f}", weights_off, off))

# %%
columns = ["way", "MB of kernels", "ELBO, nats", "weights off by", "probabilities off by"]
agreement = pd.DataFrame(rows, columns=columns).set_index("way")
print(agreement.to_string(float_format="{:.3g}".format))

# %%
others = agreement.drop("NumPy, dense")
figure, ax = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
ax.plot(others["probabilities off by"], others.index, "o", markersize=9)
for k, size in enumerate(others["MB of kernels"]):
    ax.text(1.02, k, f"{size:.1f} MB", transform=ax.get_yaxis_transform(), va="center")
for precision, name in ((2.0**-24, "single"), (2.0**-53, "double")):
    ax.axvline(precision, color="#777777", linestyle="dashed")
    ax.text(precision, len(others) - 0.4, f" {name} precision")
ax.text(1.02, -0.7, "kernels", transform=ax.get_yaxis_transform(), va="center")
ax.set(xscale="log", xlim=(1e-17, 1e-4), ylim=(len(others) - 0.3, -0.6))
ax.set_xlabel("largest difference of a probability from NumPy, dense")
in_double = others.drop("NumPy, float32")["probabilities off by"].max()
digits = int(-np.log10(in_double))
ax.set_title(f"All ways in double precision agree to {digits} digits", loc="left")
plt.show()

# %% [markdown]
# On the right is what the kernels take. What is streamed holds a block of fixed size, whatever the number of samples
# is. The one way that can be told from
# the others by its numbers is the one whose entries are rounded, and it differs by what was rounded away.
#
# ## Conclusion
#
# * What a fit takes can be counted before it runs: $8 P N^2$ bytes, or $8 P N B$ with $B$ landmarks, and some arrays
#   that grow with $N$. The count is close once the kernels are most of it.
# * `float32` halves the kernels and `compressed` does better where kernels have low rank. Both keep the model.
# * Landmarks are another model, which is the exact one if all samples are landmarks. They turn $N^2$ into $N$.
# * With landmarks the kernels need not be stored, and the rows need not be in memory. None of this changes the
#   numbers beyond rounding, so that a model can be tried out on a part of the data on a laptop and fitted to all of
#   it elsewhere.
#
# What the text says, checked:

# %% tags=["hide-cell"]
folder.cleanup()
held_bytes = storages["kernels, MB"]
assert np.isclose(held_bytes["dense"], counted(N_EXACT)["bytes"] / 1e6)
assert np.isclose(held_bytes["float32"], held_bytes["dense"] / 2)
assert held_bytes["compressed"] < held_bytes["dense"] / 5
assert storages["probabilities off by"].max() < 1e-6
assert (np.diff(ratios["measured / counted bytes"]) < 0).all()
assert ratios["measured / counted bytes"].iloc[-1] < 2.5
assert same < 1e-8
assert best < exact_loss
assert max(loss[N_EXACT, b] for b in BUDGETS) < exact_loss + 0.01
assert saved < 0.5
assert in_double < 1e-9
assert others["probabilities off by"].max() < 1e-6
