"""What ampere knows of the modules of `torch.nn`, a record each; `base` says how to add one."""
