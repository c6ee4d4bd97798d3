"""Core: what everything else speaks of, as plain frozen data."""
