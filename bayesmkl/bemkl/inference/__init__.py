"""Inference for any BEMKL model: the variational loop, Gibbs sampling, NUTS and SVI."""
