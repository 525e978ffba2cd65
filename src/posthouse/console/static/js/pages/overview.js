// Overview: backlog, throughput, failures, and what needs attention.
import { useApi } from "../api.js"
import { Chart, Sparkline } from "../components/chart.js"
import { AsyncContent, Card, EmptyState, Skeleton, StatTile, StreamStatus, Tag, Time } from "../components/display.js"
import { Icon } from "../components/icons.js"
import { quoteValue } from "../filter-query.js"
import { duration, formatCompact, formatInteger, percent, plural } from "../format.js"
import { html, useCallback, useMemo } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { useEventStream } from "../stream.js"
import { groupKey, groupLink } from "./failures.js"

/** Seconds of each time range and of its steps, and its name in a sentence. */
const RANGES = { "15m": [900, 60, "15 minutes"], "1h": [3600, 60, "hour"], "6h": [21600, 300, "6 hours"], "24h": [86400, 900, "24 hours"], "7d": [604800, 3600, "7 days"] }

export function Overview({ query }) {
  const session = useSession()
  const range = RANGES[query.range] ? query.range : "1h"
  const [span, step, words] = RANGES[range]
  const overview = useApi("/overview", {}, { every: 10_000 })
  const summary = useApi("/jobs/summary", {}, { every: 10_000 })
  const stats = useApi("/stats", { span_seconds: span, step_seconds: step }, { every: Math.max(5000, step * 250) })
  const failures = useApi("/failures", { limit: 5 }, { every: 15_000 })
  const doctor = useApi(session.can("overview:read") ? "/admin/doctor" : null, {}, { every: 30_000 })
  const counted = useCallback(({ counters, missed }) => {
    if (missed) overview.reload()
    if (counters) overview.setData((previous) => previous && withCounters(previous, counters))
  }, [])
  const live = useEventStream({ event: "counters" }, counted)
  const series = stats.data?.[0]
  return html`
    <div class="bar">
      <div class="switch" role="group" aria-label="Time range">${Object.keys(RANGES).map((name) => html`
        <button key=${name} type="button" aria-pressed=${name === range} onClick=${() => setQuery({ range: name }, { replace: true })}>${name}</button>`)}</div>
      <span class="grow"></span><${StreamStatus} state=${live} />
    </div>
    <${Tiles} overview=${overview} counts=${summary.data?.counts} total=${series?.total} doctor=${session.can("overview:read") && doctor} span=${words} />
    <div class="grid-2">
      <${Card} title="Throughput"><${AsyncContent} request=${stats} height=${204}>${() => html`
        <${Chart} label="Jobs" points=${series?.points ?? []} series=${FLOW} />`}<//><//>
      <${Card} title="Wait and run time"><${AsyncContent} request=${stats} height=${204}>${() => html`
        <${Chart} label="Seconds" points=${series?.points ?? []} series=${WAITS} format=${duration} />`}<//><//>
    </div>
    <div class="grid-2">
      <${Attention} doctor=${doctor} />
      <${Card} title="Failures" aside=${html`<a href=${link("failures")}>View all failures</a>`}>
        <${AsyncContent} request=${failures} lines=${3}>${({ items }) => items.length ? items.map((group) => html`<${Group} key=${groupKey(group)} group=${group} />`)
          : html`<${EmptyState} icon="check" title="No failures">Failed attempts appear here, grouped by error.<//>`}<//>
      <//>
    </div>
    <${Card} title="Queues" aside=${html`<a href=${link("queues")}>Queues and limits</a>`}>
      <${AsyncContent} request=${overview} lines=${3}>${({ queues }) => queues.length ? html`<div>${[...queues].sort(busyFirst).map((queue) => html`<${QueueLine} key=${queue.name} queue=${queue} />`)}</div>`
        : html`<${EmptyState} title="No queues yet" command="posthouse enqueue demo.greet --payload '{}'">A queue appears when a job is enqueued to it or a worker serves it.<//>`}<//>
    <//>`
}

