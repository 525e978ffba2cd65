// Overview: backlog, throughput, failures, and what needs attention.
import { useApi } from "../api.js"
import { html, useCallback, useMemo } from "../lib.js"
import { count, duration, percent, plural, short } from "../format.js"
import { quoted } from "../filter.js"
import { useLive } from "../live.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Card, Empty, Figure, Loaded, Skeleton, Tag, Time } from "../ui/basics.js"
import { Chart, Sparkline } from "../ui/chart.js"
import { Icon } from "../ui/icons.js"
import { groupKey, groupLink } from "./failures.js"

const RANGES = { "15m": [900, 60], "1h": [3600, 60], "6h": [21600, 300], "24h": [86400, 900], "7d": [604800, 3600] }

export function Overview({ query }) {
  const session = useSession()
  const range = RANGES[query.range] ? query.range : "1h"
  const [span, step] = RANGES[range]
  const glance = useApi("/overview", {}, { every: 10_000 })
  const summary = useApi("/jobs/summary", {}, { every: 10_000 })
  const stats = useApi("/stats", { span_seconds: span, step_seconds: step }, { every: Math.max(5000, step * 250) })
  const failures = useApi("/failures", { limit: 5 }, { every: 15_000 })
  const doctor = useApi(session.can("overview:read") ? "/admin/doctor" : null, {}, { every: 30_000 })
  const counted = useCallback(({ counters, missed }) => {
    if (missed) glance.reload()
    if (counters) glance.setData((was) => was && withCounters(was, counters))
  }, [])
  const live = useLive({ event: "counters" }, counted)
  const series = stats.data?.[0]
  return html`
    <div class="bar">
      <div class="switch" role="group" aria-label="Time range">${Object.keys(RANGES).map((name) => html`
        <button key=${name} type="button" aria-pressed=${name === range} onClick=${() => setQuery({ range: name }, { replace: true })}>${name}</button>`)}</div>
      <span class="grow"></span><${LiveLight} state=${live} />
    </div>
    <${Tiles} glance=${glance} counts=${summary.data?.counts} total=${series?.total} doctor=${session.can("overview:read") && doctor} span=${range} />
    <div class="grid-2">
      <${Card} title="Throughput"><${Loaded} from=${stats} height=${204}>${() => html`
        <${Chart} label="Jobs" points=${series?.points ?? []} series=${FLOW} />`}<//><//>
      <${Card} title="Wait and run time"><${Loaded} from=${stats} height=${204}>${() => html`
        <${Chart} label="Seconds" points=${series?.points ?? []} series=${WAITS} write=${duration} />`}<//><//>
    </div>
    <div class="grid-2">
      <${Attention} doctor=${doctor} />
      <${Card} title="Failures" aside=${html`<a href=${link("failures")}>View all failures</a>`}>
        <${Loaded} from=${failures} lines=${3}>${({ items }) => items.length ? items.map((group) => html`<${Group} key=${groupKey(group)} group=${group} />`)
          : html`<${Empty} icon="check" title="No failures">Failed attempts appear here, grouped by error.<//>`}<//>
      <//>
    </div>
    <${Card} title="Queues" aside=${html`<a href=${link("queues")}>Queues and limits</a>`}>
      <${Loaded} from=${glance} lines=${3}>${({ queues }) => queues.length ? html`<div>${[...queues].sort(byWeight).map((queue) => html`<${QueueLine} key=${queue.name} queue=${queue} />`)}</div>`
        : html`<${Empty} title="No queues yet" command="posthouse enqueue demo.greet --payload '{}'">A queue appears when a job is enqueued to it or a worker serves it.<//>`}<//>
    <//>`
}

/** Queues in use first. */
const byWeight = (one, other) => weight(other) - weight(one) || one.name.localeCompare(other.name)
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

/** The stream counts scheduled and blocked jobs together; the last known blocked count is kept. */
function withCounters(glance, counters) {
  const list = Array.isArray(counters) ? counters : counters.queues ?? []
  const sum = (name) => list.reduce((total, each) => total + each[name], 0)
  return { ...glance, ready: sum("ready"), running: sum("running"), scheduled: Math.max(0, sum("waiting") - glance.blocked) }
}

export const LiveLight = ({ state }) => html`<span class="live" data-state=${state}><i></i>${{ live: "live", paused: "paused during selection", away: "connecting" }[state]}</span>`

