"""``make bench``: every figure the project claims, measured in one run, as ratios.

Reference figures in brackets are those of the design's prototypes on a similar machine. Databases
are temporary files: set ``TMPDIR`` to measure another disk, or to memory (``/dev/shm``) to measure
the time without a disk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from studies import (
    accuracy,
    base_measure,
    boxes,
    clipping,
    draws,
    jobs,
    ledger,
    long_answers,
    patterns,
    service,
    slack,
    tilt_share,
    upload,
)
from studies.scale.run import main as scale

_KNG_PROTOTYPE = {"n=1000": (1.85, 0.17), "n=10000": (0.37, 0.060), "n=100000": (0.044, 0.019)}


def _say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def bench_linear() -> None:
    """Print KNG linear regression's error against least squares."""
    _say("KNG linear regression, d=12, epsilon=1, bound 1: mean distance to the truth")
    for error in accuracy.linear_regression():
        private, reference = _KNG_PROTOTYPE[error.setting]
        _say(
            f"  {error.setting:<10} KNG {error.private:7.4f}   OLS {error.reference:7.4f}"
            f"   ratio {error.ratio:6.2f}   [prototype {private} / {reference}]"
        )


def bench_logistic() -> None:
    """Print objective perturbation's error against the maximum-likelihood fit."""
    _say("Objective-perturbation logistic regression, n=10^4, m=7: mean distance to the truth")
    for epsilon, norm, q, error in accuracy.logistic_regression():
        _say(
            f"  epsilon {epsilon:<5} {norm:<5} q={q:<5} {error.private:6.3f}"
            f"   MLE {error.reference:6.3f}   ratio {error.ratio:5.2f}"
        )


def bench_tilt() -> None:
    """Print objective perturbation's error by the tilt's share of epsilon, and the rule's."""
    _say("Objective perturbation: mean distance to the truth by the tilt's share q of epsilon")
    shares = "  ".join("auto" if q is None else f"q={float(q)}" for q in tilt_share.SHARES)
    _say(f"  {'':<42} {shares}")
    for row in tilt_share.study():
        errors = " ".join(f"{error:6.4f}" for error in row.errors)
        _say(
            f"  {row.setting:<42} {errors}   auto q={row.chosen:<5}"
            f"   over the best {row.regret:4.2f}"
        )


def bench_base_measure() -> None:
    """Print KNG linear regression's error by the power of its base measure."""
    _say("KNG linear regression: mean distance to least squares by base measure (1 + rho)^-p")
    powers = "  ".join(f"p={power:g}d" for power in base_measure.POWERS)
    _say(f"  {'rows, d, spread':<16} {powers}   length")
    for row in base_measure.study():
        errors = "  ".join("  slow" if each is None else f"{each:6.3f}" for each in row.errors)
        _say(f"  {row.setting:<16} {errors}   {row.length:5.2f}   rule p={row.rule}")


def bench_clipping() -> None:
    """Print the errors of clipped means by the share of epsilon for bounds and what is beyond."""
    _say("Clipped means: mean error relative to the mean, by the rule for private bounds")
    found = list(clipping.study())
    for row in found:
        rule = "none" if row.share is None else f"share {row.share}, {row.beyond} / epsilon_1"
        setting = f"{row.values}, n {row.rows}, upper {row.upper:.0e}, epsilon {row.epsilon}"
        _say(f"  {setting:<66} {rule:<26} {row.error:8.3g}")
    for (share, beyond), (middle, worst) in sorted(clipping.regrets(found).items()):
        _say(f"  share {share}, {beyond} / epsilon_1: regret {middle:.2f}, at most {worst:.4g}")


def bench_long_answers() -> None:
    """Print the cost of base measures, bounds and ridges where answers may be long."""
    for study in long_answers.STUDIES:
        for title, regrets in study():
            _say(f"{title}: error over the best option's, geometric mean and largest")
            for each in regrets:
                _say(f"  {each.option:<20} {each.mean:6.2f} {each.largest:8.2f}")


def bench_slack() -> None:
    """Print the share of epsilon that the worst neighbours found reach, per offer."""
    _say("The largest log ratio of neighbours found, over epsilon, one coefficient or column")
    for found in slack.study():
        _say(f"  {found.offer:<38} {found.adjacency:<12} {found.reached:5.3f}")


def bench_draws() -> None:
    """Print the time per draw against its target."""
    _say("Time per draw, sketch ready")
    for timing in draws.timings():
        _say(
            f"  {timing.what:<47} {timing.median_ms:8.3f} ms"
            f"   target {timing.target_ms:g} ms   ratio {timing.median_ms / timing.target_ms:5.2f}"
        )