/** Queues in use first. */
const busyFirst = (one, other) => weight(other) - weight(one) || one.name.localeCompare(other.name)
const weight = ({ ready, running, scheduled, blocked, last_hour }) => (ready + running + scheduled + blocked > 0 || last_hour.arrivals > 0 ? 1 : 0)

const FLOW = [
  { name: "enqueued", of: (point) => point.arrivals, tone: "quiet", kind: "area" },
  { name: "finished", of: (point) => point.ended, tone: "good" },
  { name: "failed attempts", of: (point) => point.failures, tone: "bad", kind: "bars" },
]
const WAITS = [
  { name: "wait p95", of: (point) => point.wait_p95, tone: "accent" },
  { name: "run p95", of: (point) => point.run_p95, tone: "quiet" },
  { name: "oldest waiting", of: (point) => point.oldest_seconds, tone: "warn", kind: "area" },
]

/** From which share of failed attempts, and how many, the figure is red: a single one among few jobs is no incident. */
const FAILED_SHARE = 0.05
const FAILED_ATTEMPTS = 5

/** The stream counts scheduled and blocked jobs together; the last known blocked count is kept. */
function withCounters(overview, counters) {
  const list = Array.isArray(counters) ? counters : counters.queues ?? []
  const sum = (name) => list.reduce((total, each) => total + each[name], 0)
  return { ...overview, ready: sum("ready"), running: sum("running"), scheduled: Math.max(0, sum("waiting") - overview.blocked) }
}

function Tiles({ overview, counts, total, doctor, span }) {
  const now = overview.data
  if (!now) return overview.error ? html`<${AsyncContent} request=${overview} />` : html`<div class="tiles">${Array.from({ length: 8 }, (_, n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const tried = (total?.succeeded ?? 0) + (total?.failures ?? 0)
  const share = tried ? total.failures / tried : null
  const { workers, slots, busy } = now.workers
  return html`
    <div class="tiles">
      <${StatTile} name="Queued" value=${formatCompact(now.ready + now.scheduled + now.blocked)} hint=${waits(now)} tone=${now.oldest_ready_seconds > 60 && "warn"} href=${link("jobs", { q: "status:queued" })} />
      <${StatTile} name="Running" value=${formatCompact(now.running)} hint=${`${formatInteger(busy)} of ${plural(slots, "slot")}`} href=${link("jobs", { q: "status:running" })} />
      <${StatTile} name="Failed" value=${formatCompact(counts?.failed)} hint="by an error that is not retried" tone=${counts?.failed > 0 && "bad"} href=${link("jobs", { q: "status:failed" })} />
      <${StatTile} name="Dead letter" value=${formatCompact(counts?.dead_letter)} hint="attempts used up" tone=${counts?.dead_letter > 0 && "bad"} href=${link("jobs", { q: "status:dead_letter" })} />
      <${StatTile} name="Finished" value=${formatCompact(total?.ended)} hint=${`in the last ${span}${share === null ? "" : `; ${percent(share)} of attempts failed`}`} tone=${share > FAILED_SHARE && total.failures >= FAILED_ATTEMPTS && "bad"} href=${link("jobs", { q: "status:succeeded" })} />
      <${StatTile} name="Wait p95" value=${duration(total?.wait_p95)} hint=${`run p95 ${duration(total?.run_p95)}`} />
      <${StatTile} name="Workers" value=${formatInteger(workers)} hint=${workers ? `${plural(slots, "slot")}` : "no workers online"} tone=${!workers && "bad"} href=${link("workers")} />
      ${doctor && html`<${Health} doctor=${doctor} />`}
    </div>`
}

/** What the queued jobs wait for. */
const waits = (now) => [
  now.ready && `${formatCompact(now.ready)} ready, oldest ${duration(now.oldest_ready_seconds ?? 0)}`,
  now.scheduled && `${formatCompact(now.scheduled)} scheduled`,
  now.blocked && `${formatCompact(now.blocked)} blocked`,
].filter(Boolean).join(", ") || "no jobs waiting"

const SEVERITY = { ok: ["good", "healthy"], warning: ["warn", "warnings"], critical: ["bad", "critical"] }

function Health({ doctor }) {
  const [tone, text] = SEVERITY[doctor.data?.status] ?? ["quiet", doctor.error ? "unknown" : "…"]
  const found = doctor.data ? doctor.data.counts.warning + doctor.data.counts.error : 0
  return html`<${StatTile} name="Health" value=${html`<span class="word">${text}</span>`} tone=${tone} hint=${found ? plural(found, "finding") : "no findings"} href=${link("operator/doctor")} />`
}

function Attention({ doctor }) {
  const alerts = useApi("/alerts", { within_seconds: 86_400, limit: 50 }, { every: 15_000 })
  const findings = useMemo(() => (doctor.data?.findings ?? []).filter(({ severity }) => severity !== "ok"), [doctor.data])
  return html`
    <${Card} title="Needs attention">
      <${AsyncContent} request=${alerts} lines=${3}>${({ items, next_cursor: more }) => items.length + findings.length ? html`<ul class="lines">
        ${findings.map((finding) => html`<li key=${finding.check} data-tone=${finding.severity}><${Icon} name="alert" /><div><b>${finding.summary}</b><small>${finding.advice}</small></div></li>`)}
        ${groupAlerts(items).slice(0, MAX_ALERTS).map(({ alert, times }) => html`<${Alert} key=${alert.id} alert=${alert} times=${times} more=${more} />`)}
      </ul>` : html`<${EmptyState} icon="check" title="Nothing needs attention">Alerts from the last 24 hours and failed health checks appear here.<//>`}<//>
    <//>`
}

