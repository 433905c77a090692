"""Stacks of kernels: the same contractions, however the kernels are held."""