def bench_ledger() -> None:
    """Print durable debits per second of 64 callers, and the longest any of them waited."""
    _say("The ledger at its own interface, SQLite, 64 callers of one account")
    turns = ledger.measure()
    debits = ledger.median(turns, lambda turn: turn.debits.per_second)
    bare = ledger.median(turns, lambda turn: turn.bare.per_second)
    ratio = ledger.median(turns, lambda turn: turn.ratio)
    _say(
        f"  {debits:,.0f} debits/s   [at least 10,000]; bare driver, 64 rows to a commit:"
        f" {bare:,.0f}/s, ratio {ratio:4.2f}"
    )
    waits = [max(turn.debits.longest_wait_s, turn.releases.longest_wait_s) for turn in turns]
    commits = [turn.bare.longest_wait_s for turn in turns]
    _say(
        f"  longest wait {1000 * max(waits):.0f} ms   [at most 250];"
        f" the bare driver's longest transaction {1000 * max(commits):.0f} ms"
    )
    releases = ledger.median(turns, lambda turn: turn.releases.per_second)
    debit_us = ledger.median(turns, lambda turn: turn.debits.writer_us)
    release_us = ledger.median(turns, lambda turn: turn.releases.writer_us)
    _say(
        f"  {releases:,.0f} whole releases/s (a debit, then a result of 2 kB); the writer's"
        f" CPU time {debit_us:.0f} us for a debit, {release_us:.0f} us for a release"
    )


def bench_boxes() -> None:
    """Print the time of draws by the box engine."""
    _say("Time per draw by the box engine, CPU time")
    for timing in boxes.timings():
        target = f"   [at most {timing.target_s:g} s]" if timing.target_s else ""
        _say(
            f"  {timing.what:<57} {timing.median_s:7.2f} s"
            f"   slowest {timing.slowest_s:7.2f} s{target}"
        )


def bench_patterns() -> None:
    """Print the times of draws from random patterns of few distinct rows."""
    _say("Time per draw, 2 to 6 distinct rows of four true-or-false columns, CPU time")
    for row in patterns.table(patterns=250, seed=1):
        _say(
            f"  {row.kind:<9} median {row.median_s:6.3f} s   slowest {row.slowest_s:6.2f} s"
            f"   even rows {row.even_s:6.2f} s"
            f"   of its size and epsilon: ratio {row.ratio:5.2f}   [at most 4],"
            f" {row.within:.1%} within"
        )
        _say(f"    slowest: epsilon {row.slowest.epsilon}, {dict(row.slowest.counts)}")


def bench_service() -> None:
    """Print the two ratios of the service under load."""
    _say("The service over HTTP")
    with tempfile.TemporaryDirectory() as folder, service.server(Path(folder), {}) as port:
        ratio = service.rows_ratio(port)
        _say(f"  a mean at 20,000 rows over one at 200 rows: {ratio:5.3f}   [at most 1.1]")
        result = service.throughput(port)
        _say(
            f"  64 clients: bare {service.per_second(result.bare):,.0f}/s, releases "
            f"{service.per_second(result.releases):,.0f}/s, share {result.share:5.3f}"
            f"   [at least 0.4], release p99 {1000 * result.slow_release_s:.0f} ms   [100],"
            f" in the median turn {1000 * result.usual_slow_release_s:.0f} ms"
        )
        _say(f"  the disk alone: longest flush {1000 * result.longest_flush_s:.0f} ms")
        for what, runs in (("bare", result.bare), ("release", result.releases)):
            spent = service.processor_us(runs)
            parts = ", ".join(f"{kind} {spent[kind]:.0f}" for kind in spent)
            _say(f"  CPU time per {what}: {sum(spent.values()):.0f} us ({parts})")


def bench_jobs() -> None:
    """Print the cost of keeping a lane taken until a public moment."""
    _say("Jobs on one lane, from one draw's end to the next")
    for price in jobs.lane_prices():
        _say(
            f"  {price.what:<31} free at once {price.free_s:6.2f} s"
            f"   kept {price.kept_s:6.2f} s   share {price.share:5.3f}"
        )


def bench_upload() -> None:
    """Print the time and peak memory of a large upload against writing Parquet alone."""
    _say("Upload of 10^6 rows x 10 numbers")
    result = upload.measure()
    _say(
        f"  {result.upload_s:.2f} s against {result.parquet_s:.2f} s for Parquet alone: "
        f"ratio {result.ratio:4.2f}   [at most 4]; peak memory {result.peak_mb:.0f} MB   [700]"
    )


SECTIONS: dict[str, Callable[[], None]] = {
    "draws": bench_draws,
    "boxes": bench_boxes,
    "patterns": bench_patterns,
    "linear": bench_linear,
    "base": bench_base_measure,
    "long": bench_long_answers,
    "clip": bench_clipping,
    "slack": bench_slack,
    "logistic": bench_logistic,
    "tilt": bench_tilt,
    "upload": bench_upload,
    "ledger": bench_ledger,
    "service": bench_service,
    "jobs": bench_jobs,
}


def main() -> None:
    """Run the named sections, or all."""
    if sys.argv[1:2] == [
        "scale"
    ]:  # has options of its own, and takes hours where others take minutes
        scale(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], help="default: all")
    for name in parser.parse_args().section or SECTIONS:
        SECTIONS[name]()
        _say()


if __name__ == "__main__":
    main()
