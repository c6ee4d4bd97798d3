"""Acquisition: what to measure next, measuring it, asking by file."""
