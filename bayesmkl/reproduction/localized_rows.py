"""Published numbers of the unified view of localized kernel learning (Moeller et al. 2016, tables 2 to 4)."""

from __future__ import annotations

__all__ = ["ALL", "LOCALIZED", "MWU_SECONDS", "SECONDS", "SUPPORT", "WITH_LIBSVM", "WITH_MWU", "Row"]

LOCALIZED = ("LMKL", "SwMKL", "LD-MKL", "C-LMKL")  # columns of tables 2 and 3
ALL = ("SwMKL", "LD-MKL", "LMKL", "C-LMKL", "MWUMKL", "Uniform", "GMKL")  # columns of table 4

# In %, by set: mean and standard deviation of each method in the order of the columns; None where there is a dash.
Row = tuple[tuple[float, float] | None, ...]

WITH_LIBSVM: dict[str, Row] = {  # table 2: LMKL, SwMKL, LD-MKL, C-LMKL
    "breast": ((96.58, 1.35), (97.1, 1.1), (97.1, 1.2), (96.7, 1.1)),
    "diabetes": ((74.71, 3.07), (77.0, 2.7), (76.7, 2.56), (76.4, 2.4)),
    "german": ((70.78, 2.85), (75.7, 2.4), (75.84, 2.51), (76.8, 1.6)),
    "liver": ((62.49, 5.92), (69.3, 5.0), (65.19, 5.81), (57.7, 5.1)),
    "mushrooms": ((99.99, 0.0), (99.9, 0.0), (100.0, 0.0), (100.0, 0.0)),
    "gisette": ((97.22, 0.34), (97.06, 0.35), (96.88, 0.46), (96.5, 0.28)),
    "adult": (None, (84.6, 0.37), (84.78, 0.4), (84.65, 0.83)),
}
WITH_MWU: dict[str, Row] = {  # table 3: the same columns
    "breast": ((97.08, 1.1), (96.42, 1.6), (93.4, 2.2), (90.4, 2.4)),
    "diabetes": ((73.19, 3.39), (76.63, 2.9), (77.0, 3.4), (71.1, 10.0)),
    "german": ((70.07, 3.1), (72.2, 3.29), (73.0, 3.8), (73.4, 4.1)),
    "liver": ((56.82, 6.53), (59.63, 10.47), (58.8, 8.0), (49.7, 6.3)),
    "mushrooms": ((99.87, 0.1), (99.9, 0.0), (99.9, 0.1), (98.8, 0.24)),
    "gisette": ((97.28, 0.4), (69.96, 2.01), (92.2, 0.8), (90.26, 1.2)),
    "adult": ((57.4, 5.31), (83.96, 0.61), (80.2, 0.8), (84.65, 0.35)),
}
SUPPORT: dict[str, Row] = {  # table 4: SwMKL, LD-MKL, LMKL, C-LMKL, MWUMKL, Uniform, GMKL
    "breast": ((11.4, 1.0), (12.9, 1.1), (38.0, 3.5), (10.8, 1.1), (21.0, 1.4), (70.2, 1.9), (15.1, 1.0)),
    "diabetes": ((55.2, 1.3), (56.4, 1.3), (58.0, 1.7), (73.9, 10.0), (79.1, 1.7), (70.0, 2.0), (61.9, 1.2)),
    "german": ((52.2, 3.3), (43.4, 2.4), (89.2, 2.8), (99.8, 0.3), (81.7, 1.1), (60.8, 1.6), (68.4, 1.4)),
    "liver": ((82.2, 1.7), (70.2, 7.3), (63.1, 2.3), (88.1, 2.7), (92.2, 1.6), (89.6, 2.6), (84.2, 1.9)),
    "mushrooms": ((4.3, 0.2), (8.1, 0.8), (1.9, 0.1), (4.0, 0.3), (22.6, 0.1), (96.4, 0.8), (15.2, 0.2)),
    "gisette": ((20.8, 0.3), (31.9, 0.2), (32.3, 0.8), (26.3, 0.5), (36.9, 0.0), (99.4, 0.3), (46.2, 0.3)),
    "adult": ((35.6, 0.2), (37.4, 0.2), None, (35.4, 0.2), (40.4, 0.0), (48.2, 0.2), (41.7, 0.1)),
}
SECONDS: dict[str, tuple[float | None, ...]] = {  # table 2, of one fit on eight cores of 2013
    "breast": (122.0, 0.15, 0.14, 28.7),
    "diabetes": (157.6, 0.18, 0.24, 36.8),
    "german": (216.0, 0.27, 0.38, 69.6),
    "liver": (35.4, 0.1, 0.83, 7.4),
    "mushrooms": (17.27 * 60, 14.57, 3.1, 2.43 * 3600),
    "gisette": (48.6 * 60, 4.54 * 60, 4.0 * 60, 3.4 * 3600),
    "adult": (None, 6.65 * 60, 6.52 * 60, 7.5 * 3600),
}
MWU_SECONDS: dict[str, tuple[float | None, ...]] = {  # table 3
    "breast": (0.18, 0.18, 0.63, 5.6),
    "diabetes": (0.27, 0.29, 0.48, 7.2),
    "german": (0.63, 0.62, 1.0, 16.3),
    "liver": (0.13, 0.11, 0.3, 1.45),
    "mushrooms": (24.4, 21.3, 53.0, 31.4 * 60),
    "gisette": (8.2 * 60, 8.91 * 60, 29.0 * 60, 28.5 * 60),
    "adult": (9.4 * 60, 9.1 * 60, 12.3 * 60, 47.65 * 60),
}
