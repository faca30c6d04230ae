"""Scripts: a release or a question as a program that reads and asks it again, ready to run.

What may enter: writers of a language, each from the same steps. They write names, questions and
prices, which are public or the caller's own; a key is read from the environment, never written.
What it may import: releases, plans and data sets, and all below them.
"""
