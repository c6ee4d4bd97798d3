"""The boundary: what others wrote becomes data of ours here, or is refused in a line."""
