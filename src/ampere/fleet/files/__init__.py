"""What people write of a fleet: its devices and its jobs, in TOML."""
