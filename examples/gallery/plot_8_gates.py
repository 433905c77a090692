"""
Kernels that act in their own part of the plane
===============================================

On the left, a line separates the classes. On the right, one class surrounds the other. LMKL learns where each kernel
acts. The plane is tinted by the kernel with the larger gate. See :doc:`/guide/discriminative`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesmkl import KernelBank
from bayesmkl.discriminative import LMKLClassifier, plot_decision
from bayesmkl.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
line = rng.uniform([-6.0, -2.0], [-1.0, 2.0], size=(150, 2))
inner, angle = np.arange(150) % 2 == 1, rng.uniform(0.0, 2.0 * np.pi, size=150)
radius = np.where(inner, 0.3 * np.abs(rng.normal(size=150)), rng.normal(1.1, 0.1, size=150))
ring = np.column_stack([2.5 + radius * np.cos(angle), radius * np.sin(angle)])
X, y = np.concatenate([line, ring]), np.concatenate([line[:, 1] > 0.0, inner])
bank = KernelBank([Linear(), Gaussian(width=0.5)], normalize=None)
model = LMKLClassifier(bank, n_init=3, fallback=False, random_state=0).fit(X, y)
_ = plot_decision(model, X, y, ax=plt.subplots(layout="constrained")[1], resolution=100)
