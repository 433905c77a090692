"""
Survival curves with bands
==========================

Times to recurrence of simulated patients, with the views of the German breast cancer study 2. Hormone receptors,
lymph nodes and treatment say when a tumour comes back, age does not; for many patients the study ends first. A model
learns from 150 of them which views matter, and predicts a curve with its band for new ones. See
:doc:`/guide/outcomes`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import KernelBank
from bayesmkl.evaluation import survival_calibration
from bayesmkl.evaluation.plots import plot_survival_calibration, plot_survival_functions
from bayesmkl.marginal import GPMKLSurvival, Marginal
from bayesmkl.posterior import view_table

N, N_TRAIN, AT = 686, 150, 3.0
rng = np.random.default_rng(0)
views = {"person": [0, 1], "tumour": [2, 3], "receptors": [4, 5], "treatment": [6]}
X = rng.normal(size=(N, 7))  # age, menopause; size, nodes; progesterone, estrogen; hormone therapy
log_time = 1.6 + 0.9 * np.tanh(2.0 * X[:, 4]) - 0.6 * X[:, 3] + 0.4 * X[:, 6] + 0.4 * rng.logistic(size=N)
years, followed = np.exp(log_time), rng.uniform(1.0, 8.0, size=N)
y = np.rec.fromarrays([years <= followed, np.minimum(years, followed)], names="recurrence,years")
X_new, y_new = X[N_TRAIN:], y[N_TRAIN:]

bank = KernelBank("auto", views=views)
model = GPMKLSurvival(bank, inference=Marginal(n_points=256, n_draws=500)).fit(X[:N_TRAIN], y[:N_TRAIN])
table = view_table(model)

figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
grid = np.linspace(0.0, 8.0, 60)
risk = model.predict(X_new)
chosen = np.argsort(risk)[[20, len(risk) // 2, -20]]
curves = model.predict_survival_function(X_new[chosen], grid, ci_prob=0.94)
names = ["low risk", "middle", "high risk"]
plot_survival_functions(grid, *curves, y=y[:N_TRAIN], names=names, ax=axes[0])
axes[0].set_xlabel("years")
shares = ", ".join(f"{row.view} {100 * row.share:.0f} %" for row in table.itertuples())
axes[0].set_title(f"Three new patients, with 94 % bands\n{shares}", loc="left", fontsize="medium")

predicted = model.predict_survival_function(X_new, [AT])[:, 0]
found = survival_calibration(y_new, predicted, AT)
plot_survival_calibration(found, ax=axes[1])
verdict = "inside" if found.calibrated else "not all inside"
_ = axes[1].set_title(
    f"{len(X_new)} new patients after {AT:.0f} years: bins are {verdict}\n"
    f"the band of a calibrated model, concordance {model.score(X_new, y_new):.2f}",
    loc="left",
    fontsize="medium",
)
