"""Runs: a plan that is carried out: who is there, what was paid, what is next."""
