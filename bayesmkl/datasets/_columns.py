"""Feature names in column order, and which columns hold categories."""

from __future__ import annotations

from itertools import product

__all__ = ["CATEGORICAL", "MFEAT_VIEWS", "feature_names"]

_CELL = [
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave_points",
    "symmetry",
    "fractal_dimension",
]
_WPBC = [
    "time",
    *[f"{stat}_{c}" for stat in ("mean", "se", "worst") for c in _CELL],
    "tumor_size",
    "lymph_nodes",
]

MFEAT_VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}

_NAMES: dict[str, list[str]] = {
    "breast_wisconsin": [
        "clump_thickness",
        "cell_size_uniformity",
        "cell_shape_uniformity",
        "marginal_adhesion",
        "single_epithelial_cell_size",
        "bare_nuclei",
        "bland_chromatin",
        "normal_nucleoli",
        "mitoses",
    ],
    "breast_ljubljana": [
        "age",
        "menopause",
        "tumor_size",
        "inv_nodes",
        "node_caps",
        "deg_malig",
        "breast",
        "breast_quad",
        "irradiat",
    ],
    "bupaliver": ["mcv", "alkphos", "sgpt", "sgot", "gammagt", "drinks"],
    "pima": ["preg", "plas", "pres", "skin", "insu", "mass", "pedi", "age"],
    "heart_statlog": [
        "age",
        "sex",
        "cp",
        "trestbps",
        "chol",
        "fbs",
        "restecg",
        "thalach",
        "exang",
        "oldpeak",
        "slope",
        "ca",
        "thal",
    ],
    "ionosphere": [f"a{i:02d}" for i in range(1, 35) if i != 2],
    "sonar": [f"energy_{i}" for i in range(1, 61)],
    "australian": [f"A{i}" for i in range(1, 15)],
    "ecoli": ["mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2"],
    "glass": ["RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"],
    "wpbc": _WPBC,
    "german_numeric": [f"attribute_{i}" for i in range(1, 25)],
    "a9a": [f"attribute_{i}" for i in range(1, 124)],
    "mfeat": [f"{view}_{i}" for view, size in MFEAT_VIEWS.items() for i in range(size)],
    "usps": [f"pixel_{row}_{column}" for row, column in product(range(16), repeat=2)],
    "banana": ["at1", "at2"],
    "twonorm": [f"x{i}" for i in range(1, 21)],
    "ringnorm": [f"x{i}" for i in range(1, 21)],
    "waveform": [f"x{i}" for i in range(1, 22)],
    "titanic": ["class", "age", "sex"],
    "thyroid": ["t3_resin_uptake", "thyroxin", "triiodothyronine", "tsh", "tsh_increase"],
    "splice": [f"position_{i}" for i in [*range(-30, 0), *range(1, 31)]],
    "flare": [
        "spot_size",
        "spot_distribution",
        "activity",
        "evolution",
        "previous_activity",
        "historically_complex",
        "became_complex",
        "area",
        "c_class",
        "m_class",
        "x_class",
    ],
    "image": [
        "region_centroid_col",
        "region_centroid_row",
        "short_line_density_5",
        "short_line_density_2",
        "vedge_mean",
        "vedge_sd",
        "hedge_mean",
        "hedge_sd",
        "intensity_mean",
        "rawred_mean",
        "rawblue_mean",
        "rawgreen_mean",
        "exred_mean",
        "exblue_mean",
        "exgreen_mean",
        "value_mean",
        "saturation_mean",
        "hue_mean",
    ],
}

# Columns that `fetch(..., one_hot=True)` expands, one new column per level found in the whole set.
CATEGORICAL: dict[str, list[str]] = {
    "heart_statlog": ["sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal"],
    "australian": ["A1", "A4", "A5", "A6", "A8", "A9", "A11", "A12"],
    "breast_ljubljana": ["menopause", "node_caps", "breast", "breast_quad", "irradiat"],
    "splice": _NAMES["splice"],
    "flare": _NAMES["flare"][:8],
}


def feature_names(name: str) -> list[str] | None:
    """Return the feature names of a set in column order, or None where the data bring their own."""
    return _NAMES.get(name)
