-- Truncates all job tables.
truncate posthouse.ready, posthouse.waiting, posthouse.running, posthouse.history, posthouse.past_attempts,
  posthouse.payloads, posthouse.lanes, posthouse.dedupes, posthouse.blocks, posthouse.workers
