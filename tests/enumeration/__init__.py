"""Exhaustive tests of samplers: shipped samplers walked over every outcome of their random bits."""
