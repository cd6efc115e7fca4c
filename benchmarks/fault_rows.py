"""What the service promises: one row to a promise, how it is counted, and its short test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fault_site import Site, Verdict
from faults_of_answers import counted, hung_up, swapped_answers
from faults_of_cost import overhead
from faults_of_days import long_day, probes, supervised
from faults_of_folders import hostile_headers, hostile_pickles
from faults_of_input import made_up, malformed
from faults_of_life import ended, lost_worker, swapped
from faults_of_load import much_among_little, overload, soak
from faults_of_locks import locks
from faults_of_numbers import (
    cut_vectors,
    in_company,
    in_every_form,
    like_others,
    poisoned,
    told_cuts,
)
from faults_of_wire import body_limits, fuzzed_http, huge_texts, slow_clients

Check = Callable[[Site, float], Iterator[Verdict]]


@dataclass(frozen=True)
class Row:
    """One promise."""

    promise: str
    test: str  # of the default suite, below tests/
    checks: tuple[Check, ...] = ()  # none: the test is all there is to count


ROWS: dict[str, Row] = {
    "S1": Row(
        "an answer is the same alone and in any batch",
        "service/test_answers.py::test_a_task_answers_in_any_batch_as_the_predictor_does",
        (in_company,),
    ),
    "S2": Row(
        "vectors and answers are those of other libraries",
        "parity/test_sentence_vectors.py::"
        "test_sentence_vectors_equal_those_of_sentence_transformers",
        (like_others,),
    ),
    "S3": Row(
        "no client gets another's answer",
        "service/test_faults.py::test_every_client_gets_its_own_answer_whoever_hangs_up",
        (swapped_answers,),
    ),
    "S4": Row(
        "what breaks the network fails alone",
        "service/test_batcher.py::test_a_poisonous_item_fails_alone",
        (poisoned,),
    ),
    "S5": Row(
        "a number that is none never leaves",
        "service/test_asking.py::test_numbers_that_are_none_never_leave",
        (poisoned,),
    ),
    "S6": Row(
        "logits of +-10,000 give finite chances that sum to 1",
        "service/test_task_answers.py::test_logits_of_any_size_give_chances_that_sum_to_one",
    ),
    "S7": Row(
        "cut vectors have length 1; odd dimensions are refused",
        "service/test_vector_answers.py::"
        "test_shorter_vectors_are_the_beginnings_of_longer_ones_and_as_long_as_one",
        (cut_vectors,),
    ),
    "S8": Row(
        "who sends too much is told",
        "service/test_answers.py::test_a_text_that_is_too_long_is_cut_or_refused",
        (told_cuts,),
    ),
    "S9": Row(
        "no answer in another's form; there is no cache",
        "service/test_vector_answers.py::test_texts_of_other_forms_are_not_computed_together",
        (in_every_form,),
    ),
    "O1": Row(
        "more than can be computed is told when to come again",
        "service/test_faults.py::test_more_than_fits_is_told_when_to_come_again",
        (overload,),
    ),
    "O2": Row(
        "memory does not grow with load or time",
        "service/test_asking.py::test_sockets_that_close_while_they_wait_free_their_places",
        (overload, soak),
    ),
    "O3": Row(
        "one text does not wait for a large request",
        "service/test_faults.py::test_one_text_does_not_wait_for_the_whole_of_a_large_request",
        (much_among_little,),
    ),
    "O4": Row(
        "what waited too long is never computed",
        "service/test_asking.py::test_what_waits_too_long_is_told_so_and_never_computed",
    ),
    "O5": Row(
        "what nobody waits for is not computed",
        "service/test_faults.py::test_what_nobody_waits_for_is_not_computed",
        (hung_up,),
    ),
    "O6": Row(
        "many clients are computed together",
        "service/test_batcher.py::test_jobs_gather_while_the_worker_is_busy",
    ),
    "O7": Row(
        "little is lost over the bare model",
        "service/test_batcher.py::test_an_idle_worker_waits_for_company_only_when_told_to",
        (overhead,),
    ),
    "O8": Row(
        "slow clients hold nobody up and are hung up on",
        "service/test_protocol.py::test_who_does_not_say_what_he_wants_is_hung_up_on",
        (slow_clients,),
    ),
    "B1": Row(
        "what cannot be read is refused in JSON",
        "service/test_faults.py::test_what_cannot_be_read_is_refused_in_json",
        (malformed,),
    ),
    "B2": Row(
        "every answer is as the OpenAPI schema says",
        "service/test_faults.py::test_requests_made_up_from_the_schema_are_answered_as_it_says",
        (made_up,),
    ),
    "B3": Row(
        "what is no HTTP harms nobody",
        "service/test_faults.py::test_what_is_hardly_http_is_refused_and_nothing_is_smuggled",
        (fuzzed_http,),
    ),
    "B4": Row(
        "a body ends at its limit, and is never unpacked",
        "service/test_http_app.py::test_a_body_may_be_as_long_as_the_limit_and_no_longer",
        (body_limits,),
    ),
    "B5": Row(
        "a huge text costs what is read of it",
        "service/test_lengths.py::test_of_a_long_text_little_more_is_looked_at_than_is_read",
        (huge_texts,),
    ),
    "B6": Row(
        "nothing, and one too many, are answered as documented",
        "service/test_security.py::test_nothing_at_all_and_one_too_many_are_told",
    ),
    "L1": Row(
        "who was let in is answered before it ends",
        "service/test_faults.py::test_who_was_let_in_is_answered_before_the_service_ends",
        (ended,),
    ),
    "L2": Row(
        "a lost worker is seen and replaced",
        "service/test_faults.py::test_a_lost_worker_is_seen_and_replaced_and_nobody_hangs",
        (lost_worker,),
    ),
    "L3": Row(
        "/livez always, /readyz when it can answer",
        "service/test_faults.py::test_it_says_that_it_lives_while_its_line_is_full_and_in_exchange",
        (probes,),
    ),
    "L4": Row(
        "models are exchanged under load",
        "service/test_faults.py::test_a_model_is_exchanged_under_load_and_a_broken_one_refused",
        (swapped,),
    ),
    "L5": Row(
        "the metrics are what clients count",
        "service/test_faults.py::test_the_service_counts_what_its_clients_count",
        (counted,),
    ),
    "L6": Row(
        "killed, it comes back as quickly as it came",
        "service/test_faults.py::test_a_service_that_was_killed_is_back_on_its_port_and_right",
        (supervised,),
    ),
    "L7": Row(
        "a long day leaves nothing behind",
        "service/test_faults.py::test_mixed_work_leaves_nothing_behind",
        (long_day,),
    ),
    "X1": Row(
        "code in a model folder is never run",
        "service/test_security.py::test_code_in_a_model_folder_is_never_run",
        (hostile_pickles,),
    ),
    "X2": Row(
        "weight files that lie are refused quickly",
        "model/test_weights.py::test_a_lying_header_is_refused",
        (hostile_headers,),
    ),
    "X3": Row(
        "no path leads out",
        "service/test_faults.py::test_no_string_leads_to_a_file_of_the_machine",
        (locks,),
    ),
    "X4": Row(
        "only the probes open without the key",
        "service/test_http_app.py::test_nothing_but_the_probes_opens_without_the_key",
        (locks,),
    ),
    "X5": Row(
        "the key is told nowhere",
        "service/test_http_app.py::test_the_key_is_told_nowhere",
        (locks,),
    ),
    "X6": Row(
        "shut by default: this machine only, no exchange, no CORS",
        "service/test_security.py::test_what_is_open_by_default_is_little",
    ),
    "X7": Row(
        "texts never become code on the page",
        "service/test_page_payloads.py::test_200_texts_that_would_be_code_are_only_texts",
    ),
    "X8": Row(
        "the service calls nobody",
        "service/test_security.py::test_no_request_makes_the_service_call_anybody",
        (locks,),
    ),
    "X9": Row(
        "no pickle on a socket, no socket for others",
        "service/test_security.py::test_nothing_that_serves_knows_how_to_unpickle",
        (locks,),
    ),
    "X10": Row(
        "versions are pinned with hashes, weights checked before use",
        "test_supply.py::test_every_pinned_version_has_the_hashes_of_its_files",
    ),
}
