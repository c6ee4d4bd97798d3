"""Pruning: cut a model to a budget."""
