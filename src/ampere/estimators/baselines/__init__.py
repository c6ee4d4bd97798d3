"""Simpler methods, to be compared with: FLOPs, the roofline, polynomials, NeuralPower."""
