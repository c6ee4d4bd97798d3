"""Pruning: makes a model narrower."""
