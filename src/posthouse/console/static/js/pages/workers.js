// Workers: running jobs, health and actions.
import { api, useApi } from "../api.js"
import { Confirm } from "../components/dialog.js"
import { AsyncContent, Button, Card, CopyButton, DescriptionList, EmptyState, Json, Skeleton, StatTile, Status, StreamStatus, Table, Tabs, Tag, TagList, Time } from "../components/display.js"
import { showError, toast } from "../components/toast.js"
import { duration, formatDateTime, formatInteger, percent, plural } from "../format.js"
import { cls, html, useEffect, useRef, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { useEventStream } from "../stream.js"
import { RegisterButton, WorkerKeys } from "./api-keys.js"

/** The page shows at most this many jobs per worker. */
const JOBS_OF_EACH = 200

export function Workers({ query }) {
  const session = useSession()
  if (!session.can("overview:read")) return html`<${TenantWorkerList} />`
  const tab = query.show === "keys" && session.can("keys:read") ? "keys" : "workers"
  return html`
    ${session.can("keys:read") && html`<${Tabs} label="Workers" current=${tab} tabs=${[
      { name: "workers", text: "Workers", href: link("workers") },
      { name: "keys", text: "Worker keys", href: link("workers", { show: "keys" }) },
    ]} />`}
    ${tab === "keys" ? html`<${WorkerKeys} />` : html`<${Fleet} query=${query} />`}`
}

function Fleet({ query }) {
  const workers = useApi("/admin/workers", { jobs: JOBS_OF_EACH }, { every: 5000 })
  const changes = useApi("/admin/workers/changes", { limit: 30 }, { every: 15_000 })
  const onEvents = ({ job, worker, missed }) => {
    const known = new Set((workers.data ?? []).map(({ id }) => id))
    workers.setData((previous) => previous && withJobs(withStates(previous, worker), job))
    if (missed || worker.some(({ id }) => !known.has(id))) workers.reload()
    if (worker.length) changes.reload()
  }
  const live = useEventStream({ event: ["worker", "job"] }, onEvents)
  const heartbeats = useHeartbeats(workers.data)
  const found = (workers.data ?? []).filter((worker) => fits(worker, query.q))
  const [there, gone] = [found.filter(isOnline), found.filter((worker) => !isOnline(worker))]
  return html`
    <${Tiles} workers=${workers.data} heartbeats=${heartbeats} />
    <div class="bar">
      <label class="grow"><span class="hidden">Search workers</span>
        <input type="search" data-filter placeholder="Search by name, host, queue, version …" value=${query.q ?? ""} onInput=${(event) => setQuery({ q: event.target.value || null }, { replace: true })} /></label>
      <${StreamStatus} state=${live} /><${RegisterButton} />
    </div>
    <div class="grid-2 unequal">
      <div class="stack">
        <${AsyncContent} request=${workers} lines=${8}>${() => there.length
          ? there.map((worker) => html`<${WorkerCard} key=${worker.id} worker=${worker} heartbeat=${heartbeats.get(worker.id)} usual=${usual(workers.data)} onChanged=${workers.reload} />`)
          : html`<${Card}><${NoWorker} filtered=${query.q} /><//>`}<//>
        ${gone.length > 0 && html`<${Card} title=${`Offline, last 24 hours (${gone.length})`}><${Table} label="Offline workers" columns=${OFFLINE_COLUMNS} rows=${gone} rowKey=${({ id }) => id} /><//>`}
      </div>
      <${Changes} changes=${changes} />
    </div>`
}

const isOnline = ({ status }) => status !== "offline"

const fits = (worker, text) => !text || [worker.name, worker.hostname, worker.version, worker.status, ...worker.queues, ...worker.capabilities].some((each) => each.toLowerCase().includes(text.toLowerCase()))

/** The most common version. */
function usual(workers) {
  const seen = new Map()
  for (const { version } of workers.filter(isOnline)) seen.set(version, (seen.get(version) ?? 0) + 1)
  return [...seen].sort(([, one], [, other]) => other - one)[0]?.[0]
}

function Tiles({ workers, heartbeats }) {
  if (!workers) return html`<div class="tiles">${[1, 2, 3, 4].map((n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const there = workers.filter(isOnline)
  const slots = there.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const used = there.reduce((sum, { running }) => sum + running, 0)
  const idle = there.filter(({ disabled_at, drain_requested_at }) => disabled_at || drain_requested_at).length
  const lost = workers.filter((worker) => worker.lost).length
  const versions = new Set(there.map(({ version }) => version))
  const silent = there.filter(({ id }) => heartbeats.get(id)?.stale).length
  return html`
    <div class="tiles">
      <${StatTile} name="Workers" value=${formatInteger(there.length)} hint=${idle ? `${idle} disabled or draining` : "all accepting jobs"} tone=${!there.length && "bad"} />
      <${StatTile} name="Slots in use" value=${formatInteger(used)} hint=${`of ${formatInteger(slots)} · ${percent(slots ? used / slots : null)}`} tone=${slots > 0 && used >= slots ? "warn" : undefined} />
      <${StatTile} name="Unresponsive" value=${formatInteger(silent)} hint="no recent heartbeat" tone=${silent ? "warn" : undefined} />
      <${StatTile} name="Lost" value=${formatInteger(lost)} hint="in the last 24 hours" tone=${lost ? "bad" : undefined} />
      <${StatTile} name="Versions" value=${formatInteger(versions.size)} hint=${[...versions].join(", ") || "–"} tone=${versions.size > 1 ? "warn" : undefined} />
    </div>`
}

const OFFLINE_COLUMNS = [
  { name: "name", text: "Worker", cell: (worker) => html`<b>${worker.name}</b>` },
  { name: "how", text: "Reason", cell: (worker) => (worker.lost ? html`<${Tag} tone="bad">disconnected without shutting down<//>` : html`<${Tag}>stopped<//>`) },
  { name: "host", text: "Host", cell: (worker) => worker.hostname },
  { name: "version", text: "Version", cell: (worker) => worker.version },
  { name: "heartbeat", text: "Last heartbeat", cell: (worker) => html`<${Time} at=${worker.stopped_at ?? worker.heartbeat_at} />` },
]

const NoWorker = ({ filtered }) => (filtered
  ? html`<${EmptyState} icon="search" title="No matching workers">Search by name, host, queue, version or status.<//>`
  : html`<${EmptyState} icon="cpu" title="No workers online" command="posthouse worker --app shop.jobs:app">Jobs wait until a worker starts. To start one:<//>`)

/** The view of a tenant: the workers that serve it and the number of its own running jobs. */
function TenantWorkerList() {
  const workers = useApi("/workers", {}, { every: 5000 })
  return html`
    <${AsyncContent} request=${workers} lines=${6}>${(list) => list.length ? html`<${Table} label="Workers" columns=${SEEN} rows=${list} rowKey=${({ id }) => id} />`
      : html`<${EmptyState} icon="cpu" title="No workers online">Jobs wait until the operator starts a worker.<//>`}<//>`
}

const SEEN = [
  { name: "id", text: "Worker", cell: (worker) => html`<span class="id" title=${worker.id}>${worker.id.slice(0, 8)}</span>` },
  { name: "status", text: "Status", cell: (worker) => html`<${Status} status=${worker.status} />` },
  { name: "queues", text: "Queues", cell: (worker) => html`<${TagList} names=${worker.queues} placeholder="all" />` },
  { name: "capabilities", text: "Capabilities", cell: (worker) => html`<${TagList} names=${worker.capabilities} tone="accent" />` },
  { name: "running", text: "Your running jobs", align: "right", cell: (worker) => `${formatInteger(worker.running)} in ${plural(worker.concurrency, "slot")}` },
  { name: "since", text: "Started", cell: (worker) => html`<${Time} at=${worker.started_at} />` },
]

const CHANGES = {
  started: ["good", "started"],
  stopped: ["quiet", "stopped"],
  lost: ["bad", "lost; its jobs are being rescued"],
  back: ["warn", "reconnected"],
}

function Changes({ changes }) {
  return html`
    <${Card} title="Worker history">
      <${AsyncContent} request=${changes} lines=${6}>${({ items }) => items.length ? html`
        <ol class="worker-history">${items.map(({ id, at, name, change }) => {
          const [tone, text] = CHANGES[change] ?? ["quiet", change]
          return html`<li key=${id} data-tone=${tone}><span class="grow"><b>${name}</b> ${text}</span><${Time} at=${at} /></li>`
        })}</ol>` : html`<${EmptyState} icon="clock" title="No changes yet">Workers that start, stop or are lost appear here.<//>`}<//>
    <//>`
}

// Worker card: slots, heartbeat and actions, updated by the event stream.

const USUAL_LEASE = 30
const MAX_SLOTS = 200
/** Up to this many slots, a cell is wide enough for the job kind, or for a finger. */
const WIDE = 12
const MIDDLE = 40

/**
 * Last heartbeat of each worker by the clock of this page: {id: {at, stale}}. A worker is stale after half of the
 * lease time without a heartbeat.
 */
function useHeartbeats(workers) {
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

function WorkerCard({ worker, heartbeat, usual, onChanged }) {
  const session = useSession()
  const draining = worker.drain_requested_at && worker.status !== "offline"
  return html`
    <article class="card worker" aria-label=${`Worker ${worker.name}`}>
      <div class="bar">
        <${Status} status=${draining ? "draining" : worker.status} /><h2 class="clip" title=${worker.name}>${worker.name}</h2>
        ${worker.version !== usual && html`<${Tag} tone="warn" title=${`Most workers run version ${usual}.`}>version ${worker.version}<//>`}
        <span class="grow"></span><${LastHeartbeat} heartbeat=${heartbeat} />
        ${session.can("workers:write") && html`<${WorkerActions} worker=${worker} onChanged=${onChanged} />`}
      </div>
      <${SlotGrid} worker=${worker} />
      <div class="bar about"><small class="figure">${formatInteger(worker.running)} of ${plural(worker.concurrency, "slot")}</small><small>${worker.hostname}</small>
        <${TagList} names=${worker.capabilities} placeholder="" tone="accent" /><${TagList} names=${worker.queues} max=${3} placeholder="all queues" /></div>
      <details class="more"><summary>Details</summary><div><${About} worker=${worker} /></div></details>
    </article>`
}

function LastHeartbeat({ heartbeat }) {
  if (!heartbeat?.at) return html`<span class="faint">no heartbeat yet</span>`
  const age = Math.max(0, Math.round((Date.now() - heartbeat.at) / 1000))
  const title = `Last heartbeat ${formatDateTime(heartbeat.at)}`
  return heartbeat.stale ? html`<${Tag} tone="warn" title=${title}>no heartbeat for ${duration(age)}<//>` : html`<small class="figure beat" title=${title}>heartbeat ${age < 1 ? "now" : `${age} s ago`}</small>`
}

function SlotGrid({ worker }) {
  const seats = useRef([])
  seats.current = assignSlots(seats.current, worker.jobs, Math.min(worker.concurrency, MAX_SLOTS))
  const size = worker.concurrency <= WIDE ? "wide" : worker.concurrency <= MIDDLE ? "middle" : "small"
  return html`
    <ul class=${cls("slot-grid", size)} aria-label=${`Slots of ${worker.name}`}>
      ${seats.current.map((job, index) => html`<li key=${index}>${job ? html`<a href=${link(`jobs/${job.id}`)} title=${`${job.definition_key}, since ${formatDateTime(job.since)}`} aria-label=${`${job.definition_key}, job ${job.id}`}>${size === "wide" && job.definition_key}</a>` : null}</li>`)}
      ${worker.concurrency > MAX_SLOTS && html`<li class="rest"><small>and ${formatInteger(worker.concurrency - MAX_SLOTS)} more slots</small></li>`}
    </ul>`
}

const About = ({ worker }) => html`
  <${DescriptionList} items=${[
    ["Started", html`<${Time} at=${worker.started_at} />`], ["Process", `${worker.hostname}, pid ${worker.pid}`], ["Version", worker.version],
    ["Id", html`<span class="bar"><code title=${worker.id}>${worker.id.slice(0, 8)}</code><${CopyButton} text=${worker.id} label="Copy id" /></span>`],
    ["Disabled", worker.disabled_at && html`<${Time} at=${worker.disabled_at} />`], ["Drain requested", worker.drain_requested_at && html`<${Time} at=${worker.drain_requested_at} />`],
  ]} />
  <h3>Job kinds</h3><${TagList} names=${worker.kinds} max=${12} placeholder="none" />
  <h3>Queues</h3><${TagList} names=${worker.queues} max=${12} placeholder="all" />
  ${Object.keys(worker.capability_details).length > 0 && html`<h3>Capabilities</h3><${Json} value=${worker.capability_details} label="Capabilities" />`}
  ${Object.keys(worker.metadata).length > 0 && html`<h3>Metadata</h3><${Json} value=${worker.metadata} label="Metadata" />`}`

const QUESTIONS = {
  disable: { title: "Disable", act: "Disable worker", text: (runs) => `The worker claims no jobs until it is enabled. ${runs}` },
  drain: { title: "Drain", act: "Drain worker", danger: true, text: (runs) => `The worker claims no more jobs, finishes its running jobs and then exits. This cannot be undone; restart the worker when you need it. ${runs}` },
}
const DONE = { disable: "disabled", enable: "enabled", drain: "draining" }

function WorkerActions({ worker, onChanged }) {
  const [asked, setAsked] = useState(null)
  const steer = async (what) => {
    await api.post(`/admin/workers/${worker.id}/${what}`)
    const opposite = { disable: "enable", enable: "disable" }[what]
    toast(`Worker ${worker.name} ${DONE[what]}`, opposite && { undo: () => api.post(`/admin/workers/${worker.id}/${opposite}`).then(() => toast(`Worker ${worker.name} ${DONE[opposite]}`), showError).finally(onChanged) })
    onChanged()
  }
  if (worker.drain_requested_at) return null
  const question = QUESTIONS[asked]
  const runs = worker.running ? `The ${plural(worker.running, "running job")} ${worker.running === 1 ? "continues" : "continue"}.` : "No jobs are running on it."
  return html`
    <span class="inline-actions">${worker.disabled_at ? html`<${Button} small icon="play" onClick=${() => steer("enable").catch(showError)}>Enable<//>` : html`<${Button} small icon="pause" onClick=${() => setAsked("disable")}>Disable<//>`}
    <${Button} small icon="exit" onClick=${() => setAsked("drain")}>Drain<//></span>
    ${question && html`<${Confirm} title=${`${question.title} ${worker.name}?`} danger=${question.danger} submitText=${question.act} onClose=${() => setAsked(null)} onSubmit=${() => steer(asked)}>${question.text(runs)}<//>`}`
}

// Merges events of the stream into the list of workers.

/** `states`: current states of workers. Unknown workers are added by the next reload. */
function withStates(workers, states) {
  if (!states.length) return workers
  const newest = new Map(states.map((state) => [state.id, state]))
  return workers.map((worker) => (newest.has(worker.id) ? { ...worker, ...newest.get(worker.id) } : worker))
}

/** `jobs`: changed jobs. A running job belongs to its worker, any other job to none. */
function withJobs(workers, jobs) {
  if (!jobs.length) return workers
  const changed = new Map(jobs.map((job) => [job.id, job]))
  return workers.map((worker) => {
    const kept = worker.jobs.filter(({ id }) => !changed.has(id) || runningOn(changed.get(id)) === worker.id)
    const here = new Set(kept.map(({ id }) => id))
    const come = jobs.filter((job) => runningOn(job) === worker.id && !here.has(job.id)).map(({ id, definition_key, attempt_started_at: since }) => ({ id, definition_key, since }))
    if (!come.length && kept.length === worker.jobs.length) return worker
    const running = Math.max(0, worker.running + kept.length + come.length - worker.jobs.length)
    return { ...worker, jobs: [...kept, ...come], running, status: statusOf(worker, running) }
  })
}

const runningOn = (job) => (job.status === "running" ? job.worker_id : null)

function statusOf({ status, concurrency }, running) {
  if (status === "offline" || status === "disabled") return status
  return running === 0 ? "idle" : running >= concurrency ? "busy" : "active"
}

/** Assigns jobs to slots: a job keeps its slot, new jobs take the first free ones. */
function assignSlots(before, jobs, slots) {
  const running = new Map(jobs.map((job) => [job.id, job]))
  const seats = Array.from({ length: Math.max(slots, jobs.length) }, (_, index) => {
    const job = running.get(before[index]?.id) ?? null
    if (job) running.delete(job.id)
    return job
  })
  for (const job of running.values()) seats[seats.indexOf(null)] = job
  return seats
}
