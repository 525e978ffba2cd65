// Operator page: alerts, health, settings, retention and audit log; tenants and keys are in files of their own.
import { useApi } from "../api.js"
import { AsyncContent, Button, Card, CopyButton, EmptyState, Json, Table, Tabs, Tag, Time } from "../components/display.js"
import { QueryField } from "../components/forms.js"
import { Icon } from "../components/icons.js"
import { LoadMore, usePages } from "../components/paged.js"
import { bytes, dayOf, duration, formatDateTime, formatInteger, humanize, plural, shortId } from "../format.js"
import { html, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Keys } from "./api-keys.js"
import { Tenants } from "./operator-tenants.js"

const TABS = [
  { name: "tenants", text: "Tenants", needs: "tenants:read", page: Tenants },
  { name: "keys", text: "Keys", needs: "keys:read", page: Keys },
  { name: "audit", text: "Audit log", needs: "audit:read", page: Audit },
  { name: "doctor", text: "Doctor", needs: "overview:read", page: Doctor },
  { name: "alerts", text: "Alerts", needs: "jobs:read", page: Alerts },
  { name: "settings", text: "Settings", needs: "overview:read", page: Settings },
  { name: "retention", text: "Retention", needs: "overview:read", page: Retention },
]

export function Operator({ tab, query }) {
  const session = useSession()
  const tabs = TABS.filter(({ needs }) => session.can(needs)).map((each) => ({ ...each, href: link(`operator/${each.name}`) }))
  const now = tab ? tabs.find(({ name }) => name === tab) : tabs[0]
  return html`
    <${Tabs} label="Operator" tabs=${tabs} current=${now?.name} />
    ${now ? html`<${now.page} query=${query} />` : html`<${EmptyState} title="Access denied">Your role cannot view this page. Log in with another key or ask an operator.<//>`}`
}

// Alerts and their notifications.

const TYPES = ["stale_job_recovered", "job_max_retries_exceeded", "job_failed_pattern", "queue_stuck", "trigger_error", "horizon_pinned", "worker_startup", "worker_shutdown"]

function Alerts({ query }) {
  const session = useSession()
  const alerts = usePages("/alerts", { type: query.type, limit: 50 }, { every: 15_000 })
  return html`
    <div class="bar">
      <label class="query"><span class="hidden">Type</span><select value=${query.type ?? ""} onChange=${(event) => setQuery({ type: event.target.value || null }, { replace: true })}>
        <option value="">All types</option>${TYPES.map((type) => html`<option key=${type} value=${type}>${humanize(type)}</option>`)}</select></label>
    </div>
    <${AsyncContent} request=${alerts} lines=${6}>${(list) => list.length
      ? html`<${Table} label="Alerts" rows=${list} rowKey=${({ id }) => id} columns=${columns(session)} /><${LoadMore} pages=${alerts} />`
      : html`<${EmptyState} icon="check" title="No alerts" command="export POSTHOUSE_ALERT_WEBHOOK_URL=https://hooks.slack.com/…">Dead letters, stuck queues and failing triggers appear here. Set a webhook to be notified.<//>`}<//>`
}

const columns = (session) => [
  { name: "at", text: "Time", cell: ({ at }) => html`<${Time} at=${at} />` },
  { name: "type", text: "Type", cell: ({ type, severity }) => html`<${Tag} tone=${severity}>${humanize(type)}<//>` },
  session.operator && { name: "tenant", text: "Tenant", cell: ({ tenant_id: tenant }) => tenant ?? html`<span class="faint">–</span>` },
  { name: "message", text: "Message", wide: true, cell: ({ message, details }) => html`<${Message} message=${message} details=${details} />` },
  { name: "posted", text: "Notified", cell: (alert) => html`<${Posted} alert=${alert} />` },
].filter(Boolean)

const Message = ({ message, details }) => (Object.keys(details ?? {}).length
  ? html`<details class="alert-text"><summary title=${message}>${message}</summary><${Json} value=${details} label="alert details" copy=${false} /></details>`
  : html`<span title=${message}>${message}</span>`)

