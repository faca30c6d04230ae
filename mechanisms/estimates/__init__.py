"""The expected quality of a release, from public facts alone: before any charge or read.

Expected errors, the ranges of possible values, a verdict that compares the two, and the choice of
a mechanism that follows from them. Known laws are stated. Laws that depend on the data are
simulated: the release's own plan draws from synthetic rows.

**Privacy.** Nothing here receives data: functions take a schema, a question and assumptions, all
public. So everyone may see what they return, and it costs no budget.

May enter: assumptions, synthetic rows, errors, ranges, verdicts, and the choice of a mechanism.
May import: everything that makes a single plan; not ``composition``.
"""
