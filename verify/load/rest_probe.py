"""Is there a REST proxy that does its job? Asked with one record, before the run's offsets begin."""

from __future__ import annotations

import base64
import json
from typing import Final
from urllib.parse import quote

from kedge.evidence.border.proxy import origin
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.load_options import LoadError, RestLoad
from verify.load.ledger import ACKED
from verify.load.rest_connections import NoAnswerError, NotSentError, Wire
from verify.load.rest_producers import PRODUCE_HEADERS, read_answer

PROBE: Final = b"kedge: is a REST proxy ready?"
#: A proxy without a broker answers after 60 s, with 200 and the error inside; that is no time to wait.
_ANSWER_S: Final = 15.0


def probe(rest: RestLoad) -> None:
    """Produce one record through the URL; raises LoadError unless the answer has its offset."""
    url = f"{rest.url.rstrip('/')}/topics/{rest.topic}"
    body = json.dumps({"records": [{"value": base64.b64encode(PROBE).decode()}]}).encode()
    try:
        origin(rest.url)
        wire = Wire(
            rest.model_copy(update={"request_timeout_s": _ANSWER_S}),
            f"/topics/{quote(rest.topic, safe='')}",
            PRODUCE_HEADERS,
        )
        answer = wire.post(body)
    except UntrustedError as error:
        raise LoadError(f"{rest.url!r} in load.json is {error}") from error
    except (NotSentError, NoAnswerError) as error:
        raise LoadError(
            f"no REST proxy takes a record at {url} within {_ANSWER_S:.0f} s ({error}); "
            f"is the balancer up, and an instance behind it?"
        ) from error
    wire.close()
    (entry,) = read_answer(answer.status, answer.body, 1)
    if entry.outcome != ACKED:
        raise LoadError(f"the REST proxy at {url} does not take a record: {entry.error}; see its journal")
