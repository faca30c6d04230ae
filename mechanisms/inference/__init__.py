"""Standard errors and confidence intervals, made of released numbers and public facts alone.

    what the answer says of the population = f(released numbers, the known law of their noise)

There are two intervals. The noise interval (``noise_95``) says where a number would have been
without privacy. The confidence interval (``confidence_95``) says where the population's number is:
it covers sampling error and privacy noise together. :mod:`mechanisms.inference.evidence` says how
it is computed from moments.

**Privacy.** Post-processing (Awan & Slavkovic, Proposition 2.11): nothing here takes a data set,
and what is simulated is made of a hash of the released numbers. It costs no epsilon.

May enter: one module per statistic, and its line in the table of :mod:`moments`. May import: the
mechanisms whose released numbers it reads, and all below them.
"""
