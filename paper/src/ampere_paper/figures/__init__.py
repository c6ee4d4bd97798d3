"""Figures: one style for all of them, and the panels that experiments share."""
