// How it goes: what waits, what runs, what fails, and what needs somebody's attention.
import { useApi } from "../api.js"
import { html, useCallback, useMemo } from "../lib.js"
import { count, duration, percent, plural, short } from "../format.js"
import { useLive } from "../live.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Card, Empty, Figure, Loaded, Skeleton, Tag, Time } from "../ui/basics.js"
import { Chart, Sparkline } from "../ui/chart.js"
import { Icon } from "../ui/icons.js"

const RANGES = { "15m": [900, 15], "1h": [3600, 60], "6h": [21600, 300], "24h": [86400, 900], "7d": [604800, 3600] }

export function Overview({ query }) {
  const session = useSession()
  const range = RANGES[query.range] ? query.range : "1h"
  const [span, step] = RANGES[range]
  const stats = useApi("/stats", { span_seconds: span, step_seconds: step }, { every: Math.max(5000, step * 250) })
  const summary = useApi("/jobs/summary", {}, { every: 10_000 })
  const queues = useApi("/queues", {}, { every: 10_000 })
  const failures = useApi("/failures", { limit: 5 }, { every: 15_000 })
  const counted = useCallback(({ counters, missed }) => {
    if (missed) summary.reload()
    if (counters) summary.setData((was) => was && withCounters(was, counters))
  }, [])
  const live = useLive({ event: "counters" }, counted)
  const series = stats.data?.[0]
  return html`
    <div class="bar">
      <div class="switch" role="group" aria-label="Time range">${Object.keys(RANGES).map((name) => html`
        <button key=${name} type="button" aria-pressed=${name === range} onClick=${() => setQuery({ range: name }, { replace: true })}>${name}</button>`)}</div>
      <span class="grow"></span><${LiveLight} state=${live} />
    </div>
    <${Tiles} summary=${summary.data} total=${series?.total} queues=${queues.data} session=${session} span=${range} />
    <div class="grid-2">
      <${Card} title="Arrivals and throughput"><${Loaded} from=${stats} height=${204}>${() => html`
        <${Chart} label="Jobs" points=${series?.points ?? []} series=${FLOW} />`}<//><//>
      <${Card} title="Waiting and failing"><${Loaded} from=${stats} height=${204}>${() => html`
        <${Chart} label="Seconds" points=${series?.points ?? []} series=${WAITS} write=${duration} />`}<//><//>
    </div>
    <div class="grid-2">
      <${Attention} session=${session} />
      <${Card} title="Failures" aside=${html`<a href=${link("failures")}>All of them</a>`}>
        <${Loaded} from=${failures} lines=${3}>${({ items }) => items.length ? items.map((group) => html`<${Group} key=${group.tenant_id + group.kind + group.fingerprint} group=${group} />`)
          : html`<${Empty} icon="check" title="Nothing failed">Failed jobs gather here, one line for each fault.<//>`}<//>
      <//>
    </div>
    <${Card} title="Queues" aside=${html`<a href=${link("queues")}>Queues and limits</a>`}>
      <${Loaded} from=${queues} lines=${3}>${(list) => list.length ? html`<div class="queue-lines">${list.map((queue) => html`<${QueueLine} key=${queue.name} queue=${queue} />`)}</div>`
        : html`<${Empty} title="No queue yet" command="posthouse enqueue hello --payload '{}'">A queue is there as soon as a job or a worker names it.<//>`}<//>
    <//>`
}

const FLOW = [
  { name: "arrived", of: (point) => point.arrivals, tone: "quiet", kind: "area" },
  { name: "ended", of: (point) => point.ended, tone: "good" },
  { name: "failed attempts", of: (point) => point.failures, tone: "bad", kind: "bars" },
]
const WAITS = [
  { name: "wait p95", of: (point) => point.wait_p95, tone: "accent" },
  { name: "run p95", of: (point) => point.run_p95, tone: "quiet" },
  { name: "oldest waiting", of: (point) => point.oldest_seconds, tone: "warn", kind: "area" },
]

function withCounters(summary, counters) {
  const list = Array.isArray(counters) ? counters : counters.queues ?? []
  const sum = (name) => list.reduce((total, each) => total + each[name], 0)
  return { ...summary, ready: sum("ready"), waiting: sum("waiting"), running: sum("running") }
}

export const LiveLight = ({ state }) => html`<span class="live" data-state=${state}><i></i>${{ live: "live", paused: "paused while you select", away: "connecting" }[state]}</span>`

