"""Items that wait for their answers."""

from bertworks.service.jobs import Item, Job


def test_two_jobs_of_one_item_are_two_promises() -> None:
    item = Item("embed", [5, 6, 7], num_tokens=3)
    first, second = Job(item, deadline=1.0), Job(item, deadline=1.0)
    first.answer.set_result("seven")
    assert first != second
    assert not second.answer.done()
    assert not item.is_cut


def test_what_may_be_written_costs_but_is_not_read() -> None:
    item = Item("generate", [5, 6, 7], num_tokens=13, num_written=10)
    assert (item.num_tokens, item.num_read, item.is_written) == (13, 3, True)
    plain = Item("embed", [5, 6, 7], num_tokens=3)
    assert (plain.num_read, plain.is_written) == (3, False)
