"""Estimators of marginal inference."""
