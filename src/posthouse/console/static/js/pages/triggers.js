// Triggers: schedules, event triggers and recent events.
import { duration } from "../format.js"
import { html } from "../lib.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Empty, Loaded, Tabs, Tag, Time } from "../ui/basics.js"
import { Icon } from "../ui/icons.js"
import { More, usePaged } from "../ui/paged.js"
import { Table } from "../ui/table.js"
import { TriggerEvents } from "./trigger-events.js"
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
    <div class="bar tab-bar"><div class="grow"><${Tabs} label="Triggers" tabs=${tabs} now=${now.name} /></div>
      ${now.type && session.can("triggers:write") && html`<a class="button" href=${link("triggers/new", { type: now.type })}><${Icon} name="plus" />New ${now.type === "schedule" ? "schedule" : "trigger"}</a>`}</div>
    ${now.type ? html`<${TriggerList} key=${now.type} type=${now.type} session=${session} />` : html`<${TriggerEvents} query=${query} />`}`
}

function TriggerList({ type, session }) {
  const triggers = usePaged("/jobs/triggers", { trigger_type: type, limit: 100 }, { every: 10_000 })
  return html`
    <${Loaded} from=${triggers} lines=${6}>${(list) => list.length
      ? html`<${Table} label=${type === "schedule" ? "Schedules" : "Event triggers"} rows=${list} rowKey=${(trigger) => trigger.id} columns=${columns(type, session, triggers.reload)} rowClass=${(trigger) => !trigger.is_enabled && "over"} />
        <${More} from=${triggers} />`
      : html`<${NoTriggers} type=${type} />`}<//>`
}

const NoTriggers = ({ type }) => (type === "schedule"
  ? html`<${Empty} icon="clock" title="No schedules yet" command="posthouse triggers create --cron '0 9 * * MON-FRI' --zone Europe/Paris --kind report">A schedule creates a job at set times: every night, each working day at nine, every five minutes. To create one:<//>`
  : html`<${Empty} icon="bolt" title="No event triggers yet" command="posthouse triggers create --on order.paid --kind send_invoice">An event trigger creates a job when your application emits an event. To create one:<//>`)

const columns = (type, session, reload) => [
  { name: "label", text: "Trigger", cell: (trigger) => html`<span><a href=${link(`triggers/${trigger.id}`)}><b>${nameOf(trigger)}</b></a> ${trigger.origin === "code" && html`<${FromCode} />`}</span>` },
  session.operator && !session.tenant && { name: "tenant", text: "Tenant", cell: ({ tenant_id: tenant }) => tenant },
  { name: "when", text: type === "schedule" ? "Schedule" : "Event", wide: type === "schedule", cell: (trigger) => (type === "schedule" ? html`<span title=${trigger.cron_expr}>${trigger.words}</span>` : html`<code>${trigger.event_name}</code>`) },
  { name: "kind", text: "Job kind", cell: ({ definition_key: key }) => key },
  type === "schedule" && { name: "next", text: "Next run", cell: ({ is_enabled: enabled, next_at: at, timezone }) => (enabled ? html`<${Time} at=${at} none="soon" />${at && html` <small>${clockOf(at, timezone)}</small>`}` : html`<span class="faint">paused</span>`) },
  type === "event" && { name: "window", text: "Dedupe window", align: "right", cell: ({ dedupe_window_seconds: seconds }) => (seconds ? duration(seconds) : html`<span class="faint">none</span>`) },
  { name: "last", text: "Last outcome", wide: type === "event", cell: (trigger) => html`<${LastOutcome} trigger=${trigger} />` },
  { name: "on", text: "Enabled", align: "right", cell: (trigger) => (session.can("triggers:write")
    ? html`<${Switch} on=${trigger.is_enabled} label=${`${nameOf(trigger)} is ${trigger.is_enabled ? "enabled" : "paused"}`} change=${(on) => setEnabled(trigger, on, reload)} />`
    : html`<${Tag} tone=${trigger.is_enabled ? "good" : undefined}>${trigger.is_enabled ? "enabled" : "paused"}<//>`) },
].filter(Boolean)

const LastOutcome = ({ trigger }) => (trigger.last_error
  ? html`<span class="bad" title=${trigger.last_error}><${Tag} tone="bad">error<//> <${Time} at=${trigger.last_error_at} /></span>`
  : trigger.last_fired_at ? html`<span><${Tag} tone="good">fired<//> <${Time} at=${trigger.last_fired_at} /></span>` : html`<span class="faint">never fired</span>`)

// Toggle that takes effect immediately.

const Switch = ({ on, label, change, disabled }) => html`
  <button type="button" class="toggle" role="switch" aria-checked=${on ? "true" : "false"} aria-label=${label} title=${label} disabled=${disabled} onClick=${() => change(!on)}><i></i></button>`
