"""The app of benchmarks/federated.py: simulated devices and batteries, real training."""
