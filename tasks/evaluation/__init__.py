"""What a model is worth: every score with its coverage, its policy and its baseline."""
