"""From a request to its answer: read off the loop, wait in the queue, written off the loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from bertworks.service.admission import (
    Door,
    Gone,
    Limits,
    decode,
    read_body,
    require_room,
    require_short,
)
from bertworks.service.delivery import deliver
from bertworks.service.failures import Failure
from bertworks.service.jobs import Item, Job
from bertworks.service.lengths import CHARACTERS, MOST_PIECES
from bertworks.service.long_strings import without_ends
from bertworks.service.metrics import Metrics
from bertworks.service.models import Models, ServedModel
from bertworks.service.numbers import is_finite
from bertworks.service.turns import turns_of

NUM_READERS = 4  # threads that read and write JSON and cut texts
SMALL = 2048  # bytes, which are read faster than a thread is reached
BRIEF = 512  # bytes of inputs that are cut faster than a thread is reached; so are few vectors told
KEPT = CHARACTERS * MOST_PIECES + 1  # characters of a string; no model looks at the last one
SWAPS = 3  # how often a model may be exchanged under a request before it is refused


@dataclass(frozen=True)
class Question:
    """Inputs of one kind for a model."""

    ability: str
    inputs: Sequence[Any]
    options: Mapping[str, Any] = field(default_factory=dict)  # None: as the model has it


@dataclass(frozen=True)
class Answered:
    """One answer for each input of all questions, in order, and what it took."""

    served: ServedModel
    answers: list[Any]
    items: Sequence[Item]

    @property
    def num_tokens(self) -> int:
        """How many tokens were read."""
        return sum(item.num_read for item in self.items)

    @property
    def is_cut(self) -> list[bool]:
        """Of which inputs a part was not read."""
        return [item.is_cut for item in self.items]


@dataclass(frozen=True)
class Exchange:
    """The shape of a conversation: what is read, what it asks a model, what is told of it."""

    request: Any  # a type of schemas
    ask: Callable[[Any, ServedModel], Sequence[Question]]
    shape: Callable[[Any, Answered], Any]

    @cached_property
    def decoder(self) -> "msgspec.json.Decoder[Any]":
        """What reads the body."""
        return msgspec.json.Decoder(self.request)


class Asker:
    """Brings requests to the models and their answers back."""

    def __init__(self, models: Models, limits: Limits, metrics: Metrics) -> None:
        self.models = models
        self.limits = limits
        self.metrics = metrics
        self.door = Door(max_requests=limits.max_requests, max_bytes=limits.max_bytes)
        self._readers = ThreadPoolExecutor(NUM_READERS, thread_name_prefix="bertworks-reader")

    def close(self) -> None:
        """Let the threads go."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def off_loop(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread, so that others are not kept waiting."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, function, *arguments)

    async def read(self, request: Request, decoder: "msgspec.json.Decoder[Any]") -> Any:
        """Return the body of a request that needs no queue."""
        with self.door.enter() as take:
            body = await self._body(request, take)
            return await self._decode(body, decoder)

    async def convert(
        self,
        request: Request,
        decoder: "msgspec.json.Decoder[Any]",
        write: Callable[[Any], tuple[bytes, dict[str, str]]],
    ) -> Response:
        """Answer a request that needs no queue by what a function makes of its body."""
        with self.door.enter() as take:
            asked = await self._decode(await self._body(request, take), decoder)
            content, headers = await self.off_loop(write, asked)
        return deliver(content, self.door, headers)

    def require_room(self, inputs: Sequence[Any]) -> None:
        """Refuse more than one request may bring."""
        limits = self.limits
        require_room(inputs, max_items=limits.max_items, max_characters=limits.max_characters)

    async def answer(
        self, request: Request, exchange: Exchange, *, model: str | None = None
    ) -> Response:
        """Answer a request; a model that is named in the path is the one that answers."""
        deadline = monotonic() + self.limits.deadline
        with self.door.enter() as take:
            body = await self._body(request, take)
            asked = await self._decode(body, exchange.decoder)
            name = model or getattr(asked, "model", None)
            is_brief = len(body) <= BRIEF
            served, jobs = await self._submit(exchange, asked, name, deadline, is_brief=is_brief)
            if (ticket := request.scope.get("state", {}).get("ticket")) is not None:
                ticket.give_back()
            answers = await wait_for(jobs, request.receive, deadline)
            answered = Answered(served, answers, [job.item for job in jobs])
            if is_brief and all(isinstance(one, np.ndarray) and one.ndim == 1 for one in answers):
                content = _write(exchange, asked, answered)
            else:
                content = await self.off_loop(_write, exchange, asked, answered)
        return self._tell(content, answered)

    def _tell(self, content: bytes, answered: Answered) -> Response:
        num_tokens, num_cut = answered.num_tokens, sum(answered.is_cut)
        name, num_items = answered.served.name, len(answered.answers)
        self.metrics.read(name, num_tokens=num_tokens, num_items=num_items, num_cut=num_cut)
        headers = told_by_headers(answered.served, num_tokens=num_tokens, num_cut=num_cut)
        return deliver(content, self.door, headers)

    async def _body(self, request: Request, take: Callable[[int], None]) -> bytearray:
        limits = self.limits
        return await read_body(request, most=limits.max_body, within=limits.deadline, take=take)

    async def _decode(self, body: bytearray, decoder: "msgspec.json.Decoder[Any]") -> Any:
        if len(body) <= SMALL:
            return decode(body, decoder)
        return await self.off_loop(_read_long, body, decoder)

    async def _submit(
        self, exchange: Exchange, asked: Any, name: str | None, deadline: float, *, is_brief: bool
    ) -> tuple[ServedModel, list[Job]]:
        """Hand the request's jobs in; where the model is exchanged meanwhile, to the new one."""
        for _ in range(SWAPS):
            served = self.models.get(name)
            served.batcher.require_room(deadline)
            if is_brief:
                items = self._prepare(exchange, asked, served, deadline)
            else:
                items = await self.off_loop(self._prepare, exchange, asked, served, deadline)
            jobs = [Job(item, deadline) for item in items]
            try:
                served.batcher.submit(jobs)
            except Failure as failure:
                if failure.code != "stopping" or self.models.get(name) is served:
                    raise
            else:
                return served, jobs
        raise Failure("stopping", "the model is being exchanged; ask again", retry_after=1)

    def _prepare(
        self, exchange: Exchange, asked: Any, served: ServedModel, deadline: float
    ) -> list[Item]:
        if monotonic() > deadline:
            raise _too_late()
        questions = exchange.ask(asked, served)
        self.require_room([item for question in questions for item in question.inputs])
        items: list[Item] = []
        for question in questions:
            options = {name: value for name, value in question.options.items() if value is not None}
            found = served.prepare(question.ability, question.inputs, options)
            if question.ability == "embed_all":
                num_numbers = served.info()["dims"] * sum(item.num_tokens for item in found)
                require_short(num_numbers, most=self.limits.max_numbers)
            items += found
        return items


