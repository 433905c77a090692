"""Discriminative methods as scikit-learn estimators: constructor, documentation and one hook each."""
