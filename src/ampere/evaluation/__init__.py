"""Evaluation: how well estimates hold, and whether a machine can be measured on."""
