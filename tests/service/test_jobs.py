"""Items that wait for their answers."""

from bertworks.service.jobs import Item, Job


def test_two_jobs_of_one_item_are_two_promises() -> None:
    item = Item("embed", [5, 6, 7], num_tokens=3)
    first, second = Job(item, deadline=1.0), Job(item, deadline=1.0)
    first.answer.set_result("seven")
    assert first != second
    assert not second.answer.done()
    assert not item.is_cut
