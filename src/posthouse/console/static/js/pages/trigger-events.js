// Recent events and the triggers that matched them.
import { api, useApi } from "../api.js"
import { plural, shortId } from "../format.js"
import { html, useState } from "../lib.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Button, Copy, Empty, Facts, JobLink, Loaded, Tag, Time } from "../ui/basics.js"
import { Dialog } from "../ui/dialog.js"
import { QueryField, TextField } from "../ui/fields.js"
import { Json } from "../ui/json.js"
import { More, usePaged } from "../ui/paged.js"
import { JsonField } from "../ui/schema-form.js"
import { attempt, toast } from "../ui/toast.js"

const TONES = { fired: "good", error: "bad" }

export function TriggerEvents({ query }) {
  const session = useSession()
  const [emitting, setEmitting] = useState(false)
  const events = usePaged("/events", { name: query.name, limit: 50 }, { every: 5000 })
  return html`
    <div class="bar"><${QueryField} filter name="name" label="Name, e.g. order.*" value=${query.name} /><span class="grow"></span>
      ${session.can("events:emit") && html`<${Button} icon="bolt" onClick=${() => setEmitting(true)}>Emit event<//>`}</div>
    <${Loaded} from=${events} lines=${8}>${(list) => list.length
      ? html`<ul class="audit" aria-label="Recent events">${list.map((event) => html`<${Event} key=${event.id} event=${event} open=${query.event === event.id} session=${session} reload=${events.reload} />`)}</ul><${More} from=${events} />`
      : html`<${Empty} icon="bolt" title=${query.name ? "No matching events" : "No events yet"} command=${"posthouse events emit order.paid --context '{\"id\": 7}'"}>Your application emits events; triggers turn them into jobs. To emit one:<//>`}<//>
    ${emitting && html`<${EmitDialog} session=${session} close=${() => setEmitting(false)} done=${events.reload} />`}`
}

function Event({ event, open, session, reload }) {
  return html`
    <li><div class="entry event">
      <span class="when"><${Time} at=${event.at} /></span>
      <${Button} plain small class="actor" icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${() => setQuery({ event: open ? null : event.id }, { replace: true })}><b>${event.name}</b><//>
      <span class="clip">${event.subject ?? html`<span class="faint">–</span>`}</span>
      <span class="what">${session.operator && !session.tenant && html`<small>${event.tenant_id}</small> `}<${Counts} event=${event} /></span></div>
      ${open && html`<${Opened} event=${event} session=${session} reload=${reload} />`}</li>`
}

const Counts = ({ event }) => (event.pending ? html`<${Tag} tone="accent">pending<//>` : html`
  ${event.fired > 0 && html`<${Tag} tone="good">${plural(event.fired, "job")}<//> `}${event.deduped > 0 && html`<${Tag}>${event.deduped} deduped<//> `}${event.errors > 0 && html`<${Tag} tone="bad">${plural(event.errors, "error")}<//>`}
  ${event.fired + event.deduped + event.errors === 0 && html`<span class="faint">no trigger matched</span>`}`)

function Opened({ event, session, reload }) {
  const matches = useApi(`/events/${event.id}/matches`, { seen: event.fired + event.errors + event.deduped })
  const replay = () => attempt(() => api.post(`/events/${event.id}/replay`).then(reload).then(matches.reload), "Event replayed")
  return html`
    <div class="opened"><div class="grid-2">
      <div class="stack"><h3>Trigger matches</h3><${Loaded} from=${matches} lines=${2}>${(list) => (list.length ? html`<ul class="outcomes">${list.map((match) => html`
        <li key=${match.trigger_id + match.replay}><${Tag} tone=${TONES[match.outcome]}>${match.outcome}<//>
          <span class="grow"><a href=${link(`triggers/${match.trigger_id}`)}>${match.label ?? "deleted trigger"}</a> ${match.job_id && html`<${JobLink} id=${match.job_id} />`}${match.error && html`<small class="from bad">${match.error}</small>`}</span>
          <span class="faint">${match.replay > 0 && "replay, "}<${Time} at=${match.at} /></span></li>`)}</ul>` : html`<p class="faint">${event.pending ? "Not processed yet." : "No trigger matched."}</p>`)}<//>
        <${Facts} facts=${[["Id", html`<span class="id" title=${event.id}>${shortId(event.id)}</span> <${Copy} text=${event.id} label="Copy event id" />`], ["Correlation id", event.correlation_id], ["Emitted by", event.created_by]]} />
        ${session.can("triggers:write") && html`<div class="bar"><${Button} small icon="retry" onClick=${replay}>Replay<//><small>Matches the event against the current triggers, ignoring dedupe windows.</small></div>`}</div>
      <div class="stack"><h3>Context</h3><${Json} value=${event.context} label="context" /></div>
    </div></div>`
}

function EmitDialog({ session, close, done }) {
  const [fields, setFields] = useState({ event_name: "", subject: "", context: {} })
  const set = (name) => (value) => setFields({ ...fields, [name]: value })
  const emit = async () => {
    await api.post("/events", { event_name: fields.event_name.trim(), context: fields.context, subject: fields.subject || null }, { query: session.operator ? { tenant: session.tenant ?? "default" } : {} })
    toast(`Event ${fields.event_name.trim()} emitted`)
    done()
  }
  return html`
    <${Dialog} title="Emit event" close=${close} act=${emit} actText="Emit" disabled=${!fields.event_name.trim() || fields.context === null}>
      <${TextField} label="Name" value=${fields.event_name} change=${set("event_name")} autofocus placeholder="order.paid" hint=${session.operator && !session.tenant ? "Emitted for the tenant “default”; select another tenant at the top of the page." : "Without spaces."} />
      <${JsonField} label="Context" value=${fields.context} rows=${5} change=${(context, broken) => set("context")(broken ? null : context ?? {})} hint="A JSON object. Payload templates take values from it." />
      <${TextField} label="Subject" value=${fields.subject} change=${set("subject")} hint="The object the event is about. Its jobs inherit it." />
    <//>`
}
