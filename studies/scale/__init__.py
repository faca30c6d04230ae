"""How time, memory and bytes grow with rows: ``make bench scale``.

The study makes 10^3 to 10^8 rows, ingests them, and draws every statistic of the catalog. A
cell is one of these at one number of rows, run in processes of its own. Its row of the CSV is
written as soon as it is done, so a stopped run resumes.
"""
