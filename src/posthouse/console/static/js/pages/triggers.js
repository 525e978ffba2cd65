// Triggers: schedules, event triggers and recent events.
import { api, useApi } from "../api.js"
import { Dialog } from "../components/dialog.js"
import { AsyncContent, Button, CopyButton, DescriptionList, EmptyState, JobLink, Json, Table, Tabs, Tag, Time } from "../components/display.js"
import { JsonField, QueryField, TextField } from "../components/forms.js"
import { Icon } from "../components/icons.js"
import { LoadMore, usePages } from "../components/paged.js"
import { runWithToast, toast } from "../components/toast.js"
import { duration, plural, shortId } from "../format.js"
import { html, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { NewTrigger } from "./trigger-form.js"
import { clockOf, FromCode, nameOf, setEnabled } from "./trigger-parts.js"
import { TriggerPage } from "./trigger.js"

const TABS = [
  { name: "schedules", text: "Schedules", type: "schedule" },
  { name: "events", text: "Event triggers", type: "event" },
  { name: "recent", text: "Recent events", needs: "events:read" },
]

export function Triggers({ id, query }) {
  if (id === "new") return html`<${NewTrigger} query=${query} />`
  if (id) return html`<${TriggerPage} key=${id} id=${id} query=${query} />`
  return html`<${TriggerLists} query=${query} />`
}

function TriggerLists({ query }) {
  const session = useSession()
  const tabs = TABS.filter(({ needs }) => !needs || session.can(needs)).map((each) => ({ ...each, href: link("triggers", { tab: each.name === "schedules" ? null : each.name }) }))
  const now = tabs.find(({ name }) => name === query.tab) ?? tabs[0]
  return html`
    <div class="bar tab-bar"><div class="grow"><${Tabs} label="Triggers" tabs=${tabs} current=${now.name} /></div>
      ${now.type && session.can("triggers:write") && html`<a class="button" href=${link("triggers/new", { type: now.type })}><${Icon} name="plus" />New ${now.type === "schedule" ? "schedule" : "trigger"}</a>`}</div>
    ${now.type ? html`<${TriggerList} key=${now.type} type=${now.type} session=${session} />` : html`<${TriggerEvents} query=${query} />`}`
}

function TriggerList({ type, session }) {
  const triggers = usePages("/jobs/triggers", { trigger_type: type, limit: 100 }, { every: 10_000 })
  return html`
    <${AsyncContent} request=${triggers} lines=${6}>${(list) => list.length
      ? html`<${Table} label=${type === "schedule" ? "Schedules" : "Event triggers"} rows=${list} rowKey=${(trigger) => trigger.id} columns=${columns(type, session, triggers.reload)} rowClass=${(trigger) => !trigger.is_enabled && "over"} />
        <${LoadMore} pages=${triggers} />`
      : html`<${NoTriggers} type=${type} />`}<//>`
}

const NoTriggers = ({ type }) => (type === "schedule"
  ? html`<${EmptyState} icon="clock" title="No schedules yet" command="posthouse triggers create --cron '0 9 * * MON-FRI' --zone Europe/Paris --kind report">A schedule creates a job at set times: every night, each working day at nine, every five minutes. To create one:<//>`
  : html`<${EmptyState} icon="bolt" title="No event triggers yet" command="posthouse triggers create --on order.paid --kind send_invoice">An event trigger creates a job when your application emits an event. To create one:<//>`)

const columns = (type, session, reload) => [
  { name: "label", text: "Trigger", cell: (trigger) => html`<span><a href=${link(`triggers/${trigger.id}`)}><b>${nameOf(trigger)}</b></a> ${trigger.origin === "code" && html`<${FromCode} />`}<small class="under">${trigger.definition_key}</small></span>` },
  session.operator && !session.tenant && { name: "tenant", text: "Tenant", cell: ({ tenant_id: tenant }) => tenant },
  { name: "when", text: type === "schedule" ? "Schedule" : "Event", wide: type === "schedule", cell: (trigger) => (type === "schedule" ? html`<span title=${trigger.cron_expr}>${trigger.description}</span>` : html`<code>${trigger.event_name}</code>`) },
  type === "schedule" && { name: "next", text: "Next run", cell: ({ is_enabled: enabled, next_at: at, timezone }) => (enabled ? html`<${Time} at=${at} placeholder="soon" />${at && html`<small class="under">${clockOf(at, timezone)}</small>`}` : html`<span class="faint">paused</span>`) },
  type === "event" && { name: "window", text: "Dedupe window", align: "right", cell: ({ dedupe_window_seconds: seconds }) => (seconds ? duration(seconds) : html`<span class="faint">none</span>`) },
  { name: "last", text: "Last outcome", wide: type === "event", cell: (trigger) => html`<${LastOutcome} trigger=${trigger} />` },
  { name: "on", text: "Enabled", align: "right", cell: (trigger) => (session.can("triggers:write")
    ? html`<${Switch} on=${trigger.is_enabled} label=${`${nameOf(trigger)} is ${trigger.is_enabled ? "enabled" : "paused"}`} onChange=${(on) => setEnabled(trigger, on, reload)} />`
    : html`<${Tag} tone=${trigger.is_enabled ? "good" : undefined}>${trigger.is_enabled ? "enabled" : "paused"}<//>`) },
].filter(Boolean)

const LastOutcome = ({ trigger }) => (trigger.last_error
  ? html`<span class="bad" title=${trigger.last_error}><${Tag} tone="bad">error<//> <${Time} at=${trigger.last_error_at} /></span>`
  : trigger.last_fired_at ? html`<span><${Tag} tone="good">fired<//> <${Time} at=${trigger.last_fired_at} /></span>` : html`<span class="faint">never fired</span>`)

// Toggle that takes effect immediately.

const Switch = ({ on, label, onChange, disabled }) => html`
  <button type="button" class="toggle" role="switch" aria-checked=${on ? "true" : "false"} aria-label=${label} title=${label} disabled=${disabled} onClick=${() => onChange(!on)}><i></i></button>`

// Recent events and the triggers that matched them.

const TONES = { fired: "good", error: "bad" }

function TriggerEvents({ query }) {
  const session = useSession()
  const [emitting, setEmitting] = useState(false)
  const events = usePages("/events", { name: query.name, limit: 50 }, { every: 5000 })
  return html`
    <div class="bar"><${QueryField} filter name="name" label="Name, e.g. order.*" value=${query.name} /><span class="grow"></span>
      ${session.can("events:emit") && html`<${Button} icon="bolt" onClick=${() => setEmitting(true)}>Emit event<//>`}</div>
    <${AsyncContent} request=${events} lines=${8}>${(list) => list.length
      ? html`<ul class="audit" aria-label="Recent events">${list.map((event) => html`<${Event} key=${event.id} event=${event} open=${query.event === event.id} session=${session} reload=${events.reload} />`)}</ul><${LoadMore} pages=${events} />`
      : html`<${EmptyState} icon="bolt" title=${query.name ? "No matching events" : "No events yet"} command=${"posthouse events emit order.paid --context '{\"id\": 7}'"}>Your application emits events; triggers turn them into jobs. To emit one:<//>`}<//>
    ${emitting && html`<${EmitDialog} session=${session} onClose=${() => setEmitting(false)} onDone=${events.reload} />`}`
}

function Event({ event, open, session, reload }) {
  return html`
    <li><div class="entry event">
      <span class="when"><${Time} at=${event.at} /></span>
      <${Button} plain small class="actor" icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${() => setQuery({ event: open ? null : event.id }, { replace: true })}><b>${event.name}</b><//>
      <span class="clip">${event.subject ?? html`<span class="faint">–</span>`}</span>
      <span class="what">${session.operator && !session.tenant && html`<small>${event.tenant_id}</small> `}<${OutcomeTags} event=${event} /></span></div>
      ${open && html`<${EventDetail} event=${event} session=${session} reload=${reload} />`}</li>`
}

const OutcomeTags = ({ event }) => (event.pending ? html`<${Tag} tone="accent">pending<//>` : html`
  ${event.fired > 0 && html`<${Tag} tone="good">${plural(event.fired, "job")}<//> `}${event.deduped > 0 && html`<${Tag}>${event.deduped} deduped<//> `}${event.errors > 0 && html`<${Tag} tone="bad">${plural(event.errors, "error")}<//>`}
  ${event.fired + event.deduped + event.errors === 0 && html`<span class="faint">no trigger matched</span>`}`)

function EventDetail({ event, session, reload }) {
  const matches = useApi(`/events/${event.id}/matches`, { seen: event.fired + event.errors + event.deduped })
  const replay = () => runWithToast(() => api.post(`/events/${event.id}/replay`).then(reload).then(matches.reload), "Event replayed")
  return html`
    <div class="expanded"><div class="grid-2">
      <div class="stack"><h3>Trigger matches</h3><${AsyncContent} request=${matches} lines=${2}>${(list) => (list.length ? html`<ul class="outcomes">${list.map((match) => html`
        <li key=${match.trigger_id + match.replay}><${Tag} tone=${TONES[match.outcome]}>${match.outcome}<//>
          <span class="grow"><a href=${link(`triggers/${match.trigger_id}`)}>${match.label ?? "deleted trigger"}</a> ${match.job_id && html`<${JobLink} id=${match.job_id} />`}${match.error && html`<small class="from bad">${match.error}</small>`}</span>
          <span class="faint">${match.replay > 0 && "replay, "}<${Time} at=${match.at} /></span></li>`)}</ul>` : html`<p class="faint">${event.pending ? "Not processed yet." : "No trigger matched."}</p>`)}<//>
        <${DescriptionList} items=${[["Id", html`<span class="id" title=${event.id}>${shortId(event.id)}</span> <${CopyButton} text=${event.id} label="Copy event id" />`], ["Correlation id", event.correlation_id], ["Emitted by", event.created_by]]} />
        ${session.can("triggers:write") && html`<div class="bar"><${Button} small icon="retry" onClick=${replay}>Replay<//><small>Matches the event against the current triggers, ignoring dedupe windows.</small></div>`}</div>
      <div class="stack"><h3>Context</h3><${Json} value=${event.context} label="context" /></div>
    </div></div>`
}

function EmitDialog({ session, onClose, onDone }) {
  const [fields, setFields] = useState({ event_name: "", subject: "", context: {} })
  const set = (name) => (value) => setFields({ ...fields, [name]: value })
  const emit = async () => {
    await api.post("/events", { event_name: fields.event_name.trim(), context: fields.context, subject: fields.subject || null }, { query: session.operator ? { tenant: session.tenant ?? "default" } : {} })
    toast(`Event ${fields.event_name.trim()} emitted`)
    onDone()
  }
  return html`
    <${Dialog} title="Emit event" onClose=${onClose} onSubmit=${emit} submitText="Emit" disabled=${!fields.event_name.trim() || fields.context === null}>
      <${TextField} label="Name" value=${fields.event_name} onChange=${set("event_name")} autofocus placeholder="order.paid" hint=${session.operator && !session.tenant ? "Emitted for the tenant “default”; select another tenant at the top of the page." : "Without spaces."} />
      <${JsonField} label="Context" value=${fields.context} rows=${5} onChange=${(context, broken) => set("context")(broken ? null : context ?? {})} hint="A JSON object. Payload templates take values from it." />
      <${TextField} label="Subject" value=${fields.subject} onChange=${set("subject")} hint="The object the event is about. Its jobs inherit it." />
    <//>`
}
