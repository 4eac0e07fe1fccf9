"""Vectors that other programs wrote, read as models: one file a format."""