def told_by_headers(served: ServedModel, *, num_tokens: int, num_cut: int) -> dict[str, str]:
    """Return what every answer of a model says of itself, whatever the shape of its body is."""
    return {
        "x-bertworks-model": quote(served.name, safe="/@"),
        "x-bertworks-revision": served.revision,
        "x-compute-tokens": str(num_tokens),
        "x-truncated": str(num_cut),
    }


async def wait_for(jobs: Sequence[Job], receive: Receive, deadline: float) -> list[Any]:
    """Return the answers of jobs; those that nobody waits for any longer are cancelled."""
    finished = _all_done(jobs)
    hung_up = asyncio.ensure_future(_hang_up(receive))
    try:
        waited = {finished, hung_up}
        patience = max(deadline - monotonic(), 0)
        await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not finished.done() and not hung_up.done():
            if any([job.answer.cancel() for job in jobs]):  # noqa: C419
                raise _too_late()
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)  # all are begun
        if not finished.done():
            raise Gone
        return [_answer_of(job, number, len(jobs)) for number, job in enumerate(jobs, 1)]
    finally:
        hung_up.cancel()
        for job in jobs:
            job.answer.cancel()


def _all_done(jobs: Sequence[Job]) -> "asyncio.Future[None]":
    """Return what is done when all jobs are; the loop is woken once, not for each."""
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()
    left, lock, turns = len(jobs), Lock(), turns_of(loop)

    def finish() -> None:
        if not finished.done():
            finished.set_result(None)

    def count(_: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last and not loop.is_closed():
            loop.call_soon_threadsafe(turns.add, finish)

    for job in jobs:
        job.answer.add_done_callback(count)
    if not jobs:
        finish()
    return finished


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _answer_of(job: Job, number: int, count: int) -> Any:
    if job.answer.cancelled():
        raise _too_late()
    error = job.answer.exception()
    if error is None:
        return job.answer.result()
    if not isinstance(error, Failure):
        raise Failure("failed", f"input {number} could not be computed") from error
    where = f"input {number}: " if count > 1 else ""
    raise Failure(error.code, f"{where}{error}", retry_after=error.retry_after)


def _read_long(body: bytearray, decoder: "msgspec.json.Decoder[Any]") -> Any:
    return decode(without_ends(body, kept=KEPT), decoder)


def _too_late() -> Failure:
    return Failure("too_late", "the request waited too long; ask again later")


def _write(exchange: Exchange, asked: Any, answered: Answered) -> bytes:
    for number, answer in enumerate(answered.answers, 1):
        if not is_finite(answer):
            raise Failure("not_finite", f"the answer to input {number} is not a finite number")
    return msgspec.json.encode(exchange.shape(asked, answered))
