"""Estimators: from rows to what layers cost."""
