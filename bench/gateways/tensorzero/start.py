"""Starts the HTTP gateway that is within TensorZero's Python client, and prints its URL.

The gateway is the same Rust code as the separate program's, in threads of its own: Python only waits.
"""

import signal
import sys

from tensorzero import _start_http_gateway

gateway = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
print(gateway.base_url, flush=True)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pause()
