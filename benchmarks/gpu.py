"""The JAX backend on the device that JAX sees, in two sections.

* `contractions`: `apply`, `adjoint` and one update of BEMKLClassifier beside the same devices' own rates of reading
  memory and of multiplying matrices, in double precision.
* `rows`: one fit of many samples against landmarks, from the samples to the posterior, compilation included.

Sizes are large on an accelerator, and small on a CPU, where nothing is claimed.

    python benchmarks/gpu.py                     about 2 minutes on an H200
    python benchmarks/gpu.py --section rows      one of them
    python benchmarks/gpu.py --fast              the smallest sizes
"""

from _sections import run_sections

if __name__ == "__main__":
    run_sections(__doc__, "gpu", ("contractions", "rows"))
