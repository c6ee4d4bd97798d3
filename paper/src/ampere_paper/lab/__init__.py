"""Lab: where experiments are measured: benches, plans, notebooks, and trials of families."""
