"""From a teacher to a student within a byte budget: budgets, the rows to learn from, training, compressors, the race, the report."""
