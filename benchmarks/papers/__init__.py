"""The tables of five papers, as scripts: ``python -m benchmarks.papers`` from a clone."""
