"""The posterior of a fitted model: tables, draws, ArviZ data, plots."""

from __future__ import annotations

from bayesmkl.posterior.checks import Reliability, reliability
from bayesmkl.posterior.contributions import contributions
from bayesmkl.posterior.convert import load_posterior, sample_posterior, save_posterior, to_datatree
from bayesmkl.posterior.diagnose import Diagnosis, diagnose
from bayesmkl.posterior.features import feature_table
from bayesmkl.posterior.fitted import predict_latent, predict_quantile, predict_survival_function
from bayesmkl.posterior.inclusion import inclusion_table
from bayesmkl.posterior.loo import compare_loo
from bayesmkl.posterior.permutation import permutation_table
from bayesmkl.posterior.plots import (
    plot_component,
    plot_contributions,
    plot_elbo,
    plot_features,
    plot_kernel_weights,
    plot_waterfall,
)
from bayesmkl.posterior.prediction_plots import plot_predictions, plot_reliability
from bayesmkl.posterior.refine import refine_posterior
from bayesmkl.posterior.relevance import interaction_table, relevance
from bayesmkl.posterior.tables import effect_table, kernel_table, task_table, view_table
from bayesmkl.posterior.twin import TwinCheck, check_twin
from bayesmkl.posterior.value import value_of_view

__all__ = [
    "Diagnosis",
    "Reliability",
    "TwinCheck",
    "check_twin",
    "compare_loo",
    "contributions",
    "diagnose",
    "effect_table",
    "feature_table",
    "inclusion_table",
    "interaction_table",
    "kernel_table",
    "load_posterior",
    "permutation_table",
    "plot_component",
    "plot_contributions",
    "plot_elbo",
    "plot_features",
    "plot_kernel_weights",
    "plot_predictions",
    "plot_reliability",
    "plot_waterfall",
    "predict_latent",
    "predict_quantile",
    "predict_survival_function",
    "refine_posterior",
    "relevance",
    "reliability",
    "sample_posterior",
    "save_posterior",
    "task_table",
    "to_datatree",
    "value_of_view",
    "view_table",
]
