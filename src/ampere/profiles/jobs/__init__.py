"""Jobs: how long a model is trained, and what goes on around its steps."""
