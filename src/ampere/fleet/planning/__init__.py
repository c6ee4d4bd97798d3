"""How a plan is made: queues, options, the relaxation, exchanges, and what has no room."""
