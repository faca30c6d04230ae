"""How time, memory and bytes grow with rows: ``make bench scale``.

Rows are made, taken in, and asked every statistic of the catalog, from 10^3 of them to 10^8. A
cell is one of these at one number of rows, run in processes of its own. Its row of the CSV is
written as soon as it is done, so a run that was stopped goes on where it was.
"""
