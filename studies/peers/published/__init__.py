"""The methods that the Urban Institute compared, written anew from their formulas.

Their privacy is that of real numbers, and some promise an epsilon with a delta. Nothing here is for
use, only for comparing.
"""
