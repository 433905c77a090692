"""The posterior of a fitted model: tables, draws, ArviZ data, plots."""

from __future__ import annotations

from bayesmkl.posterior.convert import load_posterior, save_posterior, to_datatree
from bayesmkl.posterior.plots import plot_elbo, plot_kernel_weights
from bayesmkl.posterior.prediction_plots import plot_predictions, plot_reliability
from bayesmkl.posterior.reliability import Reliability, reliability
from bayesmkl.posterior.sample import sample_posterior
from bayesmkl.posterior.summary import kernel_table, view_table

__all__ = [
    "Reliability",
    "kernel_table",
    "load_posterior",
    "plot_elbo",
    "plot_kernel_weights",
    "plot_predictions",
    "plot_reliability",
    "reliability",
    "sample_posterior",
    "save_posterior",
    "to_datatree",
    "view_table",
]