function Posted({ alert }) {
  const states = alert.deliveries.map((each) => `${each.destination}: ${humanize(each.state)}${each.error ? ` (${each.error})` : ""}`).join(", ")
  if (alert.posted_at) return html`<span title=${states}><${Time} at=${alert.posted_at} />${alert.suppressed_count > 0 && html` <small>and ${alert.suppressed_count} similar</small>`}</span>`
  return html`<span class="faint">${humanize(alert.state)}</span>`
}

// Health checks of the database and the queues: finding, meaning and advice.

const SEVERITY = {
  ok: ["good", "check", "Healthy", "All checks of the database and the queues passed."],
  warning: ["warn", "alert", "Warnings", "Jobs are running. These warnings need attention."],
  critical: ["bad", "alert", "Critical", "Jobs are delayed or at risk. Fix the critical findings first."],
}
const TONES = { ok: "good", warning: "warn", error: "bad" }
const MAX_ROWS = 20

function Doctor() {
  const doctor = useApi("/admin/doctor", {}, { every: 30_000 })
  const [busy, setBusy] = useState(false)
  const again = async () => {
    setBusy(true)
    await doctor.reload()
    setBusy(false)
  }
  return html`
    <${AsyncContent} request=${doctor} lines=${8}>${({ status, findings }) => {
      const [tone, icon, title, text] = SEVERITY[status] ?? SEVERITY.warning
      const problems = findings.filter(({ severity }) => severity !== "ok").sort((one) => (one.severity === "error" ? -1 : 1))
      const passed = findings.filter(({ severity }) => severity === "ok")
      return html`
        <div class="banner" data-tone=${tone} role="status"><${Icon} name=${icon} /><div class="grow"><h2>${title}</h2><p>${text}</p></div>
          <${Button} icon="retry" busy=${busy} onClick=${again}>Run checks again<//></div>
        ${problems.map((finding) => html`<${Finding} key=${finding.check + finding.summary} finding=${finding} />`)}
        <${Card}><details class="more" open=${problems.length === 0}><summary>${plural(passed.length, "passed check")}</summary><div>
          <ul class="lines healthy">${passed.map((finding) => html`<li key=${finding.check + finding.summary} data-tone="good"><${Icon} name="check" /><div><span>${finding.summary}</span><small>${humanize(finding.check)}</small></div></li>`)}</ul>
        </div></details><//>`
    }}<//>`
}

const Finding = ({ finding }) => html`
  <${Card} class="finding" data-tone=${TONES[finding.severity]}>
    <div class="bar"><${Tag} tone=${TONES[finding.severity]}>${finding.severity}<//><span class="faint">${humanize(finding.check)}</span></div>
    <h2>${finding.summary}</h2>
    ${finding.meaning && html`<p>${finding.meaning}</p>`}
    ${finding.advice && html`<p class="advice"><${Icon} name="right" /><span>${finding.advice}</span></p>`}
    ${finding.evidence.length > 0 && html`<details class="more"><summary>${plural(finding.evidence.length, "row")} of evidence</summary><div><${Evidence} rows=${finding.evidence} /></div></details>`}
  <//>`

function Evidence({ rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value))
  const columns = names.map((name) => ({ name, text: humanize(name), align: typeof rows[0][name] === "number" ? "right" : undefined, cell: (row) => html`<span class="evidence">${shown(row[name])}</span>` }))
  return html`<${Table} label="Evidence" rows=${rows.slice(0, MAX_ROWS)} rowKey=${(row) => rows.indexOf(row)} columns=${columns} />
    ${rows.length > MAX_ROWS && html`<small>${rows.length - MAX_ROWS} more rows: run posthouse doctor --json.</small>`}`
}

// Settings in effect, and retention.

const SOURCES = { default: undefined, file: "accent", environment: "accent", flag: "accent" }
const ORIGIN = { default: "default", file: "posthouse.toml", environment: "environment", flag: "flag or code" }

