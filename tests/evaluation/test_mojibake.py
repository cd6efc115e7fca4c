"""Text read in a wrong encoding is told from text in any language."""

import pytest

from bertworks.evaluation.mojibake import is_mojibake

CHINESE = [
    "文本",
    "你好，世界",
    "联通",  # famous for bytes that look like UTF-8
    "今天天气很好，我们去公园散步吧。",
    "北京2008年奥运会（第29届）",
    "他问：“你是谁？”",
    "魑魅魍魉",
    "饕餮盛宴，觥筹交错",
    "繁體中文的句子，臺灣與香港。",
    "鑫淼焱垚",
    "喆",
    "日本語の文章です。",
    "한국어 문장",
]
EUROPEAN = [
    "Größe über alles: Straße, Äpfel, Öl, Übermut",
    "ÄÄÄÄH! ÖÖÖÖ! JÄÄÄÄR",
    "ÄÖÜ äöüß",
    "ABCDEFGHIJKÕÄÖÜ",
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ",
    "Noël à l’été, où l’œuvre naît : « DÉJÀ ! »",
    "À CÔTÉ DE L’ÉCOLE ÉLÉMENTAIRE",
    "OPÇÕES GLOBAIS, INSERÇÃO, AÇÃO",
    "¿Qué? ¡Ándale! ¿¡Cómo!?",
    "Þýðing á íslensku: ÞÆÐI, ÁÆTLUN",
    "Smørrebrød på Ærø",
    "10 °C ± 0,5 · 3 × 4 = 12 ½",
    "²³¹ ¼½¾ ±×÷",
    "2²º¹³ per 3",
    "§ 5 Abs. 2 – „Maß“ … €",
    "Ça va ? Très bien, merci ! Forêt, pâté, naïf",
]


@pytest.mark.parametrize("text", CHINESE + EUROPEAN)
def test_text_in_any_language_is_not_suspected(text: str) -> None:
    assert not is_mojibake(text)
    assert not any(map(is_mojibake, (text.upper(), text.lower(), *text.split())))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("text", ["déjà vu", "it’s so", "£5", "你好吗"])
def test_utf_8_read_as_latin_is_found(text: str, encoding: str) -> None:
    broken = text.encode().decode(encoding, errors="replace")
    assert is_mojibake(broken) or "\ufffd" in broken


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("text", [CHINESE[0], *CHINESE[3:6], "BERT 模型的文本"])
def test_gbk_read_as_latin_is_found(text: str, encoding: str) -> None:
    assert is_mojibake(text.encode("gb18030").decode(encoding))


@pytest.mark.parametrize("text", [CHINESE[0], *CHINESE[3:6], "中文测试", "BERT 模型的文本"])
def test_utf_8_read_as_gbk_is_found_though_some_bytes_are_lost(text: str) -> None:
    assert is_mojibake(text.encode().decode("gb18030", "ignore"))
