"""The promises of the service under faults, each with a control that must break it.

    python benchmarks/service_faults.py [--share 0.01] [--only S3 O1 ...]

Small models with random weights are made in a temporary folder and served by child processes; the
clients live here. The targets are those of a service on two cores that does nothing else; counts
and seconds are multiplied by the share. The exit code is 1 if a promise is not kept.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fault_site import Site, Verdict
from faults_of_answers import counted, hung_up, swapped_answers
from faults_of_input import made_up, malformed
from faults_of_life import ended, lost_worker, swapped
from faults_of_load import much_among_little, overload, soak

from bertworks.core.progress import mute

Check = Callable[[Site, float], Iterator[Verdict]]
CHECKS: dict[str, Check] = {
    "S3": swapped_answers,
    "O1": overload,
    "O2": soak,
    "O3": much_among_little,
    "O5": hung_up,
    "B1": malformed,
    "B2": made_up,
    "L1": ended,
    "L2": lost_worker,
    "L4": swapped,
    "L5": counted,
}
OPEN_FILES = 4096


def main() -> None:
    """Print a table of what was promised and what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts and times")
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), default=list(CHECKS))
    asked = parser.parse_args()
    if not 0 < asked.share <= 10:
        parser.error(f"--share {asked.share:g} is not above 0 and at most 10")
    mute()
    allow_many_connections()
    print(f"{'test':12}{'target':52}{'ok':5}found")
    with tempfile.TemporaryDirectory() as folder:
        verdicts = [v for name in asked.only for v in show(name, Site(Path(folder)), asked.share)]
    broken = sum(not verdict.is_kept for verdict in verdicts)
    print(f"{len(verdicts) - broken} of {len(verdicts)} kept")
    sys.exit(bool(broken))


def show(name: str, site: Site, share: float) -> list[Verdict]:
    """Print what one check finds, as soon as it does."""
    verdicts, began = [], time.perf_counter()
    for verdict in CHECKS[name](site, share):
        verdicts.append(verdict)
        is_kept = "yes" if verdict.is_kept else "NO"
        print(f"{verdict.test:12}{verdict.target:52}{is_kept:5}{verdict.found}", flush=True)
    print(f"{'':12}({time.perf_counter() - began:.0f} s)", flush=True)
    return verdicts


def allow_many_connections() -> None:
    """Let this process and its children hold more connections than a shell usually allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))


if __name__ == "__main__":
    main()
