"""The steps of the pipeline: pure functions over artifacts, and one thin wrapper that runs them."""
