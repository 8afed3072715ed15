"""A whole deployment as lines, out of one server and into another.

Reading order: kinds (what becomes of each key), reading (export), writing (import), writer (its
records), move (both ends).

An export is JSON lines: a first one that says what it is, a record a line, and a last one with
their number and their SHA-256, so that one that was cut off is noticed. Jobs find their shard by
the target's layout, whatever the number of shards was. Nothing depends on the server's version.
"""
