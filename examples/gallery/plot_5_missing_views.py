"""
Fewer views, wider intervals
============================

Three sensors see the same state, and each is lost in three samples of ten. The model averages over what an absent
sensor may have measured, so new samples with fewer sensors have wider intervals. See :doc:`/guide/missing`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian

rng = np.random.default_rng(0)
state, lost = rng.normal(size=(400, 2)), rng.random(size=(400, 3)) < 0.3
y = np.sin(2 * state[:, 0]) + state[:, 1] + 0.1 * rng.normal(size=400)
X = np.hstack([state, state, state]) + 0.4 * rng.normal(size=(400, 6))
X[np.repeat(lost, 2, axis=1)] = np.nan
bank = KernelBank(Gaussian(width=1), views={"sonar": [0, 1], "radar": [2, 3], "camera": [4, 5]})
model = GPMKLRegressor(bank, missing_views="integrate", random_state=0).fit(X[:200], y[:200])
std, n_lost = model.predict(X[200:], return_std=True)[1], lost[200:].sum(axis=1)
_, ax = plt.subplots(layout="constrained")
ax.boxplot([std[n_lost == n] for n in range(3)], positions=range(3))
_ = ax.set(xlabel="lost sensors of three", ylabel="predictive standard deviation", ylim=(0, None))
