"""Methods whose kernel weights depend on the sample."""
