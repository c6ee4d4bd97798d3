"""Records: measurements, and the journals that keep them."""
