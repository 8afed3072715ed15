"""The HTTP API: register jobs, look at them, and hand executions to workers that speak only HTTP.

Reading order: routes (the table), schemas, rules and answers (what is taken and given), wire (bytes
to values), forms (a job as it is sent, stored and shown), then one function a route: jobs, edits,
schedules, calendars, backfills, history, executions, cancelling, claims, completions, callbacks,
letters, groups, queues, hosts and health; then problems (every refusal), backend and app (what they
stand on), server (how it listens).
"""