function Tiles({ summary, total, session, span }) {
  if (!summary) return html`<div class="tiles">${[1, 2, 3, 4, 5, 6].map((n) => html`<div key=${n} class="tile"><${Skeleton} lines=${2} /></div>`)}</div>`
  const tried = (total?.ended ?? 0) + (total?.failures ?? 0)
  const share = tried ? (total.failures ?? 0) / tried : null
  return html`
    <div class="tiles">
      <${Figure} name="Ready" value=${short(summary.ready)} hint=${summary.oldest_queued_seconds ? `oldest ${duration(summary.oldest_queued_seconds)}` : "nothing waits"} tone=${summary.oldest_queued_seconds > 60 && "warn"} href=${link("jobs", { q: "status:queued" })} />
      <${Figure} name="Scheduled or blocked" value=${short(summary.waiting)} href=${link("jobs", { q: "status:queued" })} />
      <${Figure} name="Running" value=${short(summary.running)} href=${link("jobs", { q: "status:running" })} />
      <${Figure} name="Ended" value=${short(total?.ended)} hint=${`in the last ${span}`} href=${link("jobs", { q: "status:succeeded" })} />
      <${Figure} name="Failed attempts" value=${percent(share)} hint=${`${count(total?.failures ?? 0)} in the last ${span}`} tone=${share > 0.05 ? "bad" : undefined} href=${link("failures")} />
      <${Figure} name="Wait p95" value=${duration(total?.wait_p95)} hint=${`run p95 ${duration(total?.run_p95)}`} />
      ${session.operator && html`<${Slots} /><${Database} />`}
    </div>`
}

function Slots() {
  const workers = useApi("/admin/workers", {}, { every: 10_000 })
  const there = (workers.data ?? []).filter(({ status }) => status !== "offline")
  const slots = there.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const used = there.reduce((sum, { running }) => sum + running, 0)
  return html`<${Figure} name="Workers" value=${workers.data ? count(there.length) : "…"} hint=${`${count(used)} of ${plural(slots, "slot")} in use`} tone=${workers.data && !there.length && "bad"} href=${link("workers")} />`
}

const LIGHTS = { ok: ["good", "fine"], warning: ["warn", "look"], critical: ["bad", "trouble"], error: ["bad", "trouble"] }

function Database() {
  const doctor = useApi("/admin/doctor", {}, { every: 30_000 })
  const [tone, text] = LIGHTS[doctor.data?.light ?? doctor.data?.status] ?? ["quiet", doctor.error ? "unknown" : "…"]
  return html`<${Figure} name="Database" value=${text} tone=${tone} hint=${doctor.data ? plural(doctor.data.findings?.length ?? 0, "finding") : ""} href=${link("operator/doctor")} />`
}

function Attention({ session }) {
  const doctor = useApi(session.operator ? "/admin/doctor" : null)
  const alerts = useApi("/alerts", { within_seconds: 86_400, limit: 6 }, { every: 15_000 })
  const findings = useMemo(() => (doctor.data?.findings ?? []).filter(({ severity }) => severity !== "ok" && severity !== "info"), [doctor.data])
  return html`
    <${Card} title="Needs attention">
      <${Loaded} from=${alerts} lines=${3}>${({ items }) => items.length + findings.length ? html`<ul class="lines">
        ${findings.map((finding) => html`<li key=${finding.check}><${Icon} name="alert" /><div><b>${finding.summary}</b><small>${finding.advice}</small></div></li>`)}
        ${items.map((alert) => html`<li key=${alert.id} data-tone=${alert.severity}><${Icon} name="bolt" /><div><b>${alert.message}</b><small><${Tag}>${alert.type.replaceAll("_", " ")}<//> <${Time} at=${alert.at} /></small></div></li>`)}
      </ul>` : html`<${Empty} icon="check" title="Nothing needs you">Alerts of the last day and findings of the doctor come here.<//>`}<//>
    <//>`
}

const Group = ({ group }) => html`
  <a class="line" href=${link(`failures/${group.fingerprint}`, { kind: group.kind })}>
    <div class="grow"><b>${group.type}</b> <span class="faint">${group.kind}</span><p class="clip">${group.message}</p></div>
    <${Sparkline} values=${group.last_hour ?? []} label="Failures of the last hour" /><span class="figure">${short(group.failures)}</span>
  </a>`

const QueueLine = ({ queue }) => html`
  <a class="line" href=${link("jobs", { q: `queue:${queue.name}` })}>
    <b class="grow">${queue.name} ${queue.paused_at && html`<${Tag} tone="warn">paused<//>`}</b>
    <span><span class="figure">${short(queue.ready)}</span> ready</span><span><span class="figure">${short(queue.running)}</span> running</span>
    <span class="wide-only"><span class="figure">${short(queue.scheduled + queue.blocked)}</span> later</span>
    <span class="wide-only faint">${queue.oldest_ready_seconds ? `oldest ${duration(queue.oldest_ready_seconds)}` : "–"}</span>
  </a>`
