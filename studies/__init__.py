"""Benchmarks and simulations: accuracy, time per draw, the service and the upload."""
