// Merges events of the stream into the list of workers.

/** `states`: current states of workers. Unknown workers are added by the next reload. */
export function withStates(workers, states) {
  if (!states.length) return workers
  const told = new Map(states.map((state) => [state.id, state]))
  return workers.map((worker) => (told.has(worker.id) ? { ...worker, ...told.get(worker.id) } : worker))
}

/** `jobs`: changed jobs. A running job belongs to its worker, any other job to none. */
export function withJobs(workers, jobs) {
  if (!jobs.length) return workers
  const changed = new Map(jobs.map((job) => [job.id, job]))
  return workers.map((worker) => {
    const kept = worker.jobs.filter(({ id }) => !changed.has(id) || holder(changed.get(id)) === worker.id)
    const here = new Set(kept.map(({ id }) => id))
    const come = jobs.filter((job) => holder(job) === worker.id && !here.has(job.id)).map(({ id, definition_key, attempt_started_at: since }) => ({ id, definition_key, since }))
    if (!come.length && kept.length === worker.jobs.length) return worker
    const running = Math.max(0, worker.running + kept.length + come.length - worker.jobs.length)
    return { ...worker, jobs: [...kept, ...come], running, status: statusOf(worker, running) }
  })
}

const holder = (job) => (job.status === "running" ? job.worker_id : null)

function statusOf({ status, concurrency }, running) {
  if (status === "offline" || status === "disabled") return status
  return running === 0 ? "idle" : running >= concurrency ? "busy" : "active"
}

/** Assigns jobs to slots: a job keeps its slot, new jobs take the first free ones. */
export function seated(before, jobs, slots) {
  const running = new Map(jobs.map((job) => [job.id, job]))
  const seats = Array.from({ length: Math.max(slots, jobs.length) }, (_, place) => {
    const job = running.get(before[place]?.id) ?? null
    if (job) running.delete(job.id)
    return job
  })
  for (const job of running.values()) seats[seats.indexOf(null)] = job
  return seats
}
