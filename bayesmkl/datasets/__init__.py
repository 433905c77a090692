"""Bundled data sets, synthetic data with known answers, and tables, kernels and gene sets in files."""

from bayesmkl.datasets._bundled import load_diabetes, load_digits_views, load_iris, load_wdbc, load_wine
from bayesmkl.datasets._gene_sets import read_gene_sets
from bayesmkl.datasets._kernel_folder import load_kernels
from bayesmkl.datasets._localized import make_localized
from bayesmkl.datasets._modalities import from_mudata
from bayesmkl.datasets._pathways import make_pathways
from bayesmkl.datasets._rows import RowSource, open_rows
from bayesmkl.datasets._survival import load_gbsg2, load_lung
from bayesmkl.datasets._synthetic import make_ringnorm, make_twonorm, make_waveform
from bayesmkl.datasets._views import make_corrupted, make_multiview

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
