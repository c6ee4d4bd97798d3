"""Fuzzing: inputs that nobody would write, for everything that reads what others wrote."""
