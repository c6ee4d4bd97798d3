"""Translation: what torch's modules and functions are in JAX, in torch's own layout."""
