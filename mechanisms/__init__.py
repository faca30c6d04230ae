"""Exact differentially private mechanisms: K-norm, K-norm gradient, objective perturbation.

Usable without the service; needs numpy, scipy and python-flint only.
"""
