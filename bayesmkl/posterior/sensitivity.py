r"""Sensitivity of kernel shares to the priors, by power-scaling (Kallioinen et al. 2024).

The prior, or the likelihood, is raised to a power slightly away from one by weighting the draws; the sensitivity is
the distance that the distribution of a share moves, per doubling of the power. Values above 0.05 count as sensitive.

A distance is never negative, and weights that have nothing to do with a share move its draws as well. With N + P + 1
weights the prior density varies so much from draw to draw that this noise is often above 0.05: 0.15 on the Wisconsin
breast cancer data with 2 x 1000 draws. It is measured by shifting the chains of the shares against the weights, and a
share counts as sensitive only above it.

The weights are those of the collapsed model, a Student t density for every entry of a, b and e. For draws of a
variational posterior they scale q: they say how q would move, if a changed prior moved it as it moves the posterior.
"""

from __future__ import annotations

import numpy as np

from bayesmkl._numerics.psis import quietly
from bayesmkl.bemkl.draws import log_prior_terms
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.report import Section, line_of_text, table

THRESHOLD = 0.05
MOST_ROWS = 8
N_SHIFTS = 40
LOWER, UPPER = 0.99, 1.01  # powers, those of ArviZ
FLAT = 1e-6  # a log prior that varies less is constant
COMPONENTS = {
    "kernel_prior": ("prior", "kernel_weights"),
    "sample_prior": ("prior", "dual_coef"),
    "prior": ("prior", None),
    "likelihood": ("likelihood", "y"),
}


def sensitivity_section(
    names: list[str],
    models: list[Evaluated],
    kernel_names: list[str],
    variational: bool,
    rng: np.random.Generator,
) -> Section:
    """Report the sensitivity of the shares of every model to priors and likelihood.

    Parameters
    ----------
    names : list of str
        Of the models.
    models : list of Evaluated
    kernel_names : list of str
    variational : bool
        Whether the draws are those of a variational posterior.
    rng : numpy.random.Generator
        For the shifts that measure noise.
    """
    if len(kernel_names) == 1:
        advice = "A single kernel always has the whole share."
        return Section("sensitivity", "Prior sensitivity", {}, [], "skipped", advice)
    values, rows, strong, conflicting = {}, [], 0, 0
    for name, model in zip(names, models, strict=True):
        own, noise = power_scaling(model, rng)
        limits = {what: max(THRESHOLD, noise[what]) for what in COMPONENTS}
        by_prior = np.any([own[what] > limits[what] for what in COMPONENTS if what != "likelihood"], axis=0)
        by_data = own["likelihood"] > limits["likelihood"]
        strong += int((by_prior & ~by_data).sum())
        conflicting += int((by_prior & by_data).sum())
        prefix = f"{name}: " if len(names) > 1 else ""
        for m in np.argsort(-model.shares.mean(axis=0), kind="stable")[: max(2, MOST_ROWS // len(names))]:
            share = float(model.shares[:, m].mean())
            rows.append([prefix + kernel_names[m], share, *(float(own[what][m]) for what in COMPONENTS)])
        rows.append([f"{prefix}noise (95 %)", "", *(noise[what] for what in COMPONENTS)])
        values[name] = own | {"noise": noise}
    header = ["share of", "mean", "kernel prior", "sample prior", "all priors", "likelihood"]
    lines = table(header, rows)
    if variational:
        lines += line_of_text(
            "The draws are those of the variational posterior: sensitivities are relative to it, and too small where "
            "it is too narrow."
        )
    n_shares = len(names) * len(kernel_names)
    verdict = "caution" if strong + conflicting else "good"
    single = values if len(names) > 1 else values[names[0]]
    advice = _advice(strong, conflicting, n_shares)
    return Section("sensitivity", "Prior sensitivity (power-scaling)", single, lines, verdict, advice)


def power_scaling(
    model: Evaluated, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return the sensitivities of all kernel shares and what noise alone would give.

    Returns
    -------
    dict of str to array of shape (n_kernels,)
        To ``kernel_prior`` (on e), ``sample_prior`` (on a), ``prior`` (all priors together) and ``likelihood``.
    dict of str to float
        For the same, the 95 % quantile over shares whose chains are shifted against the weights.
    """
    terms = log_prior_terms(model.problem, model.flat)
    shares = model.in_chains(model.shares)
    n_kernels = shares.shape[-1]
    moved = np.moveaxis(np.concatenate([shares, _shifted(shares, rng)], axis=-1), -1, 0)
    sensitivities, noise = {}, {}
    for what, (group, name) in COMPONENTS.items():
        if name in terms and np.ptp(terms[name]) < FLAT:  # Dirichlet(1): to scale it changes nothing
            sensitivities[what], noise[what] = np.zeros(n_kernels), 0.0
            continue
        if group == "likelihood":
            log_density = model.log_likelihood.sum(axis=-1)
        else:
            log_density = terms[name] if name else sum(terms.values())
        with quietly():
            found = np.nan_to_num(_distances(moved, model.in_chains(log_density)))  # NaN of what never moves
        sensitivities[what] = found[:n_kernels]
        noise[what] = float(np.quantile(found[n_kernels:], 0.95))
    return sensitivities, noise


def _distances(values: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Return how far values, (n_values, n_chains, n_draws), move per doubling of the power of a density."""
    from arviz_stats.base import array_stats

    def weights(power: float) -> np.ndarray:
        scaled = np.exp(array_stats.power_scale_lw(log_density, alpha=power, axis=(-2, -1)))
        return np.broadcast_to(scaled / scaled.sum(), values.shape)

    return array_stats.power_scale_sense(
        values, weights(LOWER), weights(UPPER), LOWER, UPPER, chain_axis=-2, draw_axis=-1
    )


def _shifted(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shift shares of kernels taken at random along their chains, which keeps all but the link to the weights."""
    n_draws, n_kernels = shares.shape[1:]
    shifts = rng.integers(n_draws // 4, n_draws - n_draws // 4, size=N_SHIFTS)
    columns = [
        np.roll(shares[..., k], shift, axis=1)
        for k, shift in zip(rng.integers(n_kernels, size=N_SHIFTS), shifts, strict=True)
    ]
    return np.stack(columns, axis=-1)


def _advice(strong: int, conflicting: int, n_shares: int) -> str:
    if not strong + conflicting:
        return (
            f"No share moves by more than {THRESHOLD} or the noise per doubling of a prior: no sign that other "
            "priors of this kind would change what you read."
        )
    parts = []
    if strong:
        parts.append(
            f"{strong} of {n_shares} shares depend on a prior and not measurably on the data: read them as undecided."
        )
    if conflicting:
        parts.append(
            f"{conflicting} of {n_shares} shares depend on both a prior and the data: the priors matter, or pull "
            "another way than the data."
        )
    parts.append("Fit again with another `kernel_prior` or `sample_prior`, and report both.")
    return " ".join(parts)
