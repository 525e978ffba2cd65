// Workers: running jobs, health and actions.
import { useApi } from "../api.js"
import { count, percent, plural } from "../format.js"
import { html } from "../lib.js"
import { useLive } from "../live.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Card, Empty, Figure, Loaded, Names, Skeleton, Status, Tabs, Tag, Time } from "../ui/basics.js"
import { Table } from "../ui/table.js"
import { RegisterButton, WorkerKeys } from "./api-keys.js"
import { LiveLight } from "./overview.js"
import { useHeard, withJobs, withStates, WorkerCard } from "./worker-card.js"

/** The page shows at most this many jobs per worker. */
const JOBS_OF_EACH = 200

export function Workers({ query }) {
  const session = useSession()
  if (!session.can("overview:read")) return html`<${Seen} />`
  const tab = query.show === "keys" && session.can("keys:read") ? "keys" : "workers"
  return html`
    ${session.can("keys:read") && html`<${Tabs} label="Workers" now=${tab} tabs=${[
      { name: "workers", text: "Workers", href: link("workers") },
      { name: "keys", text: "Worker keys", href: link("workers", { show: "keys" }) },
    ]} />`}
    ${tab === "keys" ? html`<${WorkerKeys} />` : html`<${Fleet} query=${query} />`}`
}

