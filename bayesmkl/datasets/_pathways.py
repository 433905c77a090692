"""Synthetic gene expression in overlapping gene sets, a few of which matter."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from bayesmkl._utils.validation import check_choice, check_integer, check_number, generator_of
from bayesmkl.datasets._synthetic import check_n_samples


def make_pathways(
    n_samples: int = 300,
    n_sets: int = 200,
    n_active: int = 5,
    n_genes: int = 2000,
    *,
    min_size: int = 10,
    max_size: int = 100,
    block_size: int = 40,
    correlation: float = 0.4,
    coherence: float = 0.5,
    signal: float = 0.5,
    task: str = "regression",
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw correlated genes in overlapping sets, and a target of a few of the sets.

    .. math:: x_g = \sqrt{c}\,z_{b(g)} + \sqrt{1 - c}\,e_g, \qquad f = \sum_{s\ \text{active}} a_s
       \sum_{g \in s} w_{sg} x_g, \qquad w_{sg} \sim \mathcal{N}(0, 1)

    Genes come in blocks :math:`b(g)` that share a factor :math:`z_b`; factors, :math:`e_g` and weights are standard
    normal, and :math:`c` is the correlation within a block. A set takes a part of its genes from blocks of its own,
    half of a block each, and the others from anywhere, popular genes more often. So sets share genes, and what a set
    tells of the target is also told in part by others that do not enter :math:`f`.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples.
    n_sets : int, default=200
        Number of gene sets.
    n_active : int, default=5
        Number of sets that enter :math:`f`, drawn at random; 0 for a target of noise alone.
    n_genes : int, default=2000
        Number of genes, which are the columns of the data.
    min_size, max_size : int, default=10, 100
        Genes of the smallest and of the largest set; the logarithm of the size is uniform between them.
    block_size : int, default=40
        Genes of a block.
    correlation : float, default=0.4
        Correlation :math:`c` of two genes of a block, from 0 to below 1.
    coherence : float, default=0.5
        Part of a set that follows blocks, from 0 (genes from anywhere) to 1.
    signal : float, default=0.5
        Part of the variance of the score with noise that is the score's own, above 0 and at most 1.
    task : {"regression", "classification"}, default="regression"
        Whether the target is the score with noise, or its sign.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_genes) and ``target``; ``views`` (name of a set -> sorted list of columns, usable as
        ``KernelBank(views=...)``); the truth: ``active`` (n_sets,) of bool, ``parts`` (n_active, n_samples) what each
        active set adds to the score, of equal variance, in the order of the sets, ``score`` (n_samples,) their sum,
        without noise and of variance `signal`, ``coef`` (n_genes,) so that ``data @ coef`` is the score;
        ``blocks`` (n_genes,) the block of each gene; and ``feature_names``, ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    The scales :math:`a_s` are such that parts have the same variance in the sample and their sum has variance
    `signal`. The noise is normal with variance `1 - signal`; with ``task="classification"`` the probability of the
    label 1 is therefore :math:`\Phi(f / \sqrt{1 - \text{signal}})`, that of a probit model.

    Given its scale, a part is drawn from a Gaussian process with the linear kernel of the set.

    Examples
    --------
    >>> from bayesmkl.datasets import make_pathways
    >>> sample = make_pathways(100, n_sets=20, n_active=2, n_genes=300, max_size=40, random_state=0)
    >>> [name for name, active in zip(sample.views, sample.active) if active]
    ['set09', 'set14']
    >>> print(sample.score.var().round(3))
    0.5
    """
    check_n_samples(n_samples)
    if n_samples < 3:
        raise ValueError(f"`n_samples` must be at least 3, for parts not to cancel; got {n_samples}.")
    _check_counts(n_sets, n_active, n_genes, min_size, max_size, block_size)
    _check_parts(correlation, coherence, signal)
    check_choice("task", task, ("regression", "classification"))
    rng = generator_of("random_state", random_state)

    blocks = np.arange(n_genes) // block_size
    popularity = rng.exponential(size=n_genes)
    sizes = np.exp(rng.uniform(np.log(min_size), np.log(max_size + 1), size=n_sets)).astype(int)
    sets = [_draw_set(int(size), float(coherence), blocks, popularity, rng) for size in sizes]
    active = np.zeros(n_sets, dtype=bool)
    active[rng.choice(n_sets, size=n_active, replace=False)] = True

    factors = rng.standard_normal((n_samples, int(blocks[-1]) + 1))
    data = np.sqrt(correlation) * factors[:, blocks]
    data += np.sqrt(1.0 - correlation) * rng.standard_normal((n_samples, n_genes))
    coef = np.zeros((n_active, n_genes))
    for row, chosen in zip(coef, np.flatnonzero(active), strict=True):
        row[sets[chosen]] = rng.standard_normal(len(sets[chosen]))
    coef /= (data @ coef.T).std(axis=0)[:, None]
    if n_active:
        coef *= np.sqrt(signal) / (data @ coef.sum(axis=0)).std()
    parts = coef @ data.T
    score = parts.sum(axis=0)
    noisy = score + np.sqrt(1.0 - signal) * rng.standard_normal(n_samples)

    sample = Bunch(
        data=data,
        target=noisy if task == "regression" else np.where(noisy > 0, 1, -1),
        views={name: members.tolist() for name, members in zip(_names("set", n_sets), sets, strict=True)},
        active=active,
        parts=parts,
        score=score,
        coef=coef.sum(axis=0),
        blocks=blocks,
        feature_names=_names("gene", n_genes),
        DESCR="Correlated genes in overlapping sets, a few of which add linear functions to the score.",
        name="pathways",
    )
    if task == "classification":
        sample.target_names = np.array(["negative", "positive"])
    return sample


