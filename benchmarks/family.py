"""The BEMKL family: several classes, unlabeled samples, several tasks, missing views, and what they cost.

    python benchmarks/family.py --section classes          shared weights, one-versus-all, multinomial, others
    python benchmarks/family.py --section semisupervised   few labels, with and without the unlabeled samples
    python benchmarks/family.py --section unlabeled        what unlabeled samples cost
    python benchmarks/family.py --section multitask        related and unrelated tasks, together and alone
    python benchmarks/family.py --section missing          coverage and accuracy as views go missing
    python benchmarks/family.py --section cost             sweeps of K classes beside binary ones
    python benchmarks/family.py --fast                     short forms of all, on bundled data

With BAYESMKL_DATA=folder the sets are read from there; sections run on bundled data without.
"""

from __future__ import annotations

from _sections import run_sections

SECTIONS = ("classes", "semisupervised", "unlabeled", "multitask", "missing", "cost")

if __name__ == "__main__":
    run_sections(__doc__, "family", SECTIONS)
