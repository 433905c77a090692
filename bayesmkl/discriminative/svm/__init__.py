"""Support vector machines on one combined kernel: solvers, repeated solves, and kernels by columns."""
