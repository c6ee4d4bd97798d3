"""Graph: a model's calls, whatever framework ran them, cut and grouped into layers."""
