"""Processes: Gaussian processes on arrays, of one layer and of sums of layers."""
