"""Sinks: where a gate tells what it sees: files, dashboards and trackers of experiments."""
