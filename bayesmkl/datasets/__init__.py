"""Bundled data sets, synthetic data with known answers, and tables, kernels and gene sets in files."""

from bayesmkl.datasets._bundled import (
    load_diabetes,
    load_digits_views,
    load_gbsg2,
    load_iris,
    load_lung,
    load_wdbc,
    load_wine,
)
from bayesmkl.datasets._files import from_mudata, load_kernels, read_gene_sets
from bayesmkl.datasets._rows import RowSource, open_rows
from bayesmkl.datasets._synthetic import (
    make_corrupted,
    make_localized,
    make_multiview,
    make_pathways,
    make_ringnorm,
    make_twonorm,
    make_waveform,
)

__all__ = [
    "RowSource",
    "from_mudata",
    "load_diabetes",
    "load_digits_views",
    "load_gbsg2",
    "load_iris",
    "load_kernels",
    "load_lung",
    "load_wdbc",
    "load_wine",
    "make_corrupted",
    "make_localized",
    "make_multiview",
    "make_pathways",
    "make_ringnorm",
    "make_twonorm",
    "make_waveform",
    "open_rows",
    "read_gene_sets",
]
