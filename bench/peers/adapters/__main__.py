"""`python -m bench.peers.adapters PEER ROLE …`: do a role with a peer that is used from Python."""

import importlib
import sys
import time

from bench.peers.contract import Jobs

peer, role, *words = sys.argv[1:]
adapter = importlib.import_module(f"bench.peers.adapters.{peer}")
started = time.perf_counter()
getattr(adapter, role)(Jobs.parse(words))
print(time.perf_counter() - started)
