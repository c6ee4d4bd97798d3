"""What layers do, call by call."""
