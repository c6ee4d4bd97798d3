"""Layers and networks as numbers: what processes take."""
