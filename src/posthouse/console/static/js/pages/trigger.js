// Trigger page: recent runs, next runs, configuration, actions and manual runs.
import { api, useApi, usePreview } from "../api.js"
import { Confirm, Dialog } from "../components/dialog.js"
import { AsyncContent, BackLink, Button, Card, DescriptionList, Elapsed, EmptyState, JobLink, Json, Status, Tag, Time } from "../components/display.js"
import { Icon } from "../components/icons.js"
import { LoadMore, usePages } from "../components/paged.js"
import { FieldErrors } from "../components/template-field.js"
import { toast } from "../components/toast.js"
import { duration, priorityName } from "../format.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"
import { useEventStream } from "../stream.js"
import { EditTrigger } from "./trigger-form.js"
import { FOLD, FromCode, GAP, inWords, LATEST, MISSED, nameOf, OVERLAP, Runs, sampleBody, SampleChoice, setEnabled } from "./trigger-parts.js"

export function TriggerPage({ id, query }) {
  const trigger = useApi(`/jobs/triggers/${id}`, {}, { every: query.edit ? 0 : 10_000 })
  return html`<${AsyncContent} request=${trigger} lines=${10}>${(found) => (query.edit
    ? html`<${EditTrigger} trigger=${found} onDone=${trigger.setData} />`
    : html`<${TriggerDetails} trigger=${found} reload=${trigger.reload} />`)}<//>`
}

function TriggerDetails({ trigger, reload }) {
  const outcomes = usePages(`/jobs/triggers/${trigger.id}/outcomes`, { limit: 20 }, { every: 5000 })
  const scheduled = trigger.trigger_type === "schedule"
  return html`
    <${Head} trigger=${trigger} reload=${reload} onFired=${outcomes.reload} />
    ${trigger.last_error && html`<div class="failure" role="alert"><${Icon} name="alert" /><div><b>${trigger.last_error}</b><p>Creating the job failed <${Time} at=${trigger.last_error_at} />. The trigger tries again ${scheduled ? "at the next scheduled time" : "with the next event"}.</p></div></div>`}
    <div class="grid-2 unequal">
      <${Card} title="Recent runs"><${Outcomes} trigger=${trigger} outcomes=${outcomes} /><//>
      <div class="stack">
        ${scheduled && html`<${Card} title="Next runs"><${NextRuns} trigger=${trigger} /><//>`}
        <${Card} title="Configuration"><${Configuration} trigger=${trigger} /><//>
      </div>
    </div>`
}

function Head({ trigger, reload, onFired }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const writes = session.can("triggers:write")
  const remove = async () => {
    await api.delete(`/jobs/triggers/${trigger.id}`)
    toast(`Trigger “${nameOf(trigger)}” deleted; its jobs are kept`)
    navigate(link("triggers", { tab: trigger.trigger_type === "event" ? "events" : null }))
  }
  return html`
    <div class="head">
      <div class="grow"><${BackLink} href=${link("triggers", { tab: trigger.trigger_type === "event" ? "events" : null })}>${trigger.trigger_type === "event" ? "Event triggers" : "Schedules"}<//>
        <h2>${nameOf(trigger)} ${!trigger.is_enabled && html`<${Tag} tone="warn">paused<//>`} ${trigger.origin === "code" && html`<${FromCode} />`}</h2>
        <p class="faint">${trigger.description} ${trigger.cron_expr && html`<code>${trigger.cron_expr}</code>`}</p></div>
      ${writes && html`<div class="bar">
        <${Button} icon=${trigger.is_enabled ? "pause" : "play"} onClick=${() => setEnabled(trigger, !trigger.is_enabled, reload)}>${trigger.is_enabled ? "Pause" : "Resume"}<//>
        <${Button} icon="bolt" onClick=${() => setAsked("fire")}>Fire now<//>
        <a class="button" href=${link(`triggers/${trigger.id}`, { edit: 1 })}><${Icon} name="edit" />Edit</a>
        ${trigger.origin !== "code" && html`<${Button} plain icon="trash" label="Delete" onClick=${() => setAsked("delete")} />`}
      </div>`}
    </div>
    ${writes && trigger.origin === "code" && html`<p class="note"><${Icon} name="info" /><span>This trigger is defined in code as <code>${trigger.name}</code>. Changes made here last until the definition in code changes. To delete it, remove it from the code or pause it; otherwise the next worker recreates it.</span></p>`}
    ${asked === "fire" && html`<${FireDialog} trigger=${trigger} onClose=${() => setAsked(null)} onDone=${onFired} />`}
    ${asked === "delete" && html`<${Confirm} title=${`Delete “${nameOf(trigger)}”?`} danger submitText="Delete" onClose=${() => setAsked(null)} onSubmit=${remove}>The trigger creates no more jobs. Its existing jobs are kept.<//>`}`
}

function NextRuns({ trigger }) {
  const runs = useApi(`/jobs/triggers/${trigger.id}/next`, { count: 6, of: trigger.next_at })
  if (!trigger.is_enabled) return html`<p class="faint">Paused. When resumed, it continues with the next scheduled time; missed runs are not made up.</p>`
  return html`<${AsyncContent} request=${runs} lines=${6}>${(list) => html`<${Runs} runs=${list} zone=${trigger.timezone} />`}<//>`
}

const TONES = { fired: "good", deduped: undefined, overlap: "warn", missed: "warn", error: "bad" }
const SKIP_REASONS = { deduped: "A job with this payload was created within the dedupe window", overlap: "The previous job was still active", missed: "Not created in time" }

