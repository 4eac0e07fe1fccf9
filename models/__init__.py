"""The mathematics of every embedding family: numpy, numba and torch, and nothing that runs jobs."""
