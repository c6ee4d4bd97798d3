"""Live: pages of runs that go on, from the lines that their gates append."""
