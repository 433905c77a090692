"""Two classes with three labels each: boundaries and scores without and with the unlabeled samples."""

import matplotlib.pyplot as plt
import numpy as np
from _drawing import BLUE, DARK, GREY, LIGHT, ORANGE, tidy

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import Gamma
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(2)
y = np.repeat([0, 1], 75)
X = rng.normal(size=(150, 2)) * [1.3, 0.42] + np.where(y, 0.9, -0.9)[:, None] * [0.25, 1]
X = (X - X.mean(axis=0)) / X.std(axis=0)
labeled = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, replace=False) for c in (0, 1)])
labels = np.full(150, -1)
labels[labeled] = y[labeled]
unlabeled = labels == -1

bank = KernelBank(Gaussian(width=1))
same = {"bias_prior": Gamma(1e4, 1), "margin": 1.0, "intermediate_scale": 1.0}
alone = BEMKLClassifier(bank, **same).fit(X[labeled], y[labeled])
model = BEMKLClassifier(bank, **same, unlabeled_label=-1).fit(X, labels)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained", width_ratios=(1.1, 1))
across, along = np.meshgrid(np.linspace(-2.7, 2.7, 60), np.linspace(-2.4, 2.4, 60))
plane = np.column_stack([across.ravel(), along.ravel()])
left.plot(*X[unlabeled].T, ".", color=GREY, markersize=5)
for c, marker, color in ((0, "o", BLUE), (1, "s", ORANGE)):
    left.plot(*X[labels == c].T, marker, color=color, markersize=9, markeredgecolor=DARK)
for fit, line, width in ((alone, "--", 1.5), (model, "-", 2.5)):
    score = fit.predict_latent(plane).reshape(across.shape)
    left.contour(across, along, score, levels=[0], colors=DARK, linestyles=line, linewidths=width)
accuracy = [f"{100 * fit.score(X[unlabeled], y[unlabeled]):.0f} %" for fit in (alone, model)]
left.set(xlabel="first feature (standardized)", ylabel="second feature (standardized)")
finding = f"Six labels alone (dashed): {accuracy[0]} right;"
left.set_title(f"{finding}\nwith unlabeled samples: {accuracy[1]}", fontsize="medium")

scores = [fit.predict_latent(X[unlabeled]) for fit in (alone, model)]
bins = np.arange(np.floor(np.min(scores)), np.ceil(np.max(scores)) + 0.5, 0.5)
right.axvspan(-1, 1, color=LIGHT, linewidth=0)
right.text(0, 0.98, "gap", transform=right.get_xaxis_transform(), ha="center", va="top", color=DARK)
right.hist(scores[0], bins, histtype="step", color=DARK, linestyle="--", linewidth=1.5)
right.hist(scores[1], bins, color=GREY, edgecolor="white", linewidth=0.6)
top = np.histogram(scores[0], bins)[0].max()
right.text(1.2, 0.8 * top, "labels alone", color=DARK)
right.text(0.97, 0.26, "with unlabeled", transform=right.transAxes, ha="right", color=DARK)
inside = [f"{100 * np.mean(np.abs(score) < 1):.0f} %" for score in scores]
right.set(xlabel="score of an unlabeled sample", ylabel="samples", ylim=(0, 1.15 * top))
right.set_title(f"Scores leave the gap:\n{inside[0]} within, then {inside[1]}", fontsize="medium")
tidy(right, "y")
