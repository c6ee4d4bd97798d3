"""Clients of a federation: what a round takes of each, and who trains next."""
