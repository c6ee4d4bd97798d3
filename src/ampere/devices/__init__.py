"""Devices: hardware that repeats training steps under a meter, here, far away or simulated."""
