"""PyTorch: the only code that knows it, but for the zoo's models."""
