"""The steps of the pipeline: pure functions over artifacts, and the one thin wrapper that runs them."""
