"""Gates: the watch over one training run: what it will take, what it has taken, when to stop."""