function Settings({ query }) {
  const settings = useApi("/admin/settings")
  const wanted = (query.q ?? "").toLowerCase()
  const fits = (each) => (!query.set || each.source !== "default") && `${each.name} ${each.help}`.toLowerCase().includes(wanted)
  return html`
    <div class="bar">
      <${QueryField} filter name="q" label="Search settings" value=${query.q} />
      <div class="switch" role="group" aria-label="Settings shown" data-stay>${[[null, "All"], [1, "Changed"]].map(([set, text]) => html`
        <a key=${text} role="button" aria-pressed=${String(query.set ?? "") === String(set ?? "")} href=${link("operator/settings", { ...query, set })}>${text}</a>`)}</div>
    </div>
    <${AsyncContent} request=${settings} lines=${12}>${(list) => {
      const shown = list.filter(fits)
      return shown.length ? html`<${Table} label="Settings in effect" rows=${shown} rowKey=${({ name }) => name} columns=${SETTING} />` : html`<${EmptyState} title="No matching settings">No ${query.set ? "changed " : ""}setting has this text in its name or description.<//>`
    }}<//>`
}

const SETTING = [
  { name: "name", text: "Setting", cell: ({ name, variable }) => html`<span><b>${name}</b> <${CopyButton} text=${variable} label=${`Copy ${variable}`} /></span>` },
  { name: "value", text: "Value", cell: ({ value, secret }) => html`<span><code class="value">${valueOf(value)}</code>${secret && html` <${Tag}>secret<//>`}</span>` },
  { name: "source", text: "Source", cell: ({ source }) => (source === "default" ? html`<span class="faint">${ORIGIN[source]}</span>` : html`<${Tag} tone=${SOURCES[source]}>${ORIGIN[source] ?? source}<//>`) },
  { name: "help", text: "Description", wide: true, cell: ({ help }) => html`<span class="help">${help}</span>` },
]

const valueOf = (value) => (value === "" || value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value))

function Retention() {
  const kept = useApi("/admin/retention", {}, { every: 60_000 })
  return html`
    <${AsyncContent} request=${kept} lines=${10}>${({ tables, tenants, due }) => html`
      <${Table} label="Retention" rows=${tables} rowKey=${({ relation }) => relation} columns=${RETENTION_COLUMNS} />
      <div class="grid-2">
        <${Card} title="Deleted by the next clean-up">${due.length ? html`<ul class="lines">${due.map((each) => html`<li key=${each.name + each.action}><div><b>${each.action} ${each.name}</b><small>${[each.rows && plural(each.rows, "row"), each.bytes && bytes(each.bytes), each.ends_at && `up to ${formatDateTime(each.ends_at)}`, each.tenants.length && each.tenants.join(", ")].filter(Boolean).join(" · ")}</small></div></li>`)}</ul>`
          : html`<${EmptyState} icon="check" title="Nothing to delete" command="posthouse retention --run">The keeper cleans up every 10 minutes. To run it now:<//>`}<//>
        <${Card} title="Tenants with custom retention" aside=${html`<a href=${link("operator/tenants")}>Tenants</a>`}>${tenants.length
          ? tenants.map((each) => html`<div key=${each.id} class="line"><b class="grow">${each.id}</b><span class="figure">${plural(each.retention_days, "day")}</span></div>`)
          : html`<p class="faint">All tenants use the default retention. Edit a tenant to set a custom one.</p>`}<//>
      </div>`}<//>`
}

const RETENTION_COLUMNS = [
  { name: "category", text: "Data", cell: ({ category, relation }) => html`<span><b>${humanize(category)}</b> <small>${relation}</small></span>` },
  { name: "days", text: "Retention", align: "right", cell: ({ days }) => duration(days * 86_400) },
  { name: "rows", text: "Rows", align: "right", cell: ({ rows }) => formatInteger(rows) },
  { name: "bytes", text: "Size", align: "right", cell: (table) => bytes(table.bytes) },
  { name: "partitions", text: "Partitions", align: "right", cell: ({ partitions, partition_interval: interval }) => html`<span>${formatInteger(partitions)} <small>by ${interval}</small></span>` },
  { name: "oldest", text: "Oldest", align: "right", cell: ({ oldest }) => (oldest ? dayOf(oldest) : "–") },
  { name: "next", text: "Next deletion", align: "right", cell: ({ next_deletion_at: at }) => html`<${Time} at=${at} />` },
]

