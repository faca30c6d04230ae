"""Curves that are read off noisy counts, with intervals for noise and sampling together.

    answer = f(N + V),   N the counts of cells, V the noise of their release

*The curve* is made of cumulative counts, which noise may push up and down; true ones only rise. Of
noisy ones ``c_1, ..., c_K`` the answer takes

    (max_{j <= k} c_j  +  min_{j >= k} c_j) / 2,

which rises too. Where the true ones are never farther than s from the noisy ones, they are never
farther than s from these: both the maximum and the minimum of true ones are the true one at k.

*Intervals* are simulated (a parametric bootstrap). Let mu be the counts that the released curve
stands for. Rows drawn independently make counts that are multinomial; for what a curve reads of
them, ratios, independent Poisson numbers of means mu do as well. To these the noise is added, with
its known law, and a curve made of each. Their errors about the curve of mu stand for the error of
the released one about the population's: its sampling error, its noise, and its bias. A band is as
many standard errors wide as make it hold at all places together in 95% of the simulations.

**Privacy.** All of it is a function of the released counts, of public facts and of a hash of the
released counts: post-processing (Awan & Slavkovic, Proposition 2.11).

May enter: what curves of counts have in common, one module for each curve, and its question. May
import: the contract, cells and the histogram, and what is below statistics.
"""
