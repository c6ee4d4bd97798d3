"""Every figure and table of the paper AMPERE, measured anew: `ampere reproduce`."""
