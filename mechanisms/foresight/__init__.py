"""What a release would be worth, from public facts alone: before anything is paid, or read.

Expected errors, the ranges of values that were possible anyway, a verdict that compares the two,
and the choice of a mechanism that they decide. Laws that are known are stated; laws that depend
on the data are simulated, the very plan on synthetic rows.

**Privacy.** Nothing here is given data: functions take a schema, a question and assumptions, all
public. So what they return may be shown to anybody, for free.

May enter: assumptions, synthetic rows, errors, ranges, verdicts, and how a mechanism is chosen by
them. May import: everything that makes a single plan; not ``composition``.
"""
