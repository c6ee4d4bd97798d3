"""Graph: reads a model into layers."""
