"""Frameworks: the only place that knows how a model is built and run."""
