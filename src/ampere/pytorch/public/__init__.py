"""Public models: those of timm and transformers by name, without weights and without a network."""