def _draw_set(
    size: int, coherence: float, blocks: np.ndarray, popularity: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the genes of a set: halves of blocks, as many as its coherent part fills, and genes from anywhere."""
    wanted, taken = round(coherence * size), np.zeros(len(blocks), dtype=bool)
    for block in rng.permutation(int(blocks[-1]) + 1):
        members = np.flatnonzero(blocks == block)
        n_taken = min(-(-len(members) // 2), wanted)
        taken[rng.choice(members, size=n_taken, replace=False)] = True
        wanted -= n_taken
        if not wanted:
            break
    free = np.flatnonzero(~taken)
    missing, odds = size - int(taken.sum()), popularity[free]
    if missing:
        taken[rng.choice(free, size=missing, replace=False, p=odds / odds.sum())] = True
    return np.flatnonzero(taken)


def _names(stem: str, count: int) -> list[str]:
    """Return names with numbers from 1 that sort as they count."""
    return [f"{stem}{i:0{len(str(count))}d}" for i in range(1, count + 1)]


def _check_counts(
    n_sets: int, n_active: int, n_genes: int, min_size: int, max_size: int, block_size: int
) -> None:
    check_integer("n_sets", n_sets, low=1)
    if check_integer("n_active", n_active, low=0) > n_sets:
        raise ValueError(f"`n_active` must be at most `n_sets` = {n_sets}; got {n_active}.")
    check_integer("n_genes", n_genes, low=1)
    check_integer("min_size", min_size, low=1)
    check_integer("block_size", block_size, low=1)
    if not min_size <= check_integer("max_size", max_size, low=1) <= n_genes:
        raise ValueError(
            f"`max_size` must lie between `min_size` = {min_size} and `n_genes` = {n_genes}; got {max_size}."
        )


def _check_parts(correlation: float, coherence: float, signal: float) -> None:
    if not 0.0 <= check_number("correlation", correlation) < 1.0:
        raise ValueError(f"`correlation` must be from 0 to below 1; got {correlation!r}.")
    if not 0.0 <= check_number("coherence", coherence) <= 1.0:
        raise ValueError(
            f"`coherence` must be a part from 0 to 1; got {coherence!r}. Pass 0.5 for half of a set."
        )
    if not 0.0 < check_number("signal", signal) <= 1.0:
        raise ValueError(
            f"`signal` must be a part of the variance, above 0 and at most 1; got {signal!r}. Pass 0.5 for half."
        )
