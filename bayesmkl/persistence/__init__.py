"""Models in files, without pickle: a file holds data and type names, and only known types are ever built from it."""

from bayesmkl.persistence.files import load_model, save_model
from bayesmkl.persistence.known_types import SavedOutcome  # noqa: F401  # files call it by this name

__all__ = ["load_model", "save_model"]
