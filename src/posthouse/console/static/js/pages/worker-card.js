// Worker card: slots, heartbeat and actions, updated by the event stream.
import { api, useApi } from "../api.js"
import { count, duration, exactly, plural } from "../format.js"
import { cls, html, useEffect, useRef, useState } from "../lib.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Button, Copy, Facts, Names, Status, Tag, Time } from "../ui/basics.js"
import { Confirm } from "../ui/dialog.js"
import { Json } from "../ui/json.js"
import { complain, toast } from "../ui/toast.js"

const USUAL_LEASE = 30
const MOST_CELLS = 200
/** Up to this many slots, a cell is wide enough for the job kind, or for a finger. */
const WIDE = 12
const MIDDLE = 40

/**
 * Last heartbeat of each worker by the clock of this page: {id: {at, stale}}. A worker is stale after half of the
 * lease time without a heartbeat.
 */
export function useHeard(workers) {
  const known = useRef(new Map())
  const settings = useApi("/admin/settings")
  const lease = settings.data?.find(({ name }) => name === "lease_seconds")?.value ?? USUAL_LEASE
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
  for (const { id, heartbeat_at: beat, heartbeat_seconds: age } of workers ?? []) {
    const before = known.current.get(id)
    const at = before?.beat === beat ? before.at : Date.now() - age * 1000
    known.current.set(id, { beat, at: beat && at, stale: age > lease / 2 })
  }
  return known.current
}

export function WorkerCard({ worker, heard, usual, changed }) {
  const session = useSession()
  const draining = worker.drain_asked_at && worker.status !== "offline"
  return html`
    <article class="card worker" aria-label=${`Worker ${worker.name}`}>
      <div class="bar">
        <${Status} status=${draining ? "draining" : worker.status} /><h2 class="clip" title=${worker.name}>${worker.name}</h2>
        ${worker.version !== usual && html`<${Tag} tone="warn" title=${`Most workers run version ${usual}.`}>version ${worker.version}<//>`}
        <span class="grow"></span><${Beat} heard=${heard} />
        ${session.can("workers:write") && html`<${Steering} worker=${worker} changed=${changed} />`}
      </div>
      <${Strip} worker=${worker} />
      <div class="bar about"><small class="figure">${count(worker.running)} of ${plural(worker.concurrency, "slot")}</small><small>${worker.hostname}</small>
        <${Names} names=${worker.offers} none="" tone="accent" /><${Names} names=${worker.queues} most=${3} none="all queues" /></div>
      <details class="more"><summary>Details</summary><div><${About} worker=${worker} /></div></details>
    </article>`
}

function Beat({ heard }) {
  if (!heard?.at) return html`<span class="faint">no heartbeat yet</span>`
  const age = Math.max(0, Math.round((Date.now() - heard.at) / 1000))
  const title = `Last heartbeat ${exactly(heard.at)}`
  return heard.stale ? html`<${Tag} tone="warn" title=${title}>no heartbeat for ${duration(age)}<//>` : html`<small class="figure beat" title=${title}>heartbeat ${age < 1 ? "now" : `${age} s ago`}</small>`
}

function Strip({ worker }) {
  const seats = useRef([])
  seats.current = seated(seats.current, worker.jobs, Math.min(worker.concurrency, MOST_CELLS))
  const size = worker.concurrency <= WIDE ? "wide" : worker.concurrency <= MIDDLE ? "middle" : "small"
  return html`
    <ul class=${cls("strip", size)} aria-label=${`Slots of ${worker.name}`}>
      ${seats.current.map((job, place) => html`<li key=${place}>${job ? html`<a href=${link(`jobs/${job.id}`)} title=${`${job.definition_key}, since ${exactly(job.since)}`} aria-label=${`${job.definition_key}, job ${job.id}`}>${size === "wide" && job.definition_key}</a>` : null}</li>`)}
      ${worker.concurrency > MOST_CELLS && html`<li class="rest"><small>and ${count(worker.concurrency - MOST_CELLS)} more slots</small></li>`}
    </ul>`
}

const About = ({ worker }) => html`
  <${Facts} facts=${[
    ["Started", html`<${Time} at=${worker.started_at} />`], ["Process", `${worker.hostname}, pid ${worker.pid}`], ["Version", worker.version],
    ["Id", html`<span class="bar"><code title=${worker.id}>${worker.id.slice(0, 8)}</code><${Copy} text=${worker.id} label="Copy id" /></span>`],
    ["Disabled", worker.disabled_at && html`<${Time} at=${worker.disabled_at} />`], ["Drain requested", worker.drain_asked_at && html`<${Time} at=${worker.drain_asked_at} />`],
  ]} />
  <h3>Job kinds</h3><${Names} names=${worker.kinds} most=${12} none="none" />
  <h3>Queues</h3><${Names} names=${worker.queues} most=${12} none="all" />
  ${Object.keys(worker.capabilities).length > 0 && html`<h3>Capabilities</h3><${Json} value=${worker.capabilities} label="Capabilities" />`}
  ${Object.keys(worker.metadata).length > 0 && html`<h3>Metadata</h3><${Json} value=${worker.metadata} label="Metadata" />`}`

const QUESTIONS = {
  disable: { title: "Disable", act: "Disable worker", text: (runs) => `The worker claims no jobs until it is enabled. ${runs}` },
  drain: { title: "Drain", act: "Drain worker", danger: true, text: (runs) => `The worker claims no more jobs, finishes its running jobs and then exits. This cannot be undone; restart the worker when you need it. ${runs}` },
}
const DONE = { disable: "disabled", enable: "enabled", drain: "draining" }

function Steering({ worker, changed }) {
  const [asked, setAsked] = useState(null)
  const steer = async (what) => {
    await api.post(`/admin/workers/${worker.id}/${what}`)
    const opposite = { disable: "enable", enable: "disable" }[what]
    toast(`Worker ${worker.name} ${DONE[what]}`, opposite && { undo: () => api.post(`/admin/workers/${worker.id}/${opposite}`).then(() => toast(`Worker ${worker.name} ${DONE[opposite]}`), complain).finally(changed) })
    changed()
  }
  if (worker.drain_asked_at) return null
  const question = QUESTIONS[asked]
  const runs = worker.running ? `The ${plural(worker.running, "running job")} ${worker.running === 1 ? "continues" : "continue"}.` : "No jobs are running on it."
  return html`
    <span class="steering">${worker.disabled_at ? html`<${Button} small icon="play" onClick=${() => steer("enable").catch(complain)}>Enable<//>` : html`<${Button} small icon="pause" onClick=${() => setAsked("disable")}>Disable<//>`}
    <${Button} small icon="exit" onClick=${() => setAsked("drain")}>Drain<//></span>
    ${question && html`<${Confirm} title=${`${question.title} ${worker.name}?`} danger=${question.danger} actText=${question.act} close=${() => setAsked(null)} act=${() => steer(asked)}>${question.text(runs)}<//>`}`
}

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
function seated(before, jobs, slots) {
  const running = new Map(jobs.map((job) => [job.id, job]))
  const seats = Array.from({ length: Math.max(slots, jobs.length) }, (_, place) => {
    const job = running.get(before[place]?.id) ?? null
    if (job) running.delete(job.id)
    return job
  })
  for (const job of running.values()) seats[seats.indexOf(null)] = job
  return seats
}