const MAX_ALERTS = 6

/** Alerts grouped by type, tenant and subject: the latest of each and their number. */
function groupAlerts(alerts) {
  const found = new Map()
  for (const alert of alerts) {
    const key = [alert.type, alert.tenant_id, alert.subject].join("\n")
    const known = found.get(key)
    if (known) known.times += 1
    else found.set(key, { alert, times: 1 })
  }
  return [...found.values()]
}

function Alert({ alert, times, more }) {
  const { job_id, last_job_id, trigger_id: trigger } = alert.details
  const job = job_id ?? last_job_id
  const page = job ? link(`jobs/${job}`) : trigger ? link(`triggers/${trigger}`) : null
  return html`
    <li data-tone=${alert.severity}><${Icon} name="bolt" /><div>
      <b>${page ? html`<a href=${page}>${alert.message}</a>` : alert.message}</b>
      <small><${Tag}>${alert.type.replaceAll("_", " ")}<//> <${Time} at=${alert.at} />${times > 1 && ` · ${formatInteger(times)}${more ? "+" : ""} similar in the last 24 hours`}</small></div></li>`
}

const Group = ({ group }) => html`
  <a class="line" href=${groupLink(group)}>
    <div class="grow"><b>${group.type}</b> <span class="faint">${group.definition_key}</span><p class="clip">${group.message}</p></div>
    <${Sparkline} values=${group.last_day ?? []} label="Failed attempts per hour, last 24 hours" /><span class="figure">${formatCompact(group.failures)}</span>
  </a>`

const QueueLine = ({ queue }) => html`
  <a class="line" href=${link("jobs", { q: `queue:${quoteValue(queue.name)}` })}>
    <b class="grow">${queue.name} ${queue.paused_at && html`<${Tag} tone="warn">paused<//>`}</b>
    <span><span class="figure">${formatCompact(queue.ready)}</span> ready</span><span><span class="figure">${formatCompact(queue.running)}</span> running</span>
    <span class="wide-only"><span class="figure">${formatCompact(queue.scheduled + queue.blocked)}</span> scheduled or blocked</span>
    <span class="wide-only"><span class="figure">${formatCompact(queue.last_hour.ended)}</span> finished in the last hour</span>
  </a>`
