"""
Kernels that are switched off for single samples
================================================

Six good kernels each took three samples of ten for other ones. SAMKL may switch off ``max_switches`` kernels
for every training sample, without being told which samples were mixed up. The first picture has what is true, the
second what SAMKL switches off. The broken line divides the classes: a kernel that is off on one side of it far more
often than on the other fits the labels, which new samples do not bring along. See :doc:`/algorithms/localized`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative import SAMKLClassifier, plot_switches

N_TRAIN, BUDGETS = 120, (0, 1, 2, 3)
SEPARATIONS = {"good kernels": (2,) * 6, "weak kernels": (1, 1, 0.7, 0.7, 0.5, 0.5)}  # of the classes

samples, models = {}, {}
for name, separations in SEPARATIONS.items():
    sample = make_corrupted(720, corruption="kernels", fraction=0.3, separations=separations, random_state=0)
    K, y = sample.kernels[:N_TRAIN, :N_TRAIN], sample.target[:N_TRAIN]
    samples[name] = sample
    of_budget = [
        SAMKLClassifier("precomputed", C=10, max_switches=m, ties="largest", fallback=False) for m in BUDGETS
    ]
    models[name] = [model.fit(K, y) for model in of_budget]

y, mixed_up = samples["good kernels"].target[:N_TRAIN], samples["good kernels"].corrupted[:N_TRAIN]
switches, weights = models["good kernels"][1].kernel_switches_, models["good kernels"][1].kernel_weights_
order = np.argsort(y, kind="stable")

figure, axes = plt.subplots(1, 2, figsize=(8.6, 5.6), layout="constrained", sharey=True)
panels = {
    "the truth: off where mixed up": ~mixed_up,
    "what SAMKL switches off, at most one per sample": switches,
}
for ax, (text, on) in zip(axes, panels.items(), strict=True):
    plot_switches(on[order], weights, ax=ax)
    ax.set_title(text, loc="left", fontsize="medium", pad=56)  # above the legend
    ax.axhline((y < 0).sum() - 0.5, color="#D55E00", linestyle="--", linewidth=1.5)
axes[0].set_ylabel("training sample, sorted by class")
axes[1].set_ylabel("")
_ = figure.suptitle(
    f"{100 * mixed_up[~switches].mean():.0f} % of the pairs that are switched off were mixed up, "
    f"of all pairs {100 * mixed_up.mean():.0f} %",
    x=0.01,
    ha="left",
)

# %%
# Does it help with new samples?
# ------------------------------
# A new sample gets the pattern of switches of some training sample. Kernels that tell the classes apart less well
# give less to go by, and more room to fit the labels. Let cross-validation choose the budget, with 0 among the
# candidates.

figure, axes = plt.subplots(1, 2, figsize=(7.8, 4.6), layout="constrained", sharey=True)
findings = []
for ax, (name, sample) in zip(axes, samples.items(), strict=True):
    K_new, y_new = sample.kernels[N_TRAIN:, :N_TRAIN], sample.target[N_TRAIN:]
    wrong_pairs, off = sample.corrupted[:N_TRAIN], [~model.kernel_switches_ for model in models[name]]
    right = [100 * model.score(K_new, y_new) for model in models[name]]
    hits = [100 * wrong_pairs[one].mean() for one in off[1:]]  # with a budget of 0 nothing is off
    found = [100 * one[wrong_pairs].mean() for one in off]
    ax.plot(BUDGETS, right, color="#0072B2", marker="o", label="new samples that are right, of all")
    ax.plot(BUDGETS[1:], hits, color="#D55E00", marker="s", linestyle="--", label="mixed up, of pairs off")
    ax.plot(BUDGETS, found, color="#555555", marker="D", linestyle=":", label="off, of pairs mixed up")
    ax.set_xticks(BUDGETS)
    ax.set_ylim(0, 100)
    ax.set_xlabel("max_switches (kernels per sample)")
    ax.set_title(name.capitalize(), loc="left", fontsize="medium")
    findings.append(f"{right[0]:.0f} and {min(right[1:]):.0f} % with {name}")
axes[0].set_ylabel("share (%)")
axes[0].legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.16))
_ = figure.suptitle(
    f"New samples that are right, without switches and with the worst budget:\n{findings[0]}, {findings[1]}",
    x=0.01,
    ha="left",
    fontsize="medium",
)
