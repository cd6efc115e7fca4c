"""The service under faults, in short; `make faults` runs the full counts, with times."""

import asyncio
import random
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FEW = ("--batch-tokens", 64, "--queue-tokens", 2000, "--deadline", 60)


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """Import the parts of the long version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield SimpleNamespace(
            client=import_module("service_client"),
            site=import_module("fault_site"),
            answers=import_module("faults_of_answers"),
            input=import_module("faults_of_input"),
            life=import_module("faults_of_life"),
            days=import_module("faults_of_days"),
            wire=import_module("faults_of_wire"),
            locks=import_module("faults_of_locks"),
            rows=import_module("fault_rows"),
            script=import_module("service_faults"),
        )


@pytest.fixture(scope="module")
def site(bench, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return bench.site.Site(tmp_path_factory.mktemp("site"), num_texts=301, seed=5)


@pytest.fixture(scope="module")
def sound(site) -> Iterator[Any]:
    """Run a service as it comes."""
    with site.serve(site.model("a"), "--allow-swap", "--deadline", 60) as service:
        yield service


@pytest.fixture(scope="module")
def slow(site) -> Iterator[Any]:
    """Run a service that computes little at a time, slowly, whose worker can be killed."""
    doom = ["--slow", 0.05, "--stuck-after", 1]
    with site.serve(site.model("a"), *FEW, doom=doom) as service:
        yield service


def test_every_client_gets_its_own_answer_whoever_hangs_up(bench, site, sound) -> None:
    wanted = site.vectors(site.model("a"))
    found = bench.client.run(bench.answers.crowd(site, sound, wanted, each=5))
    assert found.statuses.keys() == {200}
    assert not found.num_wrong
    assert found.num_left


def test_answers_that_are_mixed_up_are_seen(bench, site) -> None:
    wanted = site.vectors(site.model("a"))
    with site.serve(site.model("a"), doom=["--mix"]) as service:
        assert bench.client.run(bench.answers.crowd(site, service, wanted, each=3)).num_wrong


def test_what_cannot_be_read_is_refused_in_json(bench, sound) -> None:
    requests = bench.input.make_requests(270, seed=3)
    told = bench.client.run(bench.input.send_all(sound, requests))
    assert not told.complaints
    assert {400, 404, 415, 422} <= told.statuses.keys()
    assert sound.fetch("/readyz")[0] == 200


def test_requests_made_up_from_the_schema_are_answered_as_it_says(bench, sound) -> None:
    done = bench.input.make_up(sound, f"http://127.0.0.1:{sound.port}/openapi.json", 2)
    assert done.returncode == 0, done.stdout[-3000:]


def test_what_is_hardly_http_is_refused_and_nothing_is_smuggled(bench, sound) -> None:
    chance = random.Random(11)
    odd = [bench.wire.odd_bytes(chance) for _ in range(150)]
    told = [bench.wire.judge_raw(one) for one in bench.client.run(bench.wire.send_raw(sound, odd))]
    assert not [one for one in told if one.startswith("wrong")]
    assert {"200", "400"} <= set(told)
    for hidden in bench.client.run(bench.wire.read_raw(sound, bench.wire.smuggling())):
        assert hidden.startswith(b"HTTP/1.1 400")
        assert hidden.count(b"HTTP/1.1 ") == 1
    (both,) = bench.client.run(bench.wire.read_raw(sound, [bench.client.get("/livez") * 2]))
    assert both.count(b"HTTP/1.1 200") == 2  # as a smuggled one would be seen


def test_no_string_leads_to_a_file_of_the_machine(bench, site, sound) -> None:
    secret = site.folder / "secret.txt"
    secret.write_text(bench.locks.CANARY)
    paths = bench.locks.hostile_paths(40, secret=secret, seed=5)
    requests = [request for path in paths for request in bench.locks.at_every_place(path)]
    replies = bench.client.run(bench.site.ask_all(sound, requests, clients=8))
    assert {reply.status for reply in replies} <= {200, 400, 404, 405, 422}
    assert not [one for one in replies if b"root:" in one.body or b"no client" in one.body]


def test_it_says_that_it_lives_while_its_line_is_full_and_in_exchange(bench, site, sound) -> None:
    many = [site.request(range(90))] * 40
    swap = [bench.client.post(f"/models/{bench.site.NAME}", {"path": str(site.model("a"))})]
    for requests in (many, swap):
        seen, told = bench.client.run(
            bench.days.probe_while(sound, lambda some=requests: bench.days.ask_each(sound, some))
        )
        assert set(seen) == {200}
        assert set(told) <= {200, 429}


def test_mixed_work_leaves_nothing_behind(bench, site, sound) -> None:
    wanted = {"a": site.vectors(site.model("a")), "b": site.vectors(site.model("b"))}
    before, day = sound.num_files(), bench.days.Day(site, sound, wanted)
    bench.client.run(day.spend(rate=60, seconds=2))
    assert day.num_right
    assert not day.num_wrong
    assert not day.num_hung
    assert not day.complaints
    assert sound.num_files() <= before + 5


def test_a_service_that_was_killed_is_back_on_its_port_and_right(bench, site) -> None:
    port = bench.client.free_port()
    for _ in range(2):
        _, is_right = bench.days.rise(site, port)
        assert is_right


def test_every_promise_is_counted_or_names_its_test(bench) -> None:
    groups = {"S": 9, "O": 8, "B": 6, "L": 7, "X": 10}
    every = [f"{group}{n}" for group, count in groups.items() for n in range(1, count + 1)]
    assert list(bench.rows.ROWS) == every
    page = (BENCHMARKS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    for name, row in bench.rows.ROWS.items():
        path, _, test = row.test.partition("::")
        assert f"def {test}(" in (BENCHMARKS.parent / "tests" / path).read_text(encoding="utf-8")
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        assert f"tests/{row.test}" in line


def test_the_table_tells_what_is_kept_and_whether_its_control_failed(bench) -> None:
    seen = [("S3", True), ("S3 control", True), ("L3", False), ("L3", True), ("L3 control", False)]
    verdicts = [bench.site.Verdict(test, "a", "b", is_kept) for test, is_kept in seen]
    lines = {
        line.split(" | ")[0]: line for line in bench.script.table(["S3", "S6", "L3"], verdicts)
    }
    assert lines["| S3"].endswith("| a: b | yes | fails, as it must |")
    assert lines["| S6"].endswith("::test_logits_of_any_size_give_chances_that_sum_to_one` | "
                                  "by `make test` | in the test |")  # fmt: skip
    assert lines["| L3"].endswith("| a: b; a: b | **no** | **passes** |")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error": {"code": "failed", "message": ""}}'),
        (400, b"Bad Request"),
        (422, b'{"error": {"code": "unheard_of"}}'),
        (200, b'{"score": NaN}'),
        (0, b""),
    ],
)
def test_a_reply_that_breaks_the_promise_is_seen(bench, status: int, body: bytes) -> None:
    assert bench.input.complaint(bench.client.Reply(status, b"", body, 0.0))


def test_the_service_counts_what_its_clients_count(bench, site, sound) -> None:
    before = bench.site.metrics_of(sound)
    ledger = bench.client.run(bench.answers.ask_many(site, sound, 60))
    middle = bench.site.metrics_of(sound)
    ledger += bench.client.run(bench.answers.ask_many(site, sound, 60))
    after = bench.site.metrics_of(sound)
    assert not bench.answers.differences(ledger, before, after)
    assert len(middle) == len(after)  # as many series, whatever was asked for
    ledger[bench.site.ROUTE, 200] += 1
    assert bench.answers.differences(ledger, before, after)


def test_a_model_is_exchanged_under_load_and_a_broken_one_refused(bench, site, sound) -> None:
    a, b = site.model("a"), site.model("b")
    broken = bench.life.damaged_copy(b, site.folder / "broken")
    wanted = {"a": site.vectors(a), "b": site.vectors(b)}
    swapping = bench.life.swap_under_load(site, sound, [b, broken, a], wanted, 3)
    found = bench.client.run(swapping)
    assert found.statuses.keys() == found.swaps.keys() == {200}
    assert found.refusals.keys() == {422}
    assert found.sides.keys() <= {"a", "b"}
    assert not found.num_mislabelled


def test_more_than_fits_is_told_when_to_come_again(bench, site, slow) -> None:
    wanted = site.vectors(site.model("a"))

    async def burst() -> list[tuple[Any, Any]]:
        asked = [site.ask(most=1) for _ in range(301)]
        connections = [await bench.client.connect(slow.port) for _ in asked]
        pairs = zip(connections, asked, strict=True)
        replies = await asyncio.gather(*(one.ask(what.request) for one, what in pairs))
        return list(zip(asked, replies, strict=True))

    pairs = bench.client.run(burst())
    assert {reply.status for _, reply in pairs} == {200, 429}
    assert all(reply.header("retry-after") for _, reply in pairs if reply.status == 429)
    right = [(asked, reply) for asked, reply in pairs if reply.status == 200]
    assert all(bench.site.is_right(reply, wanted[list(asked.places)]) for asked, reply in right)


def test_one_text_does_not_wait_for_the_whole_of_a_large_request(bench, site, slow) -> None:
    async def both() -> tuple[Any, bool, Any]:
        large, small = [await bench.client.connect(slow.port) for _ in range(2)]
        asking = asyncio.ensure_future(large.ask(site.request(range(90))))
        await asyncio.sleep(0.2)
        reply = await small.ask(site.request((7,)))
        return reply, asking.done(), await asking

    little, is_large_done, much = bench.client.run(both())
    assert little.status == much.status == 200
    assert not is_large_done


def test_what_nobody_waits_for_is_not_computed(bench, site, slow) -> None:
    before, _, after = bench.client.run(bench.answers.drop_all(site, slow, 91))
    name = "bertworks_skipped_total"
    assert bench.site.total(after, name) - bench.site.total(before, name) > 45
    assert bench.site.total(after, "bertworks_requests_in_flight") == 1  # the one that asks
    assert bench.site.total(after, "bertworks_waiting_tokens") == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=["dies", "hangs"])
def test_a_lost_worker_is_seen_and_replaced_and_nobody_hangs(bench, site, slow, number) -> None:
    unready, ready, statuses = bench.client.run(bench.life.rob(site, slow, number, until=20.0))
    assert unready is not None
    assert ready is not None
    assert statuses.keys() == {200, 503}


def test_who_was_let_in_is_answered_before_the_service_ends(bench, site, slow) -> None:
    wanted = site.vectors(site.model("a"))
    ending = bench.life.end_while_busy(site, slow, signal.SIGTERM, 40)
    replies, still_ready, _ = bench.client.run(ending)
    assert all(bench.site.is_right(reply, wanted[list(at)]) for at, reply in replies)
    assert not still_ready
    assert slow.process.returncode == 0
