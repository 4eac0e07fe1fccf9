"""The three training loops: closed form, lock-free sweeps, autograd."""
