"""The style: whole, by day and by night, for telephones and paper, and without outside parts."""

import re

from bertworks.evaluation.report_style import DARK, LIGHT, STYLE


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def test_the_style_is_whole_and_asks_for_nothing() -> None:
    assert STYLE.count("{") == STYLE.count("}")
    assert not re.search(r"https?:|//|url\(|@import|<", STYLE)


def test_every_color_that_is_used_is_there_by_day_and_by_night() -> None:
    own = {"from", "to", "share"}  # set where they are used
    used = set(re.findall(r"var\(--(\w+)\)", STYLE)) - own
    assert used <= set(LIGHT)
    assert LIGHT.keys() == DARK.keys()


def test_text_and_curves_stand_out_from_their_ground() -> None:
    for colors in (LIGHT, DARK):
        grounds = colors["ground"], colors["panel"]
        for name in ("ink", "soft", "good", "bad", "c0"):
            assert min(contrast(colors[name], ground) for ground in grounds) >= 4, name
        for name in ("c1", "c2", "c3", "c4", "c5"):
            assert contrast(colors[name], colors["ground"]) >= 3, name


def test_night_telephones_and_paper_have_their_rules() -> None:
    for rule in ("(prefers-color-scheme: dark)", "(max-width: 40rem)", "@media print"):
        assert rule in STYLE
