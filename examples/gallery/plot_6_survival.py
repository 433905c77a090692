"""
Survival curves with bands
==========================

Survival of three patients of a lung cancer study, with 94 % bands. See :doc:`/guide/outcomes`.
"""

import matplotlib.pyplot as plt

from bayesmkl import KernelBank
from bayesmkl.datasets import load_lung
from bayesmkl.evaluation.plots import plot_survival_functions
from bayesmkl.gp import GPMKLSurvival

X, y = load_lung(return_X_y=True, as_frame=True)
X = X.drop(columns=["institution", "weight_loss", "meal_calories"]).dropna()
y, X = y[X.index], (X - X.mean()) / X.std()
model = GPMKLSurvival(KernelBank("auto", views="each"), random_state=0).fit(X, y)
chosen = model.predict(X).argsort()[[5, len(X) // 2, -5]]
days = range(0, 1001, 20)
curves = model.predict_survival_function(X.iloc[chosen], days, ci_prob=0.94)
_, ax = plt.subplots(layout="constrained")
plot_survival_functions(days, *curves, y=y, names=["low risk", "middle", "high risk"], ax=ax)
_ = ax.set_xlabel("days")
