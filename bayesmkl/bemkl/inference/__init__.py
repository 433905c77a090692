"""Inference for any BEMKL model: the variational loop, Gibbs sampling and NUTS."""
