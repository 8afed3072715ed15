"""Other schedulers and queues, run beside Waterclock with the same work, on the same machine."""
