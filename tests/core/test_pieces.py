"""The special pieces keep BERT's order."""

from dataclasses import replace

from torch.nn import CrossEntropyLoss

from bertworks.core.pieces import IGNORE, SpecialIds

IDS = SpecialIds(pad=11, unknown=7, first=5, separator=3, mask=2)


def test_the_order_is_pad_unknown_first_separator_mask() -> None:
    assert IDS.as_tuple() == (11, 7, 5, 3, 2)


def test_ids_come_back_from_json() -> None:
    assert SpecialIds(**IDS.as_json()) == IDS
    two = replace(IDS, num_between=2)
    assert SpecialIds(**two.as_json()) == two
    same = replace(IDS, second_segment=0)
    assert SpecialIds(**same.as_json()) == same


def test_ids_written_before_separators_were_counted_have_one_between() -> None:
    told = IDS.as_json()
    del told["num_between"]
    assert SpecialIds(**told) == IDS
    assert IDS.num_between == 1


def test_ids_written_before_segments_were_asked_for_number_the_second_text() -> None:
    told = IDS.as_json()
    del told["second_segment"]
    assert SpecialIds(**told) == IDS
    assert IDS.second_segment == 1


def test_a_text_needs_two_special_pieces_and_a_pair_one_more_for_each_between() -> None:
    assert (IDS.num_added(pair=False), IDS.num_added(pair=True)) == (2, 3)
    two = replace(IDS, num_between=2)
    assert (two.num_added(pair=False), two.num_added(pair=True)) == (2, 4)


def test_the_loss_ignores_what_we_ignore() -> None:
    assert CrossEntropyLoss().ignore_index == IGNORE