// Audit log: actor, action, target, and the state before and after.

const ACTIONS = ["definition", "job", "key", "limit", "queue", "retention", "tenant", "trigger", "event", "worker"]
const NAMES = ["actor", "action", "target"]

function Audit({ query }) {
  const session = useSession()
  const chosen = Object.fromEntries(NAMES.map((name) => [name, query[name]]))
  const filtered = NAMES.some((name) => query[name])
  const entries = usePages("/admin/audit", { ...chosen, limit: 50 }, { every: 15_000 })
  return html`
    <div class="bar" role="search">
      <${QueryField} filter name="actor" label="Actor" value=${query.actor} />
      <${QueryField} name="action" label="Action, e.g. trigger" value=${query.action} options=${ACTIONS} />
      <${QueryField} name="target" label="Target" value=${query.target} />
      ${filtered && html`<${Button} plain small icon="close" onClick=${() => setQuery({ actor: null, action: null, target: null })}>Clear filters<//>`}
    </div>
    <${AsyncContent} request=${entries} lines=${10}>${(list) => list.length
      ? html`<ul class="audit" aria-label="Audit log">${list.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} session=${session} />`)}</ul><${LoadMore} pages=${entries} />`
      : html`<${EmptyState} title=${filtered ? "No matching entries" : "No entries yet"}>${filtered ? "Actors and targets must match exactly; an action also matches by its first part." : "Every change made by a user or an API client is recorded here."}<//>`}<//>`
}

function Entry({ entry, session }) {
  const [open, setOpen] = useState(false)
  const changed = differences(entry.before, entry.after)
  const choose = (name) => () => setQuery({ [name]: entry[name] })
  return html`
    <li><div class="entry">
      <span class="when"><${Time} at=${entry.at} /></span>
      <button type="button" class="name actor" title="Filter by actor" onClick=${choose("actor")}>${entry.actor}</button>
      <button type="button" class="name" title="Filter by action" onClick=${choose("action")}><${Tag} tone=${toneOf(entry.action)}>${entry.action}<//></button>
      <button type="button" class="name what" title=${`Filter by target: ${entry.target}`} onClick=${choose("target")}><b>${labelOf(entry) ?? entry.target}</b>${labelOf(entry) && html` <small class="id">${shortId(entry.target)}</small>`}${session.operator && entry.tenant_id && html` <small>${entry.tenant_id}</small>`}</button>
      ${changed.length > 0 ? html`<${Button} plain small icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${() => setOpen(!open)}>${plural(changed.length, "field")}<//>` : html`<span></span>`}
    </div>${open && html`<${Diff} changed=${changed} />`}</li>`
}

/** The label of a target that is only an id. */
const labelOf = ({ target, before, after }) => (/^[0-9a-f-]{36}$/.test(target) && (after?.label || before?.label)) || null

const toneOf = (action) => (/delete|remove|revoke|cancel|deactivate/.test(action) ? "bad" : /create|activate|enable|resume/.test(action) ? "good" : undefined)

/** [[name, before, after]] of the fields that differ; undefined where a field is missing. */
function differences(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  return names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name])).map((name) => [name, before?.[name], after?.[name]])
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 1 : 0))

const Diff = ({ changed }) => html`
  <dl class="diff">${changed.map(([name, before, after]) => html`
    <div key=${name}><dt>${name.replaceAll("_", " ")}</dt>
      <dd>${before !== undefined && before !== null && html`<del>${written(before)}</del>`}${after !== undefined && after !== null && html`<ins>${written(after)}</ins>`}
        ${(after === undefined || after === null) && (before === undefined || before === null) && html`<span class="faint">(empty)</span>`}</dd></div>`)}
  </dl>`
