"""Global discriminative methods: certificates, speed, and studies of single methods.

    python benchmarks/global_mkl.py --section certificates     duality gaps on random and real problems
    python benchmarks/global_mkl.py --section speed            seconds beside those of the machines inside
    python benchmarks/global_mkl.py --section primal           PrimalMKL: weight schemes, solvers, small bases
    python benchmarks/global_mkl.py --section inner            PrimalMKL: one SVM, by LibSVM and in the primal
    python benchmarks/global_mkl.py --section fits             PrimalMKL: fits with LibSVM and Newton inside
    python benchmarks/global_mkl.py --section splice           PrimalMKL on 1500 sequences, for figure 1 of the paper
    python benchmarks/global_mkl.py --section obmkl            OBMKL and alignment: seconds of many kernels
    python benchmarks/global_mkl.py --section laplacian        LapMKL: what sharing coefficients costs
    python benchmarks/global_mkl.py --fast                     short forms of all, on bundled data

With BAYESMKL_DATA=folder the sets of the papers are read from there; sections run on bundled data without.
"""

from __future__ import annotations

from _sections import run_sections

SECTIONS = ("certificates", "speed", "primal", "inner", "fits", "splice", "obmkl", "laplacian")

if __name__ == "__main__":
    run_sections(__doc__, "global", SECTIONS)
