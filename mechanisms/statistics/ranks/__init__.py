"""Ranks: how quantiles are drawn for every mechanism, and how far their ranks are off.

May enter: code that several mechanisms share to release quantiles. May import: what statistics may
import, and :mod:`mechanisms.statistics.quantile`.
"""
