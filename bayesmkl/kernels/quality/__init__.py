"""Quality of kernels: definiteness, near-identity, duplicates, and repairs."""
