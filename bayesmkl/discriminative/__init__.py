"""Discriminative multiple kernel learning: kernel weights found together with a support vector machine."""
