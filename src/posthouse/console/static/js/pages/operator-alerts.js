// Alerts and their notifications.
import { html } from "../lib.js"
import { words } from "../format.js"
import { setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Empty, Loaded, Tag, Time } from "../ui/basics.js"
import { Json } from "../ui/json.js"
import { More, usePaged } from "../ui/paged.js"
import { Table } from "../ui/table.js"

const TYPES = ["stale_job_recovered", "job_max_retries_exceeded", "job_failed_pattern", "queue_stuck", "trigger_error", "horizon_pinned", "worker_startup", "worker_shutdown"]

export function Alerts({ query }) {
  const session = useSession()
  const alerts = usePaged("/alerts", { type: query.type, limit: 50 }, { every: 15_000 })
  return html`
    <div class="bar">
      <label class="query"><span class="hidden">Type</span><select value=${query.type ?? ""} onChange=${(event) => setQuery({ type: event.target.value || null }, { replace: true })}>
        <option value="">All types</option>${TYPES.map((type) => html`<option key=${type} value=${type}>${words(type)}</option>`)}</select></label>
    </div>
    <${Loaded} from=${alerts} lines=${6}>${(list) => list.length
      ? html`<${Table} label="Alerts" rows=${list} rowKey=${({ id }) => id} columns=${columns(session)} /><${More} from=${alerts} />`
      : html`<${Empty} icon="check" title="No alerts" command="export POSTHOUSE_ALERT_WEBHOOK_URL=https://hooks.slack.com/…">Dead letters, stuck queues and failing triggers appear here. Set a webhook to be notified.<//>`}<//>`
}

const columns = (session) => [
  { name: "at", text: "Time", cell: ({ at }) => html`<${Time} at=${at} />` },
  { name: "type", text: "Type", cell: ({ type, severity }) => html`<${Tag} tone=${severity}>${words(type)}<//>` },
  session.operator && { name: "tenant", text: "Tenant", cell: ({ tenant_id: tenant }) => tenant ?? html`<span class="faint">–</span>` },
  { name: "message", text: "Message", wide: true, cell: ({ message, details }) => html`<${Message} message=${message} details=${details} />` },
  { name: "told", text: "Notified", cell: (alert) => html`<${Told} alert=${alert} />` },
].filter(Boolean)

const Message = ({ message, details }) => (Object.keys(details ?? {}).length
  ? html`<details class="alert-text"><summary title=${message}>${message}</summary><${Json} value=${details} label="alert details" copy=${false} /></details>`
  : html`<span title=${message}>${message}</span>`)

function Told({ alert }) {
  const states = alert.deliveries.map((each) => `${each.destination}: ${words(each.state)}${each.error ? ` (${each.error})` : ""}`).join(", ")
  if (alert.told_at) return html`<span title=${states}><${Time} at=${alert.told_at} />${alert.held_back > 0 && html` <small>and ${alert.held_back} similar</small>`}</span>`
  return html`<span class="faint">${words(alert.state)}</span>`
}
