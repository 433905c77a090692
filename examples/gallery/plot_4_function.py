"""
The effect of one feature
=========================

How does the progression of diabetes depend on the body mass index, given the blood pressure and a blood lipid? The
band is a 94 % interval. See :doc:`/guide/reading`.
"""

import matplotlib.pyplot as plt

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.datasets import load_diabetes
from bayesmkl.posterior import contributions, plot_component

data = load_diabetes(as_frame=True)
X, y = data.data[["bmi", "bp", "s5"]], data.target
bank = KernelBank("auto", views="each", normalize="center")
model = GPMKLRegressor(bank, random_state=0).fit(X, y)
_, ax = plt.subplots(layout="constrained")
plot_component(contributions(model, X, random_state=0), "bmi", X["bmi"], ax=ax)
_ = ax.set_xlabel("body mass index")
