"""What runs: flows, run configurations and the command line."""
