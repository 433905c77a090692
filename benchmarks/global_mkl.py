"""Global discriminative methods: certificates, speed, and the studies of the papers behind them.

    python benchmarks/global_mkl.py --section certificates     duality gaps on random and real problems
    python benchmarks/global_mkl.py --section speed            seconds beside those of the machines inside
    python benchmarks/global_mkl.py --section primal           PrimalMKL: weight schemes, solvers, tables of the paper
    python benchmarks/global_mkl.py --section splice           PrimalMKL on 1500 sequences, for figure 1 of the paper
    python benchmarks/global_mkl.py --section obmkl            OBMKL: the protocol of its paper, alignment and speed
    python benchmarks/global_mkl.py --section laplacian        LapMKL: transduction, tables of the paper
    python benchmarks/global_mkl.py --fast                     short forms of all, on bundled data

With BAYESMKL_DATA=folder the sets of the papers are read from there; sections run on bundled data without.
"""

from __future__ import annotations

from _sections import run_sections

SECTIONS = ("certificates", "speed", "primal", "splice", "obmkl", "laplacian")

if __name__ == "__main__":
    run_sections(__doc__, "global", SECTIONS)
