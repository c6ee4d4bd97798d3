"""Sittings: networks that are measured together, in bursts, on a device that is quiet."""