function Outcomes({ trigger, outcomes }) {
  useEventStream({ event: "job", kind: trigger.definition_key }, ({ job }) => {
    const newest = new Map(job.map((each) => [each.id, each]))
    const merged = (each) => (newest.has(each.job_id) ? { ...each, job_status: newest.get(each.job_id).status, job_started_at: newest.get(each.job_id).started_at ?? each.job_started_at, job_finished_at: newest.get(each.job_id).finished_at ?? each.job_finished_at } : each)
    outcomes.setData((previous) => previous && { ...previous, items: previous.items.map(merged) })
  })
  return html`<${AsyncContent} request=${outcomes} lines=${8}>${(list) => list.length
    ? html`<ul class="outcomes" aria-label="Recent runs">${list.map((each) => html`<${Outcome} key=${(each.event_id ?? each.nominal_at) + each.replay + each.at} outcome=${each} />`)}</ul><${LoadMore} pages=${outcomes} />`
    : html`<${EmptyState} icon="clock" title="No runs yet">${trigger.trigger_type === "schedule" ? "Runs appear here. Use “Fire now” to create a job immediately." : html`Jobs created from <code>${trigger.event_name}</code> events appear here. Use “Fire now” to create one from a custom event.`}<//>`}<//>`
}

const Outcome = ({ outcome }) => html`
  <li>
    <${Tag} tone=${TONES[outcome.outcome]}>${outcome.outcome}<//>
    <span class="grow">${outcome.job_id ? html`<${JobLink} id=${outcome.job_id} /> ${outcome.job_status ? html`<${Status} status=${outcome.job_status} />` : html`<span class="faint">deleted by retention</span>`}` : html`<span class="faint">${outcome.reason ?? SKIP_REASONS[outcome.outcome]}</span>`}
      ${outcome.job_started_at && html` <small><${Elapsed} from=${outcome.job_started_at} to=${outcome.job_finished_at ?? (outcome.job_status === "running" ? null : outcome.job_started_at)} /></small>`}
      ${outcome.event_name && html`<small class="from">${outcome.event_name}${outcome.replay > 0 && ", replayed"}</small>`}
      ${outcome.missed_until && html`<small class="from">and all runs up to <${Time} at=${outcome.missed_until} /></small>`}</span>
    <span class="faint"><${Time} at=${outcome.nominal_at ?? outcome.at} /></span>
  </li>`

function Configuration({ trigger }) {
  const session = useSession()
  const scheduled = trigger.trigger_type === "schedule"
  return html`
    <${DescriptionList} items=${[
      ["Job kind", html`<a href=${link(`definitions/${encodeURIComponent(trigger.definition_key)}`)}>${trigger.definition_key}</a>`],
      ["Queue", trigger.queue], ["Priority", trigger.priority !== null && priorityName(trigger.priority)],
      ["Tenant", session.operator && trigger.tenant_id],
      ["Dedupe window", !scheduled && (trigger.dedupe_window_seconds ? duration(trigger.dedupe_window_seconds) : "none")],
      ["Missed runs", scheduled && inWords(MISSED, trigger.missed) + (trigger.missed === "catch_up" ? `, at most ${trigger.catch_up_limit}` : "")],
      ["If the previous job is active", scheduled && inWords(OVERLAP, trigger.overlap)],
      ["Skipped times", scheduled && trigger.gap !== "next" && inWords(GAP, trigger.gap)],
      ["Repeated times", scheduled && trigger.fold !== "once" && inWords(FOLD, trigger.fold)],
      ["Jitter", trigger.jitter_seconds > 0 && duration(trigger.jitter_seconds)],
      ["Updated", html`<${Time} at=${trigger.updated_at} />`], ["Created by", trigger.created_by],
    ]} />
    <h3>Payload</h3><${Json} value=${trigger.payload_template} label="payload template" />`
}

// Dialog that fires a trigger manually.

function FireDialog({ trigger, onClose, onDone }) {
  const [sample, setSample] = useState(LATEST)
  const scheduled = trigger.trigger_type === "schedule"
  const query = { tenant: trigger.tenant_id }
  const trial = usePreview("/jobs/triggers/preview", { trigger_id: trigger.id, runs: 0, ...sampleBody(sample) }, query).data
  const fire = async () => {
    const event = scheduled ? {} : sample.id === "" ? { event_id: trial?.event?.id } : sampleBody(sample)
    const made = await api.post(`/jobs/triggers/${trigger.id}/fire`, event, { query })
    toast(made.outcome === "fired" ? `Trigger “${nameOf(trigger)}” created a job` : made.reason, { tone: made.outcome === "fired" ? "good" : "warn" })
    onDone()
  }
  const ready = scheduled ? trial : trial?.matched && trial.event
  return html`
    <${Dialog} title=${`Fire “${nameOf(trigger)}” now`} onClose=${onClose} onSubmit=${fire} submitText="Fire" disabled=${!ready} wide>
      <p>${scheduled ? "Creates the job now, in addition to its scheduled runs." : "Creates the job from this event now. A hand-written event is not sent to other triggers."} ${!trigger.is_enabled && "The trigger stays paused."}</p>
      ${!scheduled && html`<${SampleChoice} sample=${sample} onChange=${setSample} pattern=${trigger.event_name} tenant=${trigger.tenant_id} seen=${trial?.event} />`}
      ${trial?.reason && html`<p class="faint">${trial.reason}</p>`}
      ${trial?.payload && html`<div><h3>Job payload</h3><${Json} value=${trial.payload} label="payload" copy=${false} /></div>`}
      <${FieldErrors} errors=${trial?.payload_errors} />
    <//>`
}
