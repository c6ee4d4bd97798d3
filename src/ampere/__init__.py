"""Estimate the energy and time that training a neural network will cost on a device."""

__version__ = "0.1.0"
