"""
The bound rises, with and without acceleration
==============================================

A sweep updates every factor of the posterior once and never lowers the evidence lower bound. Acceleration
extrapolates from the last sweeps and keeps what is higher. Both fits start at the same place and do the same number
of iterations; the curves show how far the bound still is from the highest of the two. Extrapolations that were
rejected count as sweeps.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import VB
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, Linear, Polynomial

SWEEPS = 200

X, y = load_wdbc(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[::4], y[::4]
bank = KernelBank([Gaussian(width=2), Gaussian(width=4), Gaussian(width=8), Polynomial(degree=2), Linear()])
plain, fast = (
    BEMKLClassifier(
        bank, intermediate_scale=1.0, inference=VB(accelerate=accelerate), tol=0.0, max_iter=SWEEPS
    )
    .fit(X, y)
    .elbo_history_
    for accelerate in (False, True)
)

# %%
# The sweep at which the accelerated fit passes the end of the plain one:

best = max(plain[-1], fast[-1])
passed = 1 + int(np.argmax(fast >= plain[-1]))

figure, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
sweeps = np.arange(1, SWEEPS + 1)
ax.plot(sweeps, best - plain, color="#D55E00", linestyle="--", linewidth=1.8, label="plain")
ax.plot(sweeps, best - fast, color="#0072B2", linestyle="-", linewidth=1.8, label="accelerated")
ax.plot(passed, best - fast[passed - 1], color="black", marker="o", linestyle="", label=f"sweep {passed}")
ax.set(xscale="log", yscale="log", ylim=(0.05, None))
ax.set_xlabel("iteration")
ax.set_ylabel("ELBO below the highest (nats)")
ax.set_title(f"{passed} accelerated sweeps reach what {SWEEPS} plain ones do", loc="left")
ax.legend(frameon=False)
_ = ax.grid(color="#DDDDDD", linewidth=0.7)
