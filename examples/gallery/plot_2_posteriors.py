"""
Fast and exact posteriors
=========================

Two models have the same kernels. GPMKL draws the kernel weights from their posterior. BEMKL is faster, and its
variational intervals are too narrow. See :doc:`/guide/reading`.
"""

import arviz_plots
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import to_datatree

X, y = load_wdbc(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[::3], y[::3]
views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
bank = KernelBank(Gaussian(width=4), views=views)
models = {"GPMKL": GPMKLClassifier(bank, together=False, random_state=0), "BEMKL": BEMKLClassifier(bank)}
draws = {name: to_datatree(model.fit(X, y), n_draws=1000, random_state=0) for name, model in models.items()}
shares = {"var_names": "kernel_shares", "labels": ["kernel"], "figure_kwargs": {"figsize": (10, 4)}}
arviz_plots.plot_forest(draws, **shares, backend="matplotlib").add_legend("model")
