"""Results: the folder that a run fills, and the pages made of it."""
