"""Profiles: what a device taught us, and estimates from it."""
