"""The sources that rules of the REST proxy cite most, as sources.yml knows them."""

from __future__ import annotations

from typing import Final

GUIDE: Final = "Confluent REST Proxy production guide"
MEASURED: Final = "REST proxy measurements"
REAL: Final = "Real proxy measurements"
