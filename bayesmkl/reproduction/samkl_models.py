"""Methods in the tables of the SAMKL paper, for precomputed kernels."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from bayesmkl.discriminative import (
    LpMKLClassifier,
    SAMKLClassifier,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.evaluation.study import DataRef
from bayesmkl.reproduction.tables import PaperSet, Setting, references, set_name

__all__ = ["NORMALIZED", "PAPER", "convex", "switching", "wanted_fast"]

PAPER = "X. Liu, L. Wang, J. Zhang and J. Yin (2014), Sample-adaptive multiple kernel learning, AAAI"
GAP = 1e-2  # relative duality gap of all convex problems, the default of SAMKL
NORMALIZED = "scores divided by τ"


def convex(C: float = 1.0) -> dict[str, Any]:
    """Return the estimators of table 2 for kernels, but for SAMKL."""
    found: dict[str, Any] = {"SimpleMKL": SimpleMKLClassifier("precomputed", C=C, tol=GAP)}
    for p_norm in (2, 4, 8):
        found[f"LpMKL, p = {p_norm}"] = LpMKLClassifier("precomputed", C=C, p_norm=float(p_norm), tol=GAP)
    return found | {"UMKL": UniformMKLClassifier("precomputed", C=C)}


def switching(max_switches: int, C: float = 1.0) -> dict[str, Any]:
    """Return SAMKL as published, and with scores divided by the margins of their patterns."""
    plain = SAMKLClassifier("precomputed", C=C, max_switches=max_switches, gap_tol=GAP)
    return {"SAMKL": plain, "SAMKL, normalized": clone(plain).set_params(normalize=True)}


def wanted_fast(sets: tuple[PaperSet, ...], names: tuple[str, ...], setting: Setting) -> dict[str, DataRef]:
    """Return the references of all sets, or of the named ones in a fast run."""
    found = references(sets, setting)
    if not setting.fast or setting.sets is not None:
        return found
    return {label: reference for label, reference in found.items() if set_name(label) in names}
