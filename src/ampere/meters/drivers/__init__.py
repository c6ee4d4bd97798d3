"""Drivers: one small file a meter."""
