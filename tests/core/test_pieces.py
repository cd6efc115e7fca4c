"""The special pieces keep BERT's order."""

from torch.nn import CrossEntropyLoss

from bertworks.core.pieces import IGNORE, SpecialIds

IDS = SpecialIds(pad=11, unknown=7, first=5, separator=3, mask=2)


def test_the_order_is_pad_unknown_first_separator_mask() -> None:
    assert IDS.as_tuple() == (11, 7, 5, 3, 2)


def test_ids_come_back_from_json() -> None:
    assert SpecialIds(**IDS.as_json()) == IDS


def test_the_loss_ignores_what_we_ignore() -> None:
    assert CrossEntropyLoss().ignore_index == IGNORE
