"""The posterior of a fitted model: tables, draws, ArviZ data, plots."""

from __future__ import annotations

from bayesmkl.posterior.checks import Reliability, reliability
from bayesmkl.posterior.contributions import contributions, feature_table
from bayesmkl.posterior.convert import load_posterior, sample_posterior, save_posterior, to_datatree
from bayesmkl.posterior.diagnose import Diagnosis, diagnose
from bayesmkl.posterior.effects import contrast, overall_effect
from bayesmkl.posterior.fitted import predict_latent, predict_quantile, predict_survival_function
from bayesmkl.posterior.loo import compare_loo
from bayesmkl.posterior.plots import (
    plot_component,
    plot_contributions,
    plot_effects,
    plot_elbo,
    plot_features,
    plot_kernel_weights,
    plot_overall_effect,
    plot_predictions,
    plot_reliability,
    plot_views,
    plot_waterfall,
)
from bayesmkl.posterior.refine import TwinCheck, check_twin, refine_posterior
from bayesmkl.posterior.relevance import interaction_table, relevance
from bayesmkl.posterior.summary import summary, view_table
from bayesmkl.posterior.tables import effect_table, kernel_table, task_table
from bayesmkl.posterior.verdicts import verdicts
from bayesmkl.posterior.views import inclusion_table, permutation_table, value_of_view

__all__ = [
    "Diagnosis",
    "Reliability",
    "TwinCheck",
    "check_twin",
    "compare_loo",
    "contrast",
    "contributions",
    "diagnose",
    "effect_table",
    "feature_table",
    "inclusion_table",
    "interaction_table",
    "kernel_table",
    "load_posterior",
    "overall_effect",
    "permutation_table",
    "plot_component",
    "plot_contributions",
    "plot_effects",
    "plot_elbo",
    "plot_features",
    "plot_kernel_weights",
    "plot_overall_effect",
    "plot_predictions",
    "plot_reliability",
    "plot_views",
    "plot_waterfall",
    "predict_latent",
    "predict_quantile",
    "predict_survival_function",
    "refine_posterior",
    "relevance",
    "reliability",
    "sample_posterior",
    "save_posterior",
    "summary",
    "task_table",
    "to_datatree",
    "value_of_view",
    "verdicts",
    "view_table",
]
