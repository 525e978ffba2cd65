// Queues: backlog and throughput; limits.
import { api, useApi } from "../api.js"
import { cls, html, useMemo } from "../lib.js"
import { count, duration, plural, short } from "../format.js"
import { useLive, useSoon } from "../live.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Button, Card, Empty, Figure, Loaded, Skeleton, Tag, Time } from "../ui/basics.js"
import { Sparkline } from "../ui/chart.js"
import { Table } from "../ui/table.js"
import { complain, toast } from "../ui/toast.js"
import { LiveLight } from "./overview.js"
import { Limits } from "./queues-limits.js"

const SPAN = 1800
const RECENT = 5
/** Seconds after which the oldest ready job is highlighted. */
const LONG_WAIT = 60
const NOTHING = Array(SPAN / 60).fill(0)

export function Queues({ query }) {
  const session = useSession()
  const queues = useApi("/queues", {}, { every: 10_000 })
  const stats = useApi("/stats", { by: "queue", span_seconds: SPAN, step_seconds: 60 }, { every: 15_000 })
  const again = useSoon(queues.reload)
  const live = useLive({ event: "counters" }, ({ counters, missed }) => {
    if (missed || differs(queues.data, counters)) again()
    if (counters) queues.setData((was) => was && withCounters(was, counters.queues))
  })
  const lines = useMemo(() => new Map((stats.data ?? []).map((series) => [series.queue, series.points])), [stats.data])
  const shown = (queues.data ?? []).filter(({ name }) => name.toLowerCase().includes((query.q ?? "").toLowerCase()))
  const columns = useMemo(() => columnsFor(session, lines, queues.reload), [session, lines])
  return html`
    <${Tiles} queues=${queues.data} />
    <div class="bar">
      <label class="grow"><span class="hidden">Search queues</span>
        <input type="search" data-filter placeholder="Search queues" value=${query.q ?? ""} onInput=${(event) => setQuery({ q: event.target.value || null }, { replace: true })} /></label>
      <${LiveLight} state=${live} />
    </div>
    <${Card} title="Queues" aside=${html`<span class="faint">jobs in and out, last 30 minutes</span>`}>
      <${Loaded} from=${queues} lines=${6}>${() => shown.length ? html`<div class="queues"><${Table} label="Queues" columns=${columns} rows=${shown} rowKey=${({ name }) => name} rowClass=${(queue) => queue.paused_at && "paused"} /></div>`
        : html`<${NoQueue} filtered=${query.q} />`}<//>
    <//>
    ${session.can("overview:read") && html`<${Limits} open=${query.limit} />`}`
}

/** The stream counts scheduled and blocked jobs together; their split is loaded, but not on every change. */
const differs = (queues, counters) => counters && queues && counters.queues.some((told) => {
  const known = queues.find(({ name }) => name === told.queue)
  return !known || known.scheduled + known.blocked !== told.waiting
})

function withCounters(queues, counters) {
  const told = new Map(counters.map((each) => [each.queue, each]))
  return queues.map((queue) => {
    const { ready = 0, running = 0 } = told.get(queue.name) ?? {}
    return { ...queue, ready, running, ...(ready ? {} : { oldest_ready_seconds: null }) }
  })
}

