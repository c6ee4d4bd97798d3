"""Meters: joules, with provenance."""
