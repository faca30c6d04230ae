"""The methods that the Urban Institute compared, reimplemented from their formulas.

Their privacy is that of real numbers, and some promise an epsilon with a delta. They are here for
comparison only, not for use.
"""
