"""Is there a REST proxy that does its job? Asked with one record, before the run's offsets begin."""

from __future__ import annotations

import base64
from typing import Final

import httpx

from evidence.load import LoadError, RestLoad
from verify.load.ledger import ACKED
from verify.load.rest_producers import PRODUCE_HEADERS, read_answer
from verify.load.rest_session import session_options

PROBE: Final = b"kedge: is a REST proxy ready?"
#: A proxy without a broker answers after 60 s, with 200 and the error inside; that is no time to wait.
_ANSWER_S: Final = 15.0


def probe(rest: RestLoad) -> None:
    """Produce one record through the URL; raises LoadError unless the answer has its offset."""
    url = f"{rest.url.rstrip('/')}/topics/{rest.topic}"
    body = {"records": [{"value": base64.b64encode(PROBE).decode()}]}
    try:
        response = httpx.post(
            url, json=body, headers=PRODUCE_HEADERS, timeout=_ANSWER_S, **session_options(rest)
        )
    except httpx.HTTPError as error:
        raise LoadError(
            f"no REST proxy takes a record at {url} within {_ANSWER_S:.0f} s "
            f"({type(error).__name__}: {error}); "
            f"is the balancer up, and an instance behind it?"
        ) from error
    except httpx.InvalidURL as error:
        raise LoadError(f"{rest.url!r} in load.json is no URL: {error}") from error
    (entry,) = read_answer(response.status_code, response.content, 1)
    if entry.outcome != ACKED:
        raise LoadError(f"the REST proxy at {url} does not take a record: {entry.error}; see its journal")