function Fleet({ query }) {
  const workers = useApi("/admin/workers", { jobs: JOBS_OF_EACH }, { every: 5000 })
  const changes = useApi("/admin/workers/changes", { limit: 30 }, { every: 15_000 })
  const told = ({ job, worker, missed }) => {
    const known = new Set((workers.data ?? []).map(({ id }) => id))
    workers.setData((was) => was && withJobs(withStates(was, worker), job))
    if (missed || worker.some(({ id }) => !known.has(id))) workers.reload()
    if (worker.length) changes.reload()
  }
  const live = useLive({ event: ["worker", "job"] }, told)
  const heard = useHeard(workers.data)
  const found = (workers.data ?? []).filter((worker) => fits(worker, query.q))
  const [there, gone] = [found.filter(isThere), found.filter((worker) => !isThere(worker))]
  return html`
    <${Tiles} workers=${workers.data} heard=${heard} />
    <div class="bar">
      <label class="grow"><span class="hidden">Search workers</span>
        <input type="search" data-filter placeholder="Search by name, host, queue, version …" value=${query.q ?? ""} onInput=${(event) => setQuery({ q: event.target.value || null }, { replace: true })} /></label>
      <${LiveLight} state=${live} /><${RegisterButton} />
    </div>
    <div class="grid-2 unequal">
      <div class="stack">
        <${Loaded} from=${workers} lines=${8}>${() => there.length
          ? there.map((worker) => html`<${WorkerCard} key=${worker.id} worker=${worker} heard=${heard.get(worker.id)} usual=${usual(workers.data)} changed=${workers.reload} />`)
          : html`<${Card}><${NoWorker} filtered=${query.q} /><//>`}<//>
        ${gone.length > 0 && html`<${Card} title=${`Offline, last 24 hours (${gone.length})`}><${Table} label="Offline workers" columns=${GONE} rows=${gone} rowKey=${({ id }) => id} /><//>`}
      </div>
      <${Changes} changes=${changes} />
    </div>`
}

const isThere = ({ status }) => status !== "offline"

const fits = (worker, text) => !text || [worker.name, worker.hostname, worker.version, worker.status, ...worker.queues, ...worker.offers].some((each) => each.toLowerCase().includes(text.toLowerCase()))

/** The most common version. */
function usual(workers) {
  const seen = new Map()
  for (const { version } of workers.filter(isThere)) seen.set(version, (seen.get(version) ?? 0) + 1)
  return [...seen].sort(([, one], [, other]) => other - one)[0]?.[0]
}

function Tiles({ workers, heard }) {
  if (!workers) return html`<div class="tiles">${[1, 2, 3, 4].map((n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const there = workers.filter(isThere)
  const slots = there.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const used = there.reduce((sum, { running }) => sum + running, 0)
  const idle = there.filter(({ disabled_at, drain_asked_at }) => disabled_at || drain_asked_at).length
  const lost = workers.filter(({ died }) => died).length
  const versions = new Set(there.map(({ version }) => version))
  const silent = there.filter(({ id }) => heard.get(id)?.stale).length
  return html`
    <div class="tiles">
      <${Figure} name="Workers" value=${count(there.length)} hint=${idle ? `${idle} disabled or draining` : "all accepting jobs"} tone=${!there.length && "bad"} />
      <${Figure} name="Slots in use" value=${count(used)} hint=${`of ${count(slots)} · ${percent(slots ? used / slots : null)}`} tone=${slots > 0 && used >= slots ? "warn" : undefined} />
      <${Figure} name="Unresponsive" value=${count(silent)} hint="no recent heartbeat" tone=${silent ? "warn" : undefined} />
      <${Figure} name="Lost" value=${count(lost)} hint="in the last 24 hours" tone=${lost ? "bad" : undefined} />
      <${Figure} name="Versions" value=${count(versions.size)} hint=${[...versions].join(", ") || "–"} tone=${versions.size > 1 ? "warn" : undefined} />
    </div>`
}

const GONE = [
  { name: "name", text: "Worker", cell: (worker) => html`<b>${worker.name}</b>` },
  { name: "how", text: "Reason", cell: (worker) => (worker.died ? html`<${Tag} tone="bad">disconnected without shutting down<//>` : html`<${Tag}>stopped<//>`) },
  { name: "host", text: "Host", cell: (worker) => worker.hostname },
  { name: "version", text: "Version", cell: (worker) => worker.version },
  { name: "heard", text: "Last heartbeat", cell: (worker) => html`<${Time} at=${worker.stopped_at ?? worker.heartbeat_at} />` },
]

const NoWorker = ({ filtered }) => (filtered
  ? html`<${Empty} icon="search" title="No matching workers">Search by name, host, queue, version or status.<//>`
  : html`<${Empty} icon="cpu" title="No workers online" command="posthouse worker --app shop.jobs:app">Jobs wait until a worker starts. To start one:<//>`)

/** The view of a tenant: the workers that serve it and the number of its own running jobs. */
function Seen() {
  const workers = useApi("/workers", {}, { every: 5000 })
  return html`
    <${Loaded} from=${workers} lines=${6}>${(list) => list.length ? html`<${Table} label="Workers" columns=${SEEN} rows=${list} rowKey=${({ id }) => id} />`
      : html`<${Empty} icon="cpu" title="No workers online">Jobs wait until the operator starts a worker.<//>`}<//>`
}

const SEEN = [
  { name: "id", text: "Worker", cell: (worker) => html`<span class="id" title=${worker.id}>${worker.id.slice(0, 8)}</span>` },
  { name: "status", text: "Status", cell: (worker) => html`<${Status} status=${worker.status} />` },
  { name: "queues", text: "Queues", cell: (worker) => html`<${Names} names=${worker.queues} none="all" />` },
  { name: "offers", text: "Capabilities", cell: (worker) => html`<${Names} names=${worker.offers} tone="accent" />` },
  { name: "running", text: "Your running jobs", align: "right", cell: (worker) => `${count(worker.running)} in ${plural(worker.concurrency, "slot")}` },
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
      <${Loaded} from=${changes} lines=${6}>${({ items }) => items.length ? html`
        <ol class="happened">${items.map(({ id, at, name, change }) => {
          const [tone, text] = CHANGES[change] ?? ["quiet", change]
          return html`<li key=${id} data-tone=${tone}><span class="grow"><b>${name}</b> ${text}</span><${Time} at=${at} /></li>`
        })}</ol>` : html`<${Empty} icon="clock" title="No changes yet">Workers that start, stop or are lost appear here.<//>`}<//>
    <//>`
}
