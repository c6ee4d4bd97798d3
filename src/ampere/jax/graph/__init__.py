"""Graph: a model of flax.nnx read into layers."""
