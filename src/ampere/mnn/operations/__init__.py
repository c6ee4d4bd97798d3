"""What MNN can train: a file for each family of operations."""