function Tiles({ queues }) {
  if (!queues) return html`<div class="tiles">${[1, 2, 3, 4].map((n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const sum = (name) => queues.reduce((total, each) => total + each[name], 0)
  const oldest = Math.max(0, ...queues.map((queue) => queue.oldest_ready_seconds ?? 0))
  const paused = queues.filter(({ paused_at }) => paused_at).length
  return html`
    <div class="tiles">
      <${Figure} name="Ready" value=${short(sum("ready"))} hint=${oldest ? `oldest ${duration(oldest)}` : "no jobs waiting"} tone=${oldest > LONG_WAIT ? "warn" : undefined} />
      <${Figure} name="Scheduled" value=${short(sum("scheduled"))} hint="due later" />
      <${Figure} name="Blocked" value=${short(sum("blocked"))} hint="waiting for other jobs" />
      <${Figure} name="Running" value=${short(sum("running"))} hint=${`in ${plural(queues.length, "queue")}`} />
      <${Figure} name="Paused" value=${count(paused)} hint=${paused ? "no jobs start there" : "none paused"} tone=${paused ? "warn" : undefined} />
    </div>`
}

const jobsOf = (queue, status) => link("jobs", { q: `queue:${queue.name}${status ? ` status:${status}` : ""}` })

function columnsFor(session, lines, changed) {
  const figure = (name, text, status) => ({ name, text, align: "right", cell: (queue) => (queue[name] ? html`<a class="figure" href=${jobsOf(queue, status)}>${short(queue[name])}</a>` : html`<span class="faint zero">0</span>`) })
  return [
    { name: "name", text: "Queue", cell: (queue) => html`<span><${Named} queue=${queue} /></span>` },
    figure("ready", "Ready", "queued"),
    figure("scheduled", "Scheduled", "queued"),
    figure("blocked", "Blocked", "queued"),
    figure("running", "Running", "running"),
    { name: "oldest", text: "Oldest", align: "right", cell: (queue) => html`<${Oldest} queue=${queue} />` },
    { name: "pace", text: "In and out", cell: (queue) => html`<${Pace} name=${queue.name} points=${lines.get(queue.name)} />` },
    { name: "workers", text: "Workers", align: "right", cell: (queue) => (queue.workers ? count(queue.workers) : html`<${Tag} tone=${queue.ready ? "bad" : undefined}>none<//>`) },
    ...(session.can("queues:write") ? [{ name: "act", text: "", align: "right", cell: (queue) => html`<${PauseButton} queue=${queue} changed=${changed} />` }] : []),
  ]
}

const Named = ({ queue }) => html`<a href=${jobsOf(queue)}><b>${queue.name}</b></a>
  ${queue.paused_at && html`<small class="paused-by"><${Tag} tone="warn">paused<//> <${Time} at=${queue.paused_at} />${queue.paused_by && ` by ${queue.paused_by}`}</small>`}`

function Oldest({ queue }) {
  const age = queue.oldest_ready_seconds
  if (!age) return html`<span class="faint zero">–</span>`
  return html`<span class="figure aged" data-tone=${age > LONG_WAIT && !queue.paused_at ? "warn" : undefined} title="Age of the oldest ready job.">${duration(age)}</span>`
}

/** Jobs enqueued and finished per minute, as bars and as the recent rate. */
function Pace({ name, points }) {
  const arrived = points ? points.map((point) => point.arrivals) : NOTHING
  const ended = points ? points.map((point) => point.ended) : NOTHING
  return html`<span class=${cls("paces", ![...arrived, ...ended].some(Boolean) && "zero")}><${Rate} values=${arrived} label=${`Enqueued in ${name}`} way="in" tone="quiet" /><${Rate} values=${ended} label=${`Finished in ${name}`} way="out" tone="good" /></span>`
}

function Rate({ values, label, way, tone }) {
  const rate = values.slice(-RECENT).reduce((sum, each) => sum + each, 0) / RECENT
  const written = rate && rate < 10 ? rate.toFixed(1) : short(rate)
  return html`<span class="rate"><${Sparkline} values=${values} tone=${tone} width=${90} height=${16} label=${`${label}: ${written} per minute`} /><small class="figure">${written}/min ${way}</small></span>`
}

function PauseButton({ queue, changed }) {
  const steer = async (what, undone) => {
    try {
      await api.post(`/admin/queues/${encodeURIComponent(queue.name)}/${what}`)
      const text = what === "pause" ? `Queue ${queue.name} paused; running jobs continue` : `Queue ${queue.name} resumed`
      toast(text, undone ? {} : { undo: () => steer(what === "pause" ? "resume" : "pause", true) })
    } catch (error) {
      complain(error)
    }
    changed()
  }
  return queue.paused_at
    ? html`<${Button} small icon="play" aria-label=${`Resume ${queue.name}`} onClick=${() => steer("resume")}>Resume<//>`
    : html`<${Button} small icon="pause" aria-label=${`Pause ${queue.name}`} onClick=${() => steer("pause")}>Pause<//>`
}

const NoQueue = ({ filtered }) => (filtered ? html`<${Empty} icon="search" title="No matching queues" />`
  : html`<${Empty} icon="layers" title="No queues yet" command="posthouse enqueue hello --payload '{}'">A queue appears when a job is enqueued to it or a worker serves it.<//>`)
