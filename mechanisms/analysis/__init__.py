"""Everyday analyses: questions whose answers are read off the answer to another whole question.

May enter: such questions, which parts they are drawn as, and how their rows follow. May import:
derivations, and all below it.
"""
