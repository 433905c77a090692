"""BEMKL models as scikit-learn estimators."""
