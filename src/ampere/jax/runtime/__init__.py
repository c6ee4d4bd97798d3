"""Runtime: layers built and trained by JAX; what is sent to devices, Python 3.8."""
