"""Base of the estimators of both families."""
