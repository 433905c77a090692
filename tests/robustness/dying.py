"""Models that end their process when they are fitted."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Dying(ClassifierMixin, BaseEstimator):
    """A classifier that ends its process in one of several ways, at some number of training samples only.

    With a `marker`, it dies only as long as that file exists.
    """

    def __init__(self, how="SIGKILL", n_samples=None, marker=None):
        self.how, self.n_samples, self.marker = how, n_samples, marker

    def fit(self, X, y):
        """Die, or learn the most frequent class."""
        here = self.n_samples in (None, len(X)) and (self.marker is None or Path(self.marker).exists())
        if here:
            getattr(self, f"_{self.how}")()
        labels, counts = np.unique(y, return_counts=True)
        self.classes_, self.label_ = labels, labels[counts.argmax()]
        return self

    def predict(self, X):
        """Return the most frequent class."""
        return np.repeat(self.label_, len(X))

    def _SIGKILL(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self):
        os._exit(3)

    def _segfault(self):
        faulthandler.disable()
        ctypes.string_at(0)

    def _sysexit(self):
        sys.exit(4)

    def _sleep(self):
        time.sleep(60)
