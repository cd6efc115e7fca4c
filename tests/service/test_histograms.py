"""Histograms: every value in its bucket, whichever thread brings it."""

import time
from threading import Thread

from bertworks.service.histograms import MEANINGS, BatchMeasures, Histogram
from bertworks.service.jobs import Item, Job
from bertworks.service.waiting import Batch


def test_values_fall_under_the_first_bound_that_they_do_not_exceed() -> None:
    histogram = Histogram((1, 4, 16))
    histogram.add(0.5, 1, 2)
    histogram.add(4.5, 99)
    assert list(histogram.lines("sizes", 'model="a"')) == [
        'sizes_bucket{model="a",le="1"} 2',
        'sizes_bucket{model="a",le="4"} 3',
        'sizes_bucket{model="a",le="16"} 4',
        'sizes_bucket{model="a",le="+Inf"} 5',
        'sizes_sum{model="a"} 107.000000',
        'sizes_count{model="a"} 5',
    ]


def test_no_value_of_any_thread_is_lost() -> None:
    histogram = Histogram((0,))
    threads = [Thread(target=lambda: [histogram.add(1) for _ in range(3001)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(histogram.lines("n", "a"))[-1] == "n_count{a} 12004"


def test_a_batch_is_told_by_its_inputs_and_how_long_they_waited() -> None:
    measures, now = BatchMeasures(), time.monotonic()
    jobs = [Job(Item("key", None, tokens), now + 9, came=now - 3) for tokens in (3, 70)]
    measures.begin(Batch("key", jobs, []))
    measures.begin(Batch("key", [], jobs))  # all came too late: nothing is computed
    told = {name: list(one.lines(name, "")) for name, one in measures.told.items()}
    assert told.keys() == MEANINGS.keys()
    assert told["bertworks_queue_seconds"][-1].endswith(" 2")
    assert 6 <= float(told["bertworks_queue_seconds"][-2].split()[1]) < 60
    assert told["bertworks_batch_items"][-2:] == [
        "bertworks_batch_items_sum{} 2.000000",
        "bertworks_batch_items_count{} 1",
    ]
    assert told["bertworks_batch_tokens"][-2].endswith(" 73.000000")
    assert told["bertworks_input_tokens"][-1].endswith(" 2")
