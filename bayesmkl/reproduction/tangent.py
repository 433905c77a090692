"""One-sided tangent distance between images (Simard, LeCun, Denker & Victorri 1998).

An image that is moved, turned, scaled, sheared or drawn with a thicker pen moves along a curved surface of pixels.
The distance of a second image to the tangent plane of that surface at the first one ignores such changes:
``d(x, z) = min_a ||x + T_x a - z||``, with one column of ``T_x`` per transformation.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

__all__ = ["AFFINE", "TANGENT", "tangent_distances"]

SMOOTHING = 0.9  # pixels: images are smoothed before they are differentiated
AFFINE = ("shift x", "shift y", "scale", "rotate", "stretch along axes", "stretch along diagonals")
TANGENT = (*AFFINE, "thicken")


def tangent_distances(images: np.ndarray, transformations: tuple[str, ...] = TANGENT) -> np.ndarray:
    """Return distances, (n_images, n_images); entry (i, j) is that of image j to the tangent plane at image i.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
    transformations : tuple of str
    """
    pixels = images.reshape(len(images), -1)
    squares = np.empty((len(images), len(images)))
    for i, image in enumerate(images):
        basis = np.linalg.qr(tangents(image, transformations))[0]
        difference = pixels - pixels[i]
        squares[i] = (difference**2).sum(axis=1) - ((difference @ basis) ** 2).sum(axis=1)
    squares[np.diag_indices(len(images))] = 0.0
    return np.sqrt(np.maximum(squares, 0.0))


def tangents(image: np.ndarray, transformations: tuple[str, ...]) -> np.ndarray:
    """Differentiate one image by its transformations, (n_pixels, n_transformations)."""
    along_y, along_x = (gaussian_filter(image, SMOOTHING, order=order) for order in ((1, 0), (0, 1)))
    y, x = (axis - (size - 1) / 2 for axis, size in zip(np.indices(image.shape), image.shape, strict=True))
    fields = {
        "shift x": along_x,
        "shift y": along_y,
        "scale": x * along_x + y * along_y,
        "rotate": y * along_x - x * along_y,
        "stretch along axes": x * along_x - y * along_y,
        "stretch along diagonals": y * along_x + x * along_y,
        "thicken": along_x**2 + along_y**2,
    }
    return np.stack([fields[name].ravel() for name in transformations], axis=1)
