"""A Flower app of benchmarks/federated.py: devices, batteries and data are simulated, training is real."""
