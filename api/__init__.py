"""The HTTP API: register jobs, look at them, and hand executions to workers that speak only HTTP.

Reading order: routes (the table), schemas, rules and answers (what is taken and given), wire (bytes
to values), forms (a job as it is sent, stored and shown), then jobs, edits, schedules, calendars,
backfills, executions and health (one function a route), problems (every refusal), backend and app
(what they stand on), server (how it listens).
"""
