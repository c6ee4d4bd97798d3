"""Measured: the parts of measuring.py, a module each, and what they share.

What they share: processes with an end that comes, the two codes whose commands run in them, and
what a part is. Disturbances belong to the matrix, profiles to speed and to accuracy.
"""
