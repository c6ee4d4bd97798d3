"""Many jobs on many devices: plan by joules, keep the books, plan again."""
