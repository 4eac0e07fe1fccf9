"""Compiled inner loops, each beside the plain reference that the tests hold it to."""
