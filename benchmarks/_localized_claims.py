"""The claims of the unified view of localized kernels, answered by measured ratios."""

from __future__ import annotations

from _localized_results import Results, p_value
from _report import markdown_table

__all__ = ["claims"]

LOCALIZED = {
    "the paper's variants": ("LMKL, paper's search", "SwMKL, paper", "LD-MKL, paper", "C-LMKL"),
    "our defaults": ("LMKL", "SwMKL", "LD-MKL", "C-LMKL"),
}
GLOBAL = ("MWUMKL", "Uniform", "GMKL")
LARGE = 5000  # training samples: the paper's small sets have up to 750
LEVEL = 0.05


def claims(results: Results) -> str:
    """Every claim, with the table that answers it."""
    return "\n\n".join(
        [
            "Claims of the paper. Differences between methods are significant at 5 % in the corrected resampled "
            "t-test on paired splits.",
            *(fewest_support(results, kind) for kind in LOCALIZED),
            fastest(results),
            accuracy_lost(results),
        ]
    )


def fewest_support(results: Results, kind: str) -> str:
    """Whether a localized method always has the fewest support points."""
    headers = [
        "set",
        "fewest localized",
        "fewest global",
        "ratio",
        "answer",
        "ratio at the widths best on test",
    ]
    rows, answers = [], []
    for name in results.sets:
        support = {t: results.chosen(name, t)[1] for t in (*LOCALIZED[kind], *GLOBAL)}
        local = min(LOCALIZED[kind], key=lambda t: support[t].mean())
        other = min(GLOBAL, key=lambda t: support[t].mean())
        ratio = _ratio(support[local].mean(), support[other].mean())
        answer = "yes" if ratio < 1.0 else "no"
        if p_value(support[local], support[other]) >= LEVEL:
            answer += ", not significant"
        at_best = {t: results.best(name, t).support for t in support}
        leaking = _ratio(min(at_best[t] for t in LOCALIZED[kind]), min(at_best[t] for t in GLOBAL))
        answers.append(answer)
        rows.append(
            [
                name,
                f"{local}, {support[local].mean():.1f} %",
                f"{other}, {support[other].mean():.1f} %",
                f"{ratio:.2f}",
                answer,
                f"{leaking:.2f}",
            ]
        )
    n_yes = answers.count("yes")
    verdict = "yes" if n_yes == len(answers) else "no"
    return (
        f'**"The fewest support points are always those of a localized method", {kind}: {verdict}** ('
        f"significantly on {n_yes} of {len(answers)} sets).\n\n" + markdown_table(headers, rows)
    )


def fastest(results: Results) -> str:
    """Whether SwMKL is the fastest on small sets and LD-MKL on large ones, and both faster than the others."""
    headers = [
        "set",
        "training samples",
        "SwMKL s",
        "LD-MKL s",
        "SwMKL / LD-MKL",
        "LMKL / LD-MKL",
        "C-LMKL / LD-MKL",
    ]
    rows, small, large = [], [], []
    for name in results.sets:
        seconds = {t: results.chosen(name, t)[2].mean() for t in LOCALIZED["the paper's variants"]}
        voters = seconds["LD-MKL, paper"]
        ratio = _ratio(seconds["SwMKL, paper"], voters)
        (large if results.n_train(name) >= LARGE else small).append(ratio)
        others = [
            f"{_ratio(seconds[t], voters):.1f}"
            + (" (fewer samples)" if results.n_train(name) >= LARGE else "")
            for t in ("LMKL, paper's search", "C-LMKL")
        ]
        rows.append(
            [
                name,
                results.n_train(name),
                f"{seconds['SwMKL, paper']:.2g}",
                f"{voters:.2g}",
                f"{ratio:.2f}",
                *others,
            ]
        )
    of_small = "yes" if all(ratio < 1.0 for ratio in small) else "no"
    of_large = ("yes" if all(ratio > 1.0 for ratio in large) else "no") if large else "no large set here"
    return (
        f'**"SwMKL is the fastest on small sets": {of_small}; "LD-MKL on large ones": {of_large}** (the paper\'s '
        "variants; all rows of a9a are in the section on scale).\n\n" + markdown_table(headers, rows)
    )


def accuracy_lost(results: Results) -> str:
    """Whether LD-MKL is the best localized method, or not significantly worse."""
    headers = ["set", "LD-MKL", "best other localized", "loss of LD-MKL, points", "p", "answer"]
    rows, verdicts = [], {}
    for kind, titles in LOCALIZED.items():
        answers = []
        for name in results.sets:
            accuracy = {t: results.chosen(name, t)[0] for t in titles}
            voters = next(t for t in titles if t.startswith("LD-MKL"))
            other = max((t for t in titles if t != voters), key=lambda t: accuracy[t].mean())
            loss = accuracy[other].mean() - accuracy[voters].mean()
            p = p_value(accuracy[other], accuracy[voters])
            answers.append("no" if loss > 0.0 and p < LEVEL else "yes")
            rows.append(
                [
                    name,
                    f"{voters}, {accuracy[voters].mean():.1f}",
                    f"{other}, {accuracy[other].mean():.1f}",
                    f"{loss:.1f}",
                    f"{p:.3f}",
                    answers[-1],
                ]
            )
        verdicts[kind] = (
            "yes" if "no" not in answers else f"no, not on {answers.count('no')} of {len(answers)} sets"
        )
    verdict = "; ".join(f"{kind}: {answer}" for kind, answer in verdicts.items())
    return f'**"LD-MKL has no significant loss of accuracy", {verdict}.**\n\n' + markdown_table(headers, rows)


def _ratio(value: float, other: float) -> float:
    return value / max(other, 1e-12)
