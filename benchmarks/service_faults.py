"""The promises of the service under faults, each with a control that must break it.

    python benchmarks/service_faults.py [--share 0.01] [--only S3 O1 ...]

Small models with random weights are made in a temporary folder and served by child processes; the
clients live here. The targets are those of a service on two cores that does nothing else; counts
and seconds are multiplied by the share. A table of all promises ends it. The exit code is 1 if one
is not kept.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fault_rows import ROWS, Check
from fault_site import Site, Verdict

from bertworks.core.progress import mute

OPEN_FILES = 4096
CONTROL = " control"


def main() -> None:
    """Print what was promised and what was found, then a table of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts and times")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    asked = parser.parse_args()
    if not 0 < asked.share <= 10:
        parser.error(f"--share {asked.share:g} is not above 0 and at most 10")
    mute()
    allow_many_connections()
    checks = list(dict.fromkeys(check for name in asked.only for check in ROWS[name].checks))
    print(f"{'test':12}{'target':66}{'ok':5}found")
    with tempfile.TemporaryDirectory() as folder:
        verdicts = [v for check in checks for v in show(check, Site(Path(folder)), asked.share)]
    for line in table(asked.only, verdicts):
        print(line)
    broken = sum(not verdict.is_kept for verdict in verdicts)
    print(f"\n{len(verdicts) - broken} of {len(verdicts)} kept")
    sys.exit(bool(broken))


def show(check: Check, site: Site, share: float) -> list[Verdict]:
    """Print what one check finds, as soon as it does."""
    verdicts, began = [], time.perf_counter()
    for verdict in check(site, share):
        verdicts.append(verdict)
        is_kept = "yes" if verdict.is_kept else "NO"
        print(f"{verdict.test:12}{verdict.target:66}{is_kept:5}{verdict.found}", flush=True)
    print(f"{'':12}({check.__name__}: {time.perf_counter() - began:.0f} s)", flush=True)
    return verdicts


def table(names: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    """Return one line for each promise: what was found, whether it is kept, and its control."""
    lines = ["", "| | promise | found | kept | control |", "|---|---|---|---|---|"]
    for name in names:
        own = [one for one in verdicts if one.test.split()[0] == name]
        controls = [one for one in own if one.test.endswith(CONTROL)]
        counted = [one for one in own if one not in controls]
        if not ROWS[name].checks:
            found, kept, control = f"`tests/{ROWS[name].test}`", "by `make test`", "in the test"
        else:
            found = "; ".join(f"{one.target}: {one.found}" for one in counted)
            kept = "yes" if counted and all(one.is_kept for one in counted) else "**no**"
            control = "fails, as it must" if all(one.is_kept for one in controls) else "**passes**"
            control = control if controls else "none"
        lines.append(f"| {name} | {ROWS[name].promise} | {found} | {kept} | {control} |")
    return lines


def allow_many_connections() -> None:
    """Let this process and its children hold more connections than a shell usually allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))


if __name__ == "__main__":
    main()
