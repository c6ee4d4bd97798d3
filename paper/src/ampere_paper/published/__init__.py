"""Published: energies of training that others metered, and the questions asked of them."""
