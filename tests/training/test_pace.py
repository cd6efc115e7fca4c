"""Where a run stands: by steps it never looks at the clock, by a budget it ends in time."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.core.errors import UsageError
from bertworks.training.pace import SECONDS_TO_CLOSE, Budget, Pace, Spent, seconds_of
from bertworks.training.schedule import Schedule


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def run_through(pace: Pace, clock: Clock, *, step_time: float, evaluation: float = 0.0) -> int:
    """Take steps until the last, and do what is done at the end; return how many."""
    with pace.timing("evaluation"):
        clock.now += evaluation
    step = 0
    while pace.goes_on_after(step):
        step += 1
        pace.rate(step)
        clock.now += step_time
        if pace.is_last(step):
            break
    clock.now += 2 * evaluation
    return step


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("90s", 90), ("25m", 1500), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661), ("100m", 6000)],
)
def test_a_duration_is_read_in_hours_minutes_and_seconds(duration: str, seconds: int) -> None:
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize(
    "duration", ["", "25", "m", "0m", "-5m", "1.5h", "30m1h", "25 m", "25min", "1d"]
)
def test_what_is_no_duration_is_refused_with_an_example(duration: str) -> None:
    with pytest.raises(UsageError, match="must be a time such as 25m or 1h30m"):
        seconds_of(duration)


def test_a_run_by_steps_never_looks_at_the_clock() -> None:
    pace = Pace(steps=7, schedule=Schedule(warmup=2))
    assert [pace.rate(step) for step in (1, 2, 7)] == pytest.approx([1 / 2, 1, 1 / 6])
    assert [pace.is_last(step) for step in (1, 6, 7)] == [False, False, True]
    assert [pace.goes_on_after(step) for step in (0, 6, 7)] == [True, True, False]
    assert [pace.share(step) for step in (0, 7)] == [0, 1]
    assert (pace.spent.place, pace.note(), pace.wants("save")) == (0.0, "", False)


def test_a_budget_starts_when_it_is_made() -> None:
    clock = Clock()
    budget = Budget(seconds=60.0, clock=clock)
    clock.now += 7
    assert budget.spent() == 7
    assert Pace(steps=None, budget=budget, before=Spent(20)).seconds == 27


@given(
    seconds=st.integers(20, 5000),
    step_time=st.floats(0.1, 1.0),
    evaluation=st.floats(0.0, 3.0),
    already=st.floats(0, 5),
)
def test_a_run_ends_in_time_and_wastes_little_of_it(
    seconds: int, step_time: float, evaluation: float, already: float
) -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=seconds, clock=clock), before=Spent(already))
    run_through(pace, clock, step_time=step_time * seconds / 100, evaluation=evaluation)
    spent = already + clock.now - 1000
    assert spent <= seconds + 1e-6
    assert spent >= seconds - SECONDS_TO_CLOSE - 2 * step_time * seconds / 100 - 1e-6


def test_a_run_that_does_not_measure_its_end_would_be_late() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock))
    run_through(pace, clock, step_time=0.5, evaluation=0.0)
    clock.now += 2 * 10  # an evaluation that nobody had timed
    assert clock.now - 1000 > 100


def test_a_first_step_that_takes_long_does_not_end_the_run() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock))
    pace.rate(1)
    clock.now += 60
    assert not pace.is_last(1)
    pace.rate(2)
    clock.now += 1
    assert not pace.is_last(2)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "stable"])
def test_the_rate_has_come_down_when_the_time_is_over(schedule: str) -> None:
    clock = Clock()
    pace = Pace(
        steps=None,
        budget=Budget(seconds=1000, clock=clock),
        schedule=Schedule(name=schedule, warmup=100.0),
    )
    rates = []
    while not pace.has_ended:
        rates.append(pace.rate(len(rates) + 1))
        clock.now += 1.0
        pace.is_last(len(rates))
    assert rates[51] == pytest.approx(0.5)  # the rise begins after the first
    assert rates[101] == 1
    assert max(rates) == 1
    assert rates[-1] < 0.01
    assert 990 < len(rates) <= 1000


def test_what_is_prepared_does_not_use_up_the_rise_of_the_rate() -> None:
    clock = Clock()
    pace = Pace(
        steps=None, budget=Budget(seconds=1000, clock=clock), schedule=Schedule(warmup=20.0)
    )
    clock.now += 50  # shards are opened
    rates = [pace.rate(1)]
    clock.now += 40  # kernels are compiled
    pace.is_last(1)
    for step in range(2, 13):
        rates.append(pace.rate(step))
        clock.now += 2
        pace.is_last(step)
    assert rates == pytest.approx([0, *(number / 10 for number in range(11))])
    assert pace.share(12) == pytest.approx(22 / (1000 - SECONDS_TO_CLOSE - 90))


def test_a_first_step_that_takes_all_the_time_is_the_last() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=9, clock=clock), schedule=Schedule(warmup=2.0))
    assert (pace.rate(1), pace.share(1)) == (0, 0)
    clock.now += 9 - SECONDS_TO_CLOSE
    assert pace.is_last(1)
    assert 0 <= pace.share(1) <= 1


def test_a_resumed_run_goes_on_with_what_was_left() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock), before=Spent(60))
    steps = run_through(pace, clock, step_time=1.0)
    assert 36 <= steps <= 40
    late = Pace(steps=None, budget=Budget(seconds=100, clock=clock), before=Spent(99.5))
    assert not late.goes_on_after(7)


@pytest.mark.parametrize("worked", [50, 500])  # in the rise of the rate, and in its fall
def test_a_resumed_run_goes_on_with_the_rate_that_it_had(worked: int) -> None:
    """What the second process opens and compiles is no part of the way of the rate either."""
    schedule, clock = Schedule(warmup=200.0), Clock()
    first = Pace(steps=None, budget=Budget(seconds=1000, clock=clock), schedule=schedule)
    clock.now += 90  # shards are opened, kernels compiled
    first.rate(1)
    clock.now += 10
    first.is_last(1)
    clock.now += worked
    stopped, rate, share = first.spent, first.rate(2), first.share(2)
    way = 1000 - SECONDS_TO_CLOSE - 100
    assert stopped == Spent(100 + worked, worked, way)
    assert rate == pytest.approx(worked / 200 if worked < 200 else 1 - (worked - 200) / (way - 200))

    second = Pace(
        steps=None, budget=Budget(seconds=1000, clock=clock), schedule=schedule, before=stopped
    )
    clock.now += 40
    assert (second.rate(3), second.share(3)) == (rate, share)
    clock.now += 20
    second.is_last(3)
    assert (second.rate(4), second.share(4)) == (rate, share)
    assert second.spent == Spent(160 + worked, worked, way)
    left = way - worked - 60
    clock.now += left / 4  # a fourth of the rest, in whatever time is left
    assert second.share(5) == pytest.approx(share + (1 - share) / 4)
    assert second.rate(5) == pytest.approx(schedule.at(worked + (way - worked) / 4, end=way))
    clock.now += left * 3 / 4
    assert second.rate(6) == pytest.approx(0, abs=1e-9)


def test_the_longest_work_counts_but_for_the_first_which_also_prepares() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock))
    ends = []
    for seconds in (30, 2, 5, 3):
        with pace.timing("evaluation"):
            clock.now += seconds
        ends.append(pace.end)
    assert ends == [100 - SECONDS_TO_CLOSE - 2 * longest for longest in (30, 2, 5, 5)]


@pytest.mark.parametrize(("compiles", "left_for_it"), [(True, 2), (False, 30)])
def test_what_is_rehearsed_is_done_again_where_the_first_time_compiles(
    compiles: bool, left_for_it: int
) -> None:
    clock, taken = Clock(), iter((30, 2))
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock))

    def evaluate() -> None:
        clock.now += next(taken)

    pace.rehearse("evaluation", evaluate, compiles=compiles)
    assert pace.end == 100 - SECONDS_TO_CLOSE - 2 * left_for_it
    assert not pace.wants("evaluation")


def test_under_a_budget_work_is_wanted_until_it_was_timed() -> None:
    clock = Clock()
    pace = Pace(steps=None, budget=Budget(seconds=100, clock=clock))
    assert pace.wants("save")
    with pace.timing("save"):
        clock.now += 3
    assert not pace.wants("save")
    assert pace.wants("evaluation")
    assert pace.note() == ", 90 s left"


def rates_of(pace: Pace, clock: Clock, times: Sequence[float], *, after: int = 0) -> list[float]:
    """Take steps that take these times until the last; return the rate of each."""
    rates = []
    for step, seconds in enumerate(times, start=after + 1):
        rates.append(pace.rate(step))
        clock.now += seconds
        if pace.is_last(step):
            break
    return rates


@pytest.mark.parametrize("step_time", [0.5, 0.1])
def test_steps_that_are_done_in_time_have_the_rates_of_a_run_by_steps(step_time: float) -> None:
    clock, budget = Clock(), 1000.0
    schedule = Schedule(warmup=0.1 * budget)
    pace = Pace(steps=1000, budget=Budget(seconds=budget, clock=clock), schedule=schedule)
    rates = rates_of(pace, clock, [step_time] * 2000)
    by_steps = Pace(steps=1000, schedule=Schedule(warmup=0.1 * 1000))
    assert len(rates) == 1000
    assert not pace.goes_on_after(1000)
    assert rates == pytest.approx([by_steps.rate(step) for step in range(1, 1001)], abs=3e-3)
    assert pace.share(1000) == pytest.approx(1, abs=2e-3)


def test_the_rate_of_steps_that_take_too_long_comes_down_in_time() -> None:
    clock, schedule = Clock(), Schedule(warmup=100.0)
    budget = Budget(seconds=1000, clock=clock)
    both = Pace(steps=2000, budget=budget, schedule=schedule)
    rates = rates_of(both, clock, [1.0] * 2000)
    assert 990 < len(rates) < 1000
    assert both.has_ended
    clock.now = 1000.0
    by_time = Pace(steps=None, budget=Budget(seconds=1000, clock=clock), schedule=schedule)
    # Steps are ahead of a time that begins behind the first, for three of them.
    assert rates[3:] == pytest.approx(rates_of(by_time, clock, [1.0] * 2000)[3:])


def test_a_run_that_slows_down_goes_on_from_where_its_steps_have_brought_it() -> None:
    clock = Clock()
    pace = Pace(steps=1000, budget=Budget(seconds=1000, clock=clock), schedule=Schedule())
    rates = rates_of(pace, clock, [0.1] * 500 + [10.0] * 500)
    assert 500 < len(rates) < 600
    assert rates == sorted(rates, reverse=True)
    assert rates[499] == pytest.approx(0.5, abs=0.01)
    assert rates[540] == pytest.approx(rates[499] - 40 / 1001, abs=0.01)  # still by steps
    assert rates[-1] < 0.02  # by time at last


def test_a_resumed_run_by_both_goes_on_where_its_steps_were() -> None:
    clock = Clock()
    first = Pace(steps=1000, budget=Budget(seconds=1000, clock=clock), schedule=Schedule())
    rates = rates_of(first, clock, [0.1] * 500)
    second = Pace(
        steps=1000,
        budget=Budget(seconds=1000, clock=clock),
        schedule=Schedule(),
        before=first.spent,
    )
    clock.now += 40  # what is opened and compiled anew
    rates += rates_of(second, clock, [0.1] * 500, after=500)
    assert len(rates) == 1000
    by_steps = Pace(steps=1000)
    assert rates == pytest.approx([by_steps.rate(step) for step in range(1, 1001)], abs=1e-2)
