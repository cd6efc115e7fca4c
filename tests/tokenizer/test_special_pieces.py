"""The special pieces are found by what a folder says, or by the family of its vocabulary."""

import pytest

from bertworks.core.errors import ArtifactError
from bertworks.tokenizer.special_pieces import (
    ALBERT,
    BERT,
    KEYS,
    MPNET,
    ROBERTA,
    SpecialPieces,
    added_pieces,
    find_special_pieces,
    listed_pieces,
)


@pytest.mark.parametrize("family", [BERT, ROBERTA, ALBERT, MPNET])
def test_a_vocabulary_shows_its_family(family: SpecialPieces) -> None:
    assert find_special_pieces({}, [*family.names(), "a", "b"]) == family


def test_what_a_folder_says_counts_more_than_the_family() -> None:
    told = {
        "mask_token": {"content": "<hole>", "lstrip": True},
        "pad_token": "b",
        "sep_token": None,
    }
    found = find_special_pieces(told, [*BERT.names(), "<hole>", "b"])
    assert found == SpecialPieces("b", "[UNK]", "[CLS]", "[SEP]", "<hole>")


@pytest.mark.parametrize("role", KEYS)
def test_a_missing_piece_is_named_with_the_remedy(role: str) -> None:
    name = getattr(ROBERTA, role)
    held = [piece for piece in ROBERTA.names() if piece != name]
    with pytest.raises(ArtifactError) as error:
        find_special_pieces({}, held, where="tok/vocab.json")
    assert str(error.value) == (
        f"tok/vocab.json has no {name}, the {role} piece; name the right one as {KEYS[role]} in "
        "tokenizer_config.json, or learn the vocabulary again with learn-vocab"
    )


def test_a_piece_that_is_only_said_to_be_there_is_missing() -> None:
    with pytest.raises(ArtifactError, match=r"has no <hole>, the mask piece"):
        find_special_pieces({"mask_token": "<hole>"}, BERT.names())


def test_every_special_piece_is_added_once_with_its_flags() -> None:
    told = {
        "added_tokens_decoder": {
            "11": {"content": "later", "special": False, "normalized": True},
            "2": {"content": "[CLS]", "special": True, "rstrip": True},
        },
        "mask_token": {"content": "[MASK]", "lstrip": True},
        "additional_special_tokens": ["[MASK]", {"content": "[new]", "single_word": True}],
    }
    added = {token.content: token for token in added_pieces(told, BERT)}
    assert list(added) == ["[CLS]", "later", "[PAD]", "[UNK]", "[SEP]", "[MASK]", "[new]"]
    assert len(added_pieces(told, BERT)) == len(added)
    assert [name for name in added if added[name].lstrip] == ["[MASK]"]
    assert [name for name in added if added[name].rstrip] == ["[CLS]"]
    assert [name for name in added if added[name].single_word] == ["[new]"]
    assert [name for name in added if not added[name].special] == ["later"]
    assert [name for name in added if added[name].normalized] == ["later"]


def test_all_that_settings_add_is_listed_with_its_key_and_number() -> None:
    told = {
        "added_tokens_decoder": {"7": {"content": "<hole>"}},
        "extra_special_tokens": {"image_token": "<image>"},
        "additional_special_tokens": ["a", {"content": "b"}],
        "mask_token": "[MASK]",
    }
    assert list(listed_pieces(told)) == [
        ("added_tokens_decoder", "<hole>", 7),
        ("extra_special_tokens", "<image>", None),
        ("additional_special_tokens", "a", None),
        ("additional_special_tokens", "b", None),
    ]
    assert list(listed_pieces(dict.fromkeys(told))) == list(listed_pieces({})) == []
