"""Registered models in the formats that other programs load."""
