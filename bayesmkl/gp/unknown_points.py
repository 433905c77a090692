r"""Additive Gaussian processes of samples that lack views: components there are functions of points that are unknown.

The points of absent views are integrated out as far as two moments go. With :math:`g \sim GP(0, k)` and points
:math:`x_i` that are random given the present views of a sample, :math:`g(x_i)` has mean zero and

.. math:: \operatorname{Cov}(g(x_i), g(x_j)) = E[k(x_i, x_j)] = \langle \mu_i, \mu_j \rangle , \qquad
   \operatorname{Var} g(x_i) = E[k(x_i, x_i)] = \|\mu_i\|^2 + r_i ,

where :math:`\mu_i` is the expected image of the point in the feature space of `k` and :math:`r_i` the variance of
the image around it. Functions of different kernels are independent, so that their values are uncorrelated also at the
same unknown point. The exact distribution is a mixture over points; the normal one with its moments takes its place.

Kernels are centered on the training samples that have their view. About a sample of which nothing else is known
:math:`\mu = 0`, therefore, and :math:`r` is the mean self-similarity: its component keeps its prior, and has nothing
to do with that of any other sample. (In a kernel that is not centered the zeros would be wrong: random samples have a
similarity of their own.) What present views say of an absent one is learned from samples that have both, by a
regression of images on the other views, itself an additive Gaussian process:

.. math:: \mu_i = \sum_l \beta_{il} \phi(x_l), \qquad \beta_i = A^{-1} h G_{\cdot i}, \qquad
   A = h G + (1 - h) I, \qquad r_i = \bar d \, (h G_{ii} + 1 - h - h G_{i \cdot} \beta_i) ,

over the training samples that have the view. `G` is the mean kernel of the other views, in units of their variances;
where one of these is absent, it has a diagonal of one and zeros. :math:`\bar d` is the mean self-similarity, and `h`
the part of the variance of images that other views tell, chosen by the density of each image given those of the
others. With :math:`h = 0` views have nothing to do with each other.

If an absent view were measured, what is expected of other absent ones would change too. Where its point is that of
training sample `j`, the similarities :math:`G_{\cdot i}` of another absent view gain those of `j` in the measured
one, and :math:`\beta_i` gains :math:`A^{-1} h` times this, without the part of `j` itself, which no new sample
repeats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array

CONSTANT = 1e-10  # part of a kernel around its mean that is rounding error
# parts of the variance of images that are tried
PREDICTABLE = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99])


class KernelCenters(NamedTuple):
    """Where the origins of kernels move to: the mean of the training samples that have what a kernel compares.

    Attributes
    ----------
    mean : ndarray of shape (n_kernels, n_train)
        Mean similarity of each training sample with them; zero where it lacks the view.
    grand_mean : ndarray of shape (n_kernels,)
        Its mean over them.
    share : ndarray of shape (n_kernels, n_train)
        Weights of the mean: one over their number, zero where a sample lacks the view.
    spread : ndarray of shape (n_kernels,)
        Their mean self-similarity around the mean; exactly zero of kernels that are constant among them.
    """

    mean: np.ndarray
    grand_mean: np.ndarray
    share: np.ndarray
    spread: np.ndarray

    def rows(self, stack: DenseStack) -> DenseStack:
        """Return centered kernels of rows against the training samples, zero where a view is absent.

        Parameters
        ----------
        stack : DenseStack
            Zero at absent rows and columns.
        """
        half = 0.5 * self.grand_mean[:, None]
        of_rows = stack.apply(self.share[..., None]) - half
        kernels = stored_array(stack) - of_rows[..., None]
        kernels -= (self.mean - half)[:, None]
        kernels *= (self.share > 0.0)[:, None]
        if stack.present is not None:
            kernels *= stack.present[..., None]
        kernels[self.spread == 0.0] = 0.0
        return stack._replace(kernels=kernels)

    def diagonal(self, stack: DenseStack, diagonal: np.ndarray) -> np.ndarray:
        """Return similarities of rows to themselves after centering, zero where a view is absent.

        Parameters
        ----------
        stack : DenseStack
            Kernels of the rows before centering.
        diagonal : ndarray of shape (n_kernels, n_rows)
            The same before centering; anything where a view is absent.
        """
        centered = diagonal - 2.0 * stack.apply(self.share[..., None]) + self.grand_mean[:, None]
        present = True if stack.present is None else stack.present
        return np.where(present & (self.spread > 0.0)[:, None], np.maximum(centered, 0.0), 0.0)


def find_centers(stack: DenseStack, counts: np.ndarray | None = None) -> KernelCenters:
    """Find the centers of training kernels.

    Parameters
    ----------
    stack : DenseStack
        Square, zero at absent rows and columns; `present` says what is there, None: everything.
    counts : ndarray of shape (n_train,), optional
        How often samples count, above zero; None is once each.
    """
    present = _present(stack) if counts is None else _present(stack) * counts
    share = present / present.sum(axis=1, keepdims=True)
    mean = stack.apply(share[..., None])
    grand_mean = (share * mean).sum(axis=1)
    diagonal = (share * stack.diagonal()).sum(axis=1)
    spread = np.where(diagonal - grand_mean > CONSTANT * np.abs(diagonal), diagonal - grand_mean, 0.0)
    return KernelCenters(mean, grand_mean, share, spread)


class Images(NamedTuple):
    """What present views of new samples say of the points of all views.

    Attributes
    ----------
    similar : ndarray of shape (n_views, n_rows, n_train)
        Mean kernel of the other views.
    weights : ndarray of shape (n_views, n_rows, n_train)
        Of training samples in expected images.
    rest : ndarray of shape (n_views, n_rows)
        Variance of images around them, in units.
    """

    similar: np.ndarray
    weights: np.ndarray
    rest: np.ndarray


class CompletedKernels:
    """Covariances of functions at training samples, and of new ones with them, where some points are unknown.

    Parameters
    ----------
    stack : DenseStack
        Centered training kernels, zero at absent rows and columns.
    spread : ndarray of shape (n_kernels,)
        As of `KernelCenters`.
    views : ndarray of int of shape (n_kernels,)
        Number of the view of each kernel, from zero.
    told : ndarray of shape (n_views,), optional
        The part `h` of the variance of each view's images that other views tell; None: it is found.
    counts : ndarray of shape (n_train,), optional
        How often samples count, above zero; None is once each. In the regression of images a sample of weight `v` is
        `v` equal ones: the term :math:`1 - h` of its diagonal is divided by `v`. In covariances it is a single one:
        its lost points are those of all of its copies.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> from bayesmkl.gp.unknown_points import CompletedKernels, find_centers
    >>> kernels = np.array([[[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> stack = DenseStack(kernels, np.array([[True, True, False]]))
    >>> centers = find_centers(stack)
    >>> CompletedKernels(centers.rows(stack), centers.spread, np.array([0])).training.kernels[0]
    array([[ 1.5, -1.5,  0. ],
           [-1.5,  1.5,  0. ],
           [ 0. ,  0. ,  1.5]])
    """

    training: DenseStack  # covariances of functions at the training samples
    told: np.ndarray

    def __init__(
        self,
        stack: DenseStack,
        spread: np.ndarray,
        views: np.ndarray,
        told: np.ndarray | None = None,
        counts: np.ndarray | None = None,
    ) -> None:
        self.stack, self.spread, self.views = stack, spread, views
        self.counts = np.ones(stack.n_train) if counts is None else counts
        self.present = _present(stack)
        by_view, own = self._by_view(stack, stack.diagonal())
        np.einsum("vii->vi", by_view)[...] = own  # of absent views too
        self.have = np.array([self.present[views == v].all(axis=0) for v in range(len(by_view))])
        blocks = [
            others[np.ix_(have, have)] for others, have in zip(self._others(by_view), self.have, strict=True)
        ]
        if told is None:
            own_blocks = (kernel[np.ix_(have, have)] for kernel, have in zip(by_view, self.have, strict=True))
            own_counts = (self.counts[have] for have in self.have)
            told = np.array(
                [predictability(*own) for own in zip(own_blocks, blocks, own_counts, strict=True)]
            )
        self.told = told
        self._factors = [
            linalg.cho_factor(plus_diagonal(block, (1.0 - h) / self.counts[have], h)) if h else None
            for block, h, have in zip(blocks, told, self.have, strict=True)
        ]
        self._weights = self._regressed(self._others(by_view), own)
        kernels = self._complete(stored_array(stack), self.present)
        m, i = np.nonzero(~self.present)
        kernels[m, i, i] += self.spread[m] * self._weights[1][views[m], i]
        self.training = stack._replace(kernels=kernels)

    def images(self, stack: DenseStack, diagonal: np.ndarray) -> Images:
        """Regress the images of new samples on their present views.

        Parameters
        ----------
        stack : DenseStack
            Centered kernels of new samples, zero where a view is absent.
        diagonal : ndarray of shape (n_kernels, n_rows)
            Centered similarities of new samples to themselves, likewise.
        """
        by_view, own = self._by_view(stack, diagonal)
        similar = self._others(by_view)
        return Images(similar, *self._regressed(similar, own))

    def rows(
        self, stack: DenseStack, diagonal: np.ndarray, images: Images | None = None
    ) -> tuple[DenseStack, np.ndarray]:
        """Return covariances of functions at new samples with those at the training samples, and their variances.

        Parameters
        ----------
        stack : DenseStack
            Centered kernels of new samples, zero where a view is absent.
        diagonal : ndarray of shape (n_kernels, n_rows)
            Centered similarities of new samples to themselves, likewise.
        images : Images, optional
            Of these samples, where they are known.
        """
        if stack.present is None and self.stack.present is None:
            return stack, diagonal
        _, weights, rest = self.images(stack, diagonal) if images is None else images
        kernels, variances, of_training = stored_array(stack), diagonal.copy(), self.stack.each()
        present = _present(stack)
        for (m, v), kernel in zip(enumerate(self.views), of_training, strict=True):
            absent = ~present[m]
            beta = weights[v][absent]
            kernels[m, absent] = beta @ kernel
            variances[m, absent] = (
                np.einsum("ij,ij->i", kernels[m, absent], beta) + self.spread[m] * rest[v, absent]
            )
            self._continue(m, kernels[m])
        return stack._replace(kernels=kernels), variances

    def slopes(self, m: int, centers: KernelCenters, cross: np.ndarray) -> np.ndarray:
        """Return covariances of a derivative with functions at the training samples, (n_features, n_train).

        Parameters
        ----------
        m : int
            The kernel.
        centers : KernelCenters
        cross : ndarray of shape (n_features, n_present)
            The same by the kernel before centering, with functions at the samples that have the view.
        """
        present = self.present[m]
        found = np.zeros((len(cross), len(present)))
        if self.spread[m] > 0.0:
            found[:, present] = cross - (cross @ centers.share[m, present])[:, None]
            self._continue(m, found)
        return found

    def duals(self, m: int, centers: KernelCenters, duals: np.ndarray) -> np.ndarray:
        """Return weights of the samples that have the view, (..., n_present), by the kernel before centering.

        Parameters
        ----------
        m : int
            The kernel.
        centers : KernelCenters
        duals : ndarray of shape (..., n_train)
            Weights of functions at the training samples in a function.
        """
        present, weights = self.present[m], self._weights[0][self.views[m]]
        found = (duals + duals[..., ~present] @ weights[~present])[..., present]
        found = found - found.sum(axis=-1, keepdims=True) * centers.share[m, present]
        return found if self.spread[m] > 0.0 else np.zeros_like(found)

    def _continue(self, m: int, kernel: np.ndarray) -> None:
        """Fill in covariances with functions at training samples that lack the view, in place, (n_rows, n_train)."""
        gone = ~self.present[m]
        kernel[:, gone] = kernel @ self._weights[0][self.views[m]][gone].T

    def probabilities(self, images: Images) -> np.ndarray:
        """Return probabilities that points of views are those of training samples, (n_views, n_rows, n_train).

        These are the weights by which the mean image of those points is the expected one; the few negative ones are
        zero.

        Parameters
        ----------
        images : Images
            Of new samples.
        """
        weights = images.weights[:-1]
        counts = (self.have * self.counts)[:, None]
        rest = (1.0 - weights.sum(axis=2, keepdims=True)) * counts / counts.sum(axis=2, keepdims=True)
        found = np.maximum(weights + rest, 0.0) * self.have[:, None]
        return found / found.sum(axis=2, keepdims=True)

    def reveal(
        self, stack: DenseStack, images: Images, v: int, points: np.ndarray
    ) -> tuple[DenseStack, np.ndarray]:
        """Return what covariances of `rows` gain where an absent view is found to be that of training samples.

        Parameters
        ----------
        stack : DenseStack
            Centered kernels of new samples, zero where a view is absent.
        images : Images
            Of these samples.
        v : int
            The view that is found, which all of them lack.
        points : ndarray of int, of shape (n_points,)
            Training samples that have it.

        Returns
        -------
        gains : DenseStack
            Of the view covariances of its functions at the points with those at the training samples, in the place of
            those of `rows`; of other views what is added to these where a sample lacks them.
        variances : ndarray of shape (n_kernels, n_rows, n_points)
            The same of variances, zero where a sample has the view.
        """
        own = self.views == v
        kernels = np.where(own[:, None, None], stored_array(self.training.rows(points)), 0.0)
        variances = np.zeros((len(own), stack.n_rows, len(points)))
        variances[own] = self.training.diagonal()[own][:, None, points]
        told_by = self._by_view(self.stack, self.stack.diagonal())[0][v, points]
        similar, weights, rest = images
        absent = ~_present(stack)
        for u, factor in enumerate(self._factors):
            if u == v or factor is None or not self.spread[own].any():
                continue
            have, h = self.have[u], self.told[u] / self._n_others()[u]
            gain = h * told_by[:, have]
            delta, alone = self._without_itself(u, gain, points)
            explained = 2.0 * self.told[u] * similar[u][:, have] @ delta.T + alone
            around = rest[u][:, None] + h * (told_by[np.arange(len(points)), points] - 1.0) - explained
            for m in np.flatnonzero(self.views == u).tolist():
                kernel = stored_array(self.stack)[m]
                edge = delta @ kernel[have]
                expected = weights[u][:, have] @ kernel[np.ix_(have, have)] @ delta.T
                found = 2.0 * expected + np.einsum("ij,ij->i", edge[:, have], delta)
                found += self.spread[m] * (np.maximum(around, 0.0) - rest[u][:, None])
                variances[m] = found * absent[m][:, None]
                self._continue(m, edge)
                kernels[m] = edge
        return stack._replace(kernels=kernels, present=None), variances

    def _without_itself(self, u: int, gain: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights for similarities `gain` to points, each without its own, and what they explain alone."""
        have, factor = self.have[u], self._factors[u]
        delta = linalg.cho_solve(factor, gain.T).T
        own = np.flatnonzero(have[points])
        at = np.searchsorted(np.flatnonzero(have), points[own])
        inverse = linalg.cho_solve(factor, np.eye(have.sum())[:, at])
        surplus = delta[own, at] / inverse[at, np.arange(len(at))]
        delta[own] -= surplus[:, None] * inverse.T
        gain = gain.copy()
        gain[own, at] -= surplus
        return delta, np.einsum("ij,ij->i", gain, delta)

    def _by_view(self, stack: DenseStack, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean kernel of each view in units of variance, (n_views, n_rows, n_train), and its diagonal.

        The diagonal, (n_views, n_rows), is one where a view is absent.
        """
        varies = self.spread > 0.0
        share = (self.views == np.arange(self.views.max() + 1)[:, None]) * varies
        share = share / np.maximum(share.sum(axis=1, keepdims=True), 1)
        scaled = np.divide(share, self.spread, out=np.zeros_like(share), where=varies)
        diagonal = np.where(_present(stack), diagonal, self.spread[:, None])
        return np.asarray(stack.combine(scaled)), scaled @ diagonal

    def _others(self, by_view: np.ndarray) -> np.ndarray:
        """Return the mean over the other views that vary, for every view."""
        return (by_view.sum(axis=0) - by_view) / self._n_others().reshape(-1, *[1] * (by_view.ndim - 1))

    def _n_others(self) -> np.ndarray:
        """Return the number of other views that vary, at least one, for every view."""
        varies = np.array([(self.spread[self.views == v] > 0.0).any() for v in range(self.views.max() + 1)])
        return np.maximum(varies.sum() - varies, 1)

    def _regressed(self, similar: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of training samples in the images of rows, and the variance around them in units.

        `similar` are mean kernels of the other views, `diagonal` that of each view. Weights are (n_views, n_rows,
        n_train), variances (n_views, n_rows). After those of views come, at -1, those of what no view tells.
        """
        weights = np.zeros((len(similar) + 1, *similar.shape[1:]))
        rest = np.concatenate([self._others(diagonal), np.ones((1, diagonal.shape[1]))])
        for v, (h, factor, have) in enumerate(zip(self.told, self._factors, self.have, strict=True)):
            if factor is None:
                rest[v] = 1.0
                continue
            told = h * similar[v][:, have]
            weights[v][:, have] = linalg.cho_solve(factor, told.T).T
            explained = np.einsum("ij,ij->i", told, weights[v][:, have])
            rest[v] = np.maximum(h * rest[v] + 1.0 - h - explained, 0.0)
        return weights, rest

    def _complete(self, kernels: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Return square kernels with expected images in the place of absent ones."""
        completed = kernels.copy()
        for m, v in enumerate(self.views):
            absent = ~present[m]
            beta = self._weights[0][v][absent]
            edge = beta @ kernels[m]
            completed[m, absent], completed[m][:, absent] = edge, edge.T
            completed[m][np.ix_(absent, absent)] = edge @ beta.T
        return completed


def predictability(kernel: np.ndarray, others: np.ndarray, counts: np.ndarray | None = None) -> float:
    """Return the part of the variance of images that other views tell, by the density of each left out.

    Parameters
    ----------
    kernel : ndarray of shape (n, n)
        Centered, with a mean diagonal of one.
    others : ndarray of shape (n, n)
        Of other views, of the same samples.
    counts : ndarray of shape (n,), optional
        How often samples count; None is once each. A sample is left out with all of its copies, by which its image
        would be known.

    Returns
    -------
    float
        One of `PREDICTABLE`.
    """
    if len(kernel) < 3 or not others.any():
        return 0.0
    v = np.ones(len(kernel)) if counts is None else counts
    root = np.sqrt(v)
    values, vectors = np.linalg.eigh(
        root[:, None] * others * root
    )  # A = hG + (1 - h) / v, between these roots
    rotated = vectors.T @ (root[:, None] * kernel * root) @ vectors
    loss = []
    for h in PREDICTABLE:
        inverse = 1.0 / np.maximum(h * values + 1.0 - h, 1e-12)
        precision = v * (vectors**2 @ inverse)  # diagonal of the inverse of A
        scaled = vectors * inverse
        square = v * np.einsum("ij,ij->i", scaled @ rotated, scaled) / precision**2  # of the error
        variance = 1.0 / precision + (1.0 - h) * (1.0 - 1.0 / v)  # of one copy
        loss.append(np.average(square / variance + np.log(variance), weights=v))
    return float(PREDICTABLE[np.argmin(loss)])


def _present(stack: DenseStack) -> np.ndarray:
    """Return the mask of what is present, (n_kernels, n_rows)."""
    return np.ones((stack.n_kernels, stack.n_rows), dtype=bool) if stack.present is None else stack.present