function Tiles({ glance, counts, total, doctor, span }) {
  const now = glance.data
  if (!now) return glance.error ? html`<${Loaded} from=${glance} />` : html`<div class="tiles">${Array.from({ length: 8 }, (_, n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const tried = (total?.succeeded ?? 0) + (total?.failures ?? 0)
  const share = tried ? total.failures / tried : null
  const { workers, slots, busy } = now.workers
  return html`
    <div class="tiles">
      <${Figure} name="Queued" value=${short(now.ready + now.scheduled + now.blocked)} hint=${waits(now)} tone=${now.oldest_ready_seconds > 60 && "warn"} href=${link("jobs", { q: "status:queued" })} />
      <${Figure} name="Running" value=${short(now.running)} hint=${`${count(busy)} of ${plural(slots, "slot")}`} href=${link("jobs", { q: "status:running" })} />
      <${Figure} name="Failed" value=${short(counts?.failed)} hint="by an error that is not retried" tone=${counts?.failed > 0 && "bad"} href=${link("jobs", { q: "status:failed" })} />
      <${Figure} name="Dead letter" value=${short(counts?.dead_letter)} hint="attempts used up" tone=${counts?.dead_letter > 0 && "bad"} href=${link("jobs", { q: "status:dead_letter" })} />
      <${Figure} name="Finished" value=${short(total?.ended)} hint=${`in the last ${span}${share === null ? "" : `; ${percent(share)} of attempts failed`}`} tone=${share > 0.05 && "bad"} href=${link("jobs", { q: "status:succeeded" })} />
      <${Figure} name="Wait p95" value=${duration(total?.wait_p95)} hint=${`run p95 ${duration(total?.run_p95)}`} />
      <${Figure} name="Workers" value=${count(workers)} hint=${workers ? `${plural(slots, "slot")}` : "no workers online"} tone=${!workers && "bad"} href=${link("workers")} />
      ${doctor && html`<${Health} doctor=${doctor} />`}
    </div>`
}

/** What the queued jobs wait for. */
const waits = (now) => [
  now.ready && `${short(now.ready)} ready, oldest ${duration(now.oldest_ready_seconds ?? 0)}`,
  now.scheduled && `${short(now.scheduled)} scheduled`,
  now.blocked && `${short(now.blocked)} blocked`,
].filter(Boolean).join(", ") || "no jobs waiting"

const LIGHTS = { ok: ["good", "healthy"], warning: ["warn", "warnings"], critical: ["bad", "critical"] }

function Health({ doctor }) {
  const [tone, text] = LIGHTS[doctor.data?.light] ?? ["quiet", doctor.error ? "unknown" : "…"]
  const found = doctor.data ? doctor.data.counts.warning + doctor.data.counts.error : 0
  return html`<${Figure} name="Health" value=${html`<span class="word">${text}</span>`} tone=${tone} hint=${found ? plural(found, "finding") : "no findings"} href=${link("operator/doctor")} />`
}

function Attention({ doctor }) {
  const alerts = useApi("/alerts", { within_seconds: 86_400, limit: 50 }, { every: 15_000 })
  const findings = useMemo(() => (doctor.data?.findings ?? []).filter(({ severity }) => severity !== "ok"), [doctor.data])
  return html`
    <${Card} title="Needs attention">
      <${Loaded} from=${alerts} lines=${3}>${({ items, next_cursor: more }) => items.length + findings.length ? html`<ul class="lines">
        ${findings.map((finding) => html`<li key=${finding.check} data-tone=${finding.severity}><${Icon} name="alert" /><div><b>${finding.summary}</b><small>${finding.advice}</small></div></li>`)}
        ${alike(items).slice(0, MOST_ALERTS).map(({ alert, times }) => html`<${Alert} key=${alert.id} alert=${alert} times=${times} more=${more} />`)}
      </ul>` : html`<${Empty} icon="check" title="Nothing needs attention">Alerts from the last 24 hours and failed health checks appear here.<//>`}<//>
    <//>`
}

const MOST_ALERTS = 6

/** Alerts grouped by type, tenant and subject: the latest of each and their number. */
function alike(alerts) {
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
      <small><${Tag}>${alert.type.replaceAll("_", " ")}<//> <${Time} at=${alert.at} />${times > 1 && ` · ${count(times)}${more ? "+" : ""} similar in the last 24 hours`}</small></div></li>`
}

const Group = ({ group }) => html`
  <a class="line" href=${groupLink(group)}>
    <div class="grow"><b>${group.type}</b> <span class="faint">${group.definition_key}</span><p class="clip">${group.message}</p></div>
    <${Sparkline} values=${group.last_day ?? []} label="Failed attempts per hour, last 24 hours" /><span class="figure">${short(group.failures)}</span>
  </a>`

const QueueLine = ({ queue }) => html`
  <a class="line" href=${link("jobs", { q: `queue:${quoted(queue.name)}` })}>
    <b class="grow">${queue.name} ${queue.paused_at && html`<${Tag} tone="warn">paused<//>`}</b>
    <span><span class="figure">${short(queue.ready)}</span> ready</span><span><span class="figure">${short(queue.running)}</span> running</span>
    <span class="wide-only"><span class="figure">${short(queue.scheduled + queue.blocked)}</span> scheduled or blocked</span>
    <span class="wide-only"><span class="figure">${short(queue.last_hour.ended)}</span> finished in the last hour</span>
  </a>`
