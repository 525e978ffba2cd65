// Queues: backlog and throughput; limits.
import { api, useApi } from "../api.js"
import { Sparkline } from "../components/chart.js"
import { Confirm } from "../components/dialog.js"
import { AsyncContent, Button, Card, EmptyState, ErrorBanner, Meter, Skeleton, StatTile, StreamStatus, Table, Tag, TagList, Time } from "../components/display.js"
import { NumberField, SelectField, TextField } from "../components/forms.js"
import { showError, toast } from "../components/toast.js"
import { duration, formatCompact, formatDateTime, formatInteger, plural } from "../format.js"
import { cls, html, useEffect, useMemo, useRef, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { useEventStream, useThrottled } from "../stream.js"

const SPAN = 1800
const RECENT = 5
/** Seconds after which the oldest ready job is highlighted. */
const LONG_WAIT = 60
const EMPTY_STATE = Array(SPAN / 60).fill(0)

export function Queues({ query }) {
  const session = useSession()
  const queues = useApi("/queues", {}, { every: 10_000 })
  const stats = useApi("/stats", { by: "queue", span_seconds: SPAN, step_seconds: 60 }, { every: 15_000 })
  const again = useThrottled(queues.reload)
  const live = useEventStream({ event: "counters" }, ({ counters, missed }) => {
    if (missed || countersChanged(queues.data, counters)) again()
    if (counters) queues.setData((previous) => previous && withCounters(previous, counters.queues))
  })
  const lines = useMemo(() => new Map((stats.data ?? []).map((series) => [series.queue, series.points])), [stats.data])
  const shown = (queues.data ?? []).filter(({ name }) => name.toLowerCase().includes((query.q ?? "").toLowerCase()))
  const columns = useMemo(() => columnsFor(session, lines, queues.reload), [session, lines])
  return html`
    <${Tiles} queues=${queues.data} />
    <div class="bar">
      <label class="grow"><span class="hidden">Search queues</span>
        <input type="search" data-filter placeholder="Search queues" value=${query.q ?? ""} onInput=${(event) => setQuery({ q: event.target.value || null }, { replace: true })} /></label>
      <${StreamStatus} state=${live} />
    </div>
    <${Card} title="Queues" aside=${html`<span class="faint">jobs in and out, last 30 minutes</span>`}>
      <${AsyncContent} request=${queues} lines=${6}>${() => shown.length ? html`<div class="queues"><${Table} label="Queues" columns=${columns} rows=${shown} rowKey=${({ name }) => name} rowClass=${(queue) => queue.paused_at && "paused"} /></div>`
        : html`<${NoQueue} filtered=${query.q} />`}<//>
    <//>
    ${session.can("overview:read") && html`<${Limits} open=${query.limit} />`}`
}

/** The stream counts scheduled and blocked jobs together; their split is loaded, but not on every change. */
const countersChanged = (queues, counters) => counters && queues && counters.queues.some((counted) => {
  const known = queues.find(({ name }) => name === counted.queue)
  return !known || known.scheduled + known.blocked !== counted.waiting
})

function withCounters(queues, counters) {
  const countersOf = new Map(counters.map((each) => [each.queue, each]))
  return queues.map((queue) => {
    const { ready = 0, running = 0 } = countersOf.get(queue.name) ?? {}
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
      <${StatTile} name="Ready" value=${formatCompact(sum("ready"))} hint=${oldest ? `oldest ${duration(oldest)}` : "no jobs waiting"} tone=${oldest > LONG_WAIT ? "warn" : undefined} />
      <${StatTile} name="Scheduled" value=${formatCompact(sum("scheduled"))} hint="due later" />
      <${StatTile} name="Blocked" value=${formatCompact(sum("blocked"))} hint="waiting for other jobs" />
      <${StatTile} name="Running" value=${formatCompact(sum("running"))} hint=${`in ${plural(queues.length, "queue")}`} />
      <${StatTile} name="Paused" value=${formatInteger(paused)} hint=${paused ? "no jobs start there" : "none paused"} tone=${paused ? "warn" : undefined} />
    </div>`
}

const jobsOf = (queue, status) => link("jobs", { q: `queue:${queue.name}${status ? ` status:${status}` : ""}` })

function columnsFor(session, lines, changed) {
  const figure = (name, text, status) => ({ name, text, align: "right", cell: (queue) => (queue[name] ? html`<a class="figure" href=${jobsOf(queue, status)}>${formatCompact(queue[name])}</a>` : html`<span class="faint zero">0</span>`) })
  return [
    { name: "name", text: "Queue", cell: (queue) => html`<span><${Named} queue=${queue} /></span>` },
    figure("ready", "Ready", "queued"),
    figure("scheduled", "Scheduled", "queued"),
    figure("blocked", "Blocked", "queued"),
    figure("running", "Running", "running"),
    { name: "oldest", text: "Oldest", align: "right", cell: (queue) => html`<${Oldest} queue=${queue} />` },
    { name: "pace", text: "In and out", cell: (queue) => html`<${Throughput} name=${queue.name} points=${lines.get(queue.name)} />` },
    { name: "workers", text: "Workers", align: "right", cell: (queue) => (queue.workers ? formatInteger(queue.workers) : html`<${Tag} tone=${queue.ready ? "bad" : undefined}>none<//>`) },
    ...(session.can("queues:write") ? [{ name: "act", text: "", align: "right", cell: (queue) => html`<${PauseButton} queue=${queue} onChanged=${changed} />` }] : []),
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
function Throughput({ name, points }) {
  const arrived = points ? points.map((point) => point.arrivals) : EMPTY_STATE
  const ended = points ? points.map((point) => point.ended) : EMPTY_STATE
  return html`<span class=${cls("throughput", ![...arrived, ...ended].some(Boolean) && "zero")}><${Rate} values=${arrived} label=${`Enqueued in ${name}`} way="in" tone="quiet" /><${Rate} values=${ended} label=${`Finished in ${name}`} way="out" tone="good" /></span>`
}

function Rate({ values, label, way, tone }) {
  const rate = values.slice(-RECENT).reduce((sum, each) => sum + each, 0) / RECENT
  const written = rate && rate < 10 ? rate.toFixed(1) : formatCompact(rate)
  return html`<span class="rate"><${Sparkline} values=${values} tone=${tone} width=${90} height=${16} label=${`${label}: ${written} per minute`} /><small class="figure">${written}/min ${way}</small></span>`
}

function PauseButton({ queue, onChanged }) {
  const steer = async (what, undone) => {
    try {
      await api.post(`/admin/queues/${encodeURIComponent(queue.name)}/${what}`)
      const text = what === "pause" ? `Queue ${queue.name} paused; running jobs continue` : `Queue ${queue.name} resumed`
      toast(text, undone ? {} : { undo: () => steer(what === "pause" ? "resume" : "pause", true) })
    } catch (error) {
      showError(error)
    }
    onChanged()
  }
  return queue.paused_at
    ? html`<${Button} small icon="play" aria-label=${`Resume ${queue.name}`} onClick=${() => steer("resume")}>Resume<//>`
    : html`<${Button} small icon="pause" aria-label=${`Pause ${queue.name}`} onClick=${() => steer("pause")}>Pause<//>`
}

const NoQueue = ({ filtered }) => (filtered ? html`<${EmptyState} icon="search" title="No matching queues" />`
  : html`<${EmptyState} icon="layers" title="No queues yet" command="posthouse enqueue hello --payload '{}'">A queue appears when a job is enqueued to it or a worker serves it.<//>`)

// Limits: current usage, edited inline.

const PER = { all: "all jobs together", tenant: "each tenant", key: "each key" }

function Limits({ open }) {
  const session = useSession()
  const limits = useApi("/admin/limits", {}, { every: 2000 })
  const [making, setMaking] = useState(false)
  const may = session.can("queues:write")
  return html`
    <${Card} title="Limits" aside=${may && html`<${Button} small icon="plus" onClick=${() => setMaking(true)}>New limit<//>`}>
      ${making && html`<${LimitForm} onClose=${() => setMaking(false)} onSave=${(name, fields) => create(name, fields, limits)} />`}
      <${AsyncContent} request=${limits} lines=${4}>${(list) => list.length || making
        ? list.map((limit) => html`<${Limit} key=${limit.name} limit=${limit} canChange=${may} open=${open === limit.name} onChanged=${limits.reload} />`)
        : html`<${EmptyState} icon="sliders" title="No limits yet" command="posthouse limits set mailer --kind welcome --max-running 5">A limit caps concurrent jobs or the start rate, overall, per tenant or per key.<//>`}<//>
    <//>`
}

function Limit({ limit, canChange, open, onChanged }) {
  const [editing, setEditing] = useState(false)
  const [removing, setRemoving] = useState(false)
  const toggle = () => setQuery({ limit: open ? null : limit.name }, { replace: true })
  return html`
    <article class="limit" aria-label=${`Limit ${limit.name}`}>
      <div class="head"><b title=${`Changed ${formatDateTime(limit.updated_at)}`}>${limit.name}</b><small><${Applies} limit=${limit} /></small></div>
      <div class="fill"><${Running} limit=${limit} /><${StartRate} limit=${limit} /></div>
      <div class="inline-actions">
        ${limit.per !== "all" && (open || limit.slots > 0) && html`<${Button} small icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${toggle}>${plural(limit.slots, PER_ONE[limit.per], PER_MANY[limit.per])}<//>`}
        ${canChange && html`<${Button} small icon="edit" label=${`Edit ${limit.name}`} onClick=${() => setEditing(!editing)} aria-expanded=${editing} />
        <${Button} small icon="trash" label=${`Delete ${limit.name}`} onClick=${() => setRemoving(true)} />`}
      </div>
      ${editing && html`<${LimitForm} limit=${limit} onClose=${() => setEditing(false)} onSave=${(_, fields) => change(limit, fields, onChanged)} />`}
      ${open && limit.per !== "all" && html`<${Slots} limit=${limit} />`}
      ${removing && html`<${Confirm} title=${`Delete ${limit.name}?`} danger submitText="Delete limit" onClose=${() => setRemoving(false)} onSubmit=${() => remove(limit, onChanged)}>Its jobs are no longer limited.${limit.origin === "code" ? " The limit is defined in code: the next worker that starts creates it again." : ""}<//>`}
    </article>`
}

const PER_ONE = { tenant: "tenant", key: "key" }
const PER_MANY = { tenant: "tenants", key: "keys" }

/** The jobs and the scope of a limit. */
function Applies({ limit }) {
  const about = [...(limit.kinds ?? []), ...(limit.queues ?? []).map((name) => `queue ${name}`), ...(limit.tenants ?? []).map((name) => `tenant ${name}`)]
  return html`<${TagList} names=${about} placeholder="all jobs" /> <span>${PER[limit.per]}</span> ${limit.origin === "code" && html`<${Tag} title="Defined in the code of an app.">from code<//>`}`
}

function Running({ limit }) {
  if (limit.max_running === null) return html`<small>${formatInteger(limit.in_use)} running, no maximum</small>`
  if (limit.per === "all") return html`<div><${Meter} used=${limit.in_use} max=${limit.max_running} label=${`Running jobs of limit ${limit.name}`} /><small>running</small></div>`
  const full = limit.full_slots ? `, ${limit.full_slots} full` : ""
  return html`<div><${Meter} used=${limit.highest_usage} max=${limit.max_running} label=${`Fullest ${PER_ONE[limit.per]} of ${limit.name}`} /><small>in the fullest ${PER_ONE[limit.per]}; ${formatInteger(limit.in_use)} in total${full}</small></div>`
}

function StartRate({ limit }) {
  if (limit.rate === null) return null
  const burst = limit.burst ?? Math.max(1, limit.rate)
  return html`<div><${Meter} used=${Math.max(0, limit.tokens ?? burst)} max=${burst} warnWhenFull=${false} format=${tokens} label=${`Starts available under ${limit.name}`} /><small>starts available; ${rateText(limit.rate)}</small></div>`
}

const tokens = (value) => (value < 10 && !Number.isInteger(value) ? value.toFixed(1) : formatCompact(value))
const rateText = (rate) => (rate >= 1 || rate === 0 ? `${tokens(rate)} per second` : rate * 60 >= 1 ? `${tokens(rate * 60)} per minute` : `${tokens(rate * 3600)} per hour`)

function Slots({ limit }) {
  const detail = useApi(`/admin/limits/${encodeURIComponent(limit.name)}`, {}, { every: 2000 })
  const columns = [
    { name: "whose", text: limit.per === "tenant" ? "Tenant" : "Key", cell: ({ tenant_id, key }) => html`<b>${key ?? tenant_id}</b>${key !== null && tenant_id && html` <small>${tenant_id}</small>`}` },
    { name: "use", text: "Running", cell: (slot) => (slot.max_running === null ? formatInteger(slot.in_use) : html`<${Meter} used=${slot.in_use} max=${slot.max_running} label="Running" />`) },
    ...(limit.rate === null ? [] : [{ name: "tokens", text: "Starts available", cell: (slot) => html`<${Meter} used=${Math.max(0, slot.tokens ?? 0)} max=${slot.burst ?? Math.max(1, slot.rate)} warnWhenFull=${false} format=${tokens} label="Starts available" />` }]),
  ]
  return html`<div class="below"><${AsyncContent} request=${detail} lines=${2}>${({ slots }) => slots.length ? html`<${Table} label=${`Slots of ${limit.name}`} columns=${columns} rows=${slots} rowKey=${({ tenant_id, key }) => `${tenant_id} ${key}`} />`
    : html`<p class="faint">No jobs count against this limit.</p>`}<//></div>`
}

const put = (name, fields) => api.put(`/admin/limits/${encodeURIComponent(name)}`, fields)
const drop = (name) => api.delete(`/admin/limits/${encodeURIComponent(name)}`)

/** Undoes a change and shows a toast. */
const back = (work, text, changed) => () => work().then(() => toast(text), showError).finally(changed)

async function create(name, fields, limits) {
  if (limits.data?.some((each) => each.name === name)) throw new Error(`Limit ${name} already exists; edit it instead.`)
  await put(name, fields)
  toast(`Limit ${name} created`, { undo: back(() => drop(name), `Limit ${name} deleted`, limits.reload) })
  limits.reload()
}

async function change(limit, fields, changed) {
  await put(limit.name, fields)
  toast(`Limit ${limit.name} saved`, { undo: back(() => put(limit.name, fieldsOf(limit)), `Limit ${limit.name}: change undone`, changed) })
  changed()
}

async function remove(limit, changed) {
  await drop(limit.name)
  toast(`Limit ${limit.name} deleted`, { undo: back(() => put(limit.name, fieldsOf(limit)), `Limit ${limit.name} restored`, changed) })
  changed()
}

// Inline form of a limit.

const FIELDS = ["kinds", "queues", "tenants", "per", "max_running", "rate", "burst", "weights"]

/** The editable fields of a limit. */
const fieldsOf = (limit) => Object.fromEntries(FIELDS.map((name) => [name, limit[name]]))

const NEW = { kinds: null, queues: null, tenants: null, per: "all", max_running: null, rate: null, burst: null, weights: {} }

const joined = (names) => (names ?? []).join(", ")
const parted = (text) => text.split(",").map((each) => each.trim()).filter(Boolean)

function LimitForm({ limit, onClose, onSave }) {
  const box = useRef(null)
  const [name, setName] = useState("")
  const [given, setGiven] = useState(() => toForm(limit ?? NEW))
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  useEffect(() => box.current.querySelector("input").focus(), [])
  const set = (field) => (value) => setGiven((previous) => ({ ...previous, [field]: value }))
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    try {
      await onSave(limit?.name ?? name.trim(), toRequest(given))
      onClose()
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`
    <form ref=${box} class="limit-form" aria-label=${limit ? `Edit ${limit.name}` : "New limit"} onSubmit=${submit} onKeyDown=${(event) => event.key === "Escape" && onClose()} novalidate>
      ${!limit && html`<${TextField} label="Name" value=${name} onChange=${setName} required />`}
      <div class="columns">
        <${NumberField} label="Max running" min="0" step="1" value=${given.max_running} onChange=${set("max_running")} hint="Maximum concurrent jobs. Leave empty for no maximum." />
        <${NumberField} label="Starts per second" min="0" value=${given.rate} onChange=${set("rate")} hint="0.1 means one start every 10 s. Leave empty for no rate limit." />
        <${NumberField} label="Burst" min="1" value=${given.burst} onChange=${set("burst")} hint="Starts allowed at once." />
        <${SelectField} label="Scope" value=${given.per} onChange=${set("per")} options=${[["all", "all jobs together"], ["tenant", "each tenant"], ["key", "each key (limit_key)"]]} />
      </div>
      <div class="columns">
        <${TextField} label="Kinds" value=${given.kinds} onChange=${set("kinds")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Queues" value=${given.queues} onChange=${set("queues")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Tenants" value=${given.tenants} onChange=${set("tenants")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Weights" value=${given.weights} onChange=${set("weights")} hint="How much a job of a kind counts, for example report=5, mail=0.5." />
      </div>
      ${error && html`<${ErrorBanner} error=${error} />`}
      <div class="bar"><${Button} strong small type="submit" busy=${busy} disabled=${!limit && !name.trim()}>${limit ? "Save" : "Create limit"}<//><${Button} small onClick=${onClose}>Cancel<//></div>
    </form>`
}

const toForm = (limit) => ({
  ...limit, kinds: joined(limit.kinds), queues: joined(limit.queues), tenants: joined(limit.tenants),
  weights: Object.entries(limit.weights ?? {}).map(([kind, weight]) => `${kind}=${weight}`).join(", "),
})

function toRequest(given) {
  const list = (text) => (parted(text).length ? parted(text) : null)
  const weights = Object.fromEntries(parted(given.weights).map((each) => {
    const [kind, weight] = each.split("=")
    if (!kind || !Number.isFinite(Number(weight ?? "x"))) throw new Error(`Invalid weight “${each}”: write kind=number, for example report=5.`)
    return [kind.trim(), Number(weight)]
  }))
  return { per: given.per, max_running: given.max_running, rate: given.rate, burst: given.burst, kinds: list(given.kinds), queues: list(given.queues), tenants: list(given.tenants), weights }
}
