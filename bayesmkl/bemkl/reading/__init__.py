"""Summaries of a posterior: predictive distributions, draws, kernel shares."""
