"""
Grades in their order
=====================

The grade of a tumour, from one to three, of 686 women of the German breast cancer study 2, by their age, the size of
the tumour and its hormone receptors. A model of an ordered outcome learns from 250 of them which views say something
of the grade, and how probable each grade is. Grades of the other women come as often as it says, and its ranked
probability score is below that of the frequencies of grades. See :doc:`/guide/outcomes`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import KernelBank
from bayesmkl.datasets import load_gbsg2
from bayesmkl.marginal import GPMKLOrdinalClassifier, Marginal
from bayesmkl.posterior import view_table

N_TRAIN = 250
table, _ = load_gbsg2(return_X_y=True, as_frame=True)
table = table.sample(frac=1.0, random_state=0).reset_index(drop=True)
grade = table["tumour_grade"].to_numpy().astype(int)
receptors = ["progesterone_receptor", "estrogen_receptor"]
views = {
    "person": ["age", "postmenopausal"],
    "tumour": ["tumour_size", "positive_nodes"],
    "receptors": receptors,
}
X = table[[column for own in views.values() for column in own]].copy()
skewed = ["tumour_size", "positive_nodes", *receptors]
X[skewed] = np.log1p(X[skewed])
center, scale = X[:N_TRAIN].mean(), X[:N_TRAIN].std()
X = (X - center) / scale

bank = KernelBank("auto", views=views, normalize="center")
model = GPMKLOrdinalClassifier(bank, inference=Marginal(n_points=256, n_draws=500))
model.fit(X[:N_TRAIN], grade[:N_TRAIN])
probability, known = model.predict_proba(X[N_TRAIN:]), grade[N_TRAIN:]


def ranked_score(probability):
    """Return the mean squared error of the probabilities of at most each grade."""
    reached = np.cumsum(probability, axis=1)[:, :-1]
    return np.mean((reached - (known[:, None] <= model.classes_[:-1])) ** 2)


frequencies = np.mean(grade[:N_TRAIN, None] == model.classes_, axis=0)
everyone = np.tile(frequencies, (len(known), 1))

# %%
# On the left the receptors of a woman change, and all else is the mean of the women. On the right new women are put
# in five bins by their probability of the third grade, with the part of them that has it.

figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
amount = np.geomspace(1.0, 1000.0, 50)
women = X[:50].copy()
women[:] = 0.0
for column in receptors:
    women[column] = (np.log(amount) - center[column]) / scale[column]
for k, of_grade in enumerate(model.predict_proba(women).T, start=1):
    axes[0].plot(amount, of_grade, label=f"grade {k}")
axes[0].set_xscale("log")
axes[0].set_xlabel("fmol of both receptors")
axes[0].set_ylabel("probability")
axes[0].legend()
shares = ", ".join(f"{row.view} {100 * row.share:.0f} %" for row in view_table(model).itertuples())
axes[0].set_title(f"Few receptors, high grades\n{shares}", loc="left", fontsize="medium")

third = probability[:, 2]
bins = np.array_split(np.argsort(third), 5)
said, came = (np.array([values[rows].mean() for rows in bins]) for values in (third, known == 3))
error = [np.sqrt(p * (1.0 - p) / len(rows)) for p, rows in zip(came, bins, strict=True)]
axes[1].errorbar(said, came, np.multiply(error, 1.96), fmt="o", capsize=3)
axes[1].axline((0.0, 0.0), slope=1.0, color="grey", linewidth=1.0)
axes[1].set_xlabel("predicted probability of grade 3")
axes[1].set_ylabel("part of the women")
axes[1].set_xlim(0.0, None)
_ = axes[1].set_title(
    f"{len(known)} new women: ranked probability score {ranked_score(probability):.3f},\n"
    f"of the frequencies alone {ranked_score(everyone):.3f}",
    loc="left",
    fontsize="medium",
)
