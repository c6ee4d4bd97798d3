"""Frameworks: who reads a model, and who trains it on a device."""
