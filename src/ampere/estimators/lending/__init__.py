"""Other devices as the prior of a new one."""
