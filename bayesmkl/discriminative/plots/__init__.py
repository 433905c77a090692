"""Plots of what discriminative methods, localized ones above all, decide for each sample."""

from __future__ import annotations

from bayesmkl.discriminative.plots.decision import plot_decision
from bayesmkl.discriminative.plots.gates import plot_gates, plot_switches

__all__ = ["plot_decision", "plot_gates", "plot_switches"]
