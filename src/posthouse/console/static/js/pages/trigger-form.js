// Trigger editor with a live preview of its runs and jobs.
import { api, errorsByPath, useApi, usePreview } from "../api.js"
import { AsyncContent, BackLink, Button, Card, ErrorBanner, Json } from "../components/display.js"
import { CheckField, defaultsOf, Field, NumberField, SelectField, TextField } from "../components/forms.js"
import { FieldErrors, pathsIn, PayloadTemplate } from "../components/template-field.js"
import { runWithToast, toast } from "../components/toast.js"
import { priorities } from "../format.js"
import { html, useMemo, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"
import { FOLD, GAP, LATEST, MISSED, nameOf, OF_EVENTS, OF_SCHEDULES, OVERLAP, PRESETS, Runs, sampleBody, SampleChoice } from "./trigger-parts.js"

const BOTH = ["label", "is_enabled", "definition_key", "payload_template", "queue", "priority"]
const FIELDS = { event: [...BOTH, "event_name", "dedupe_window_seconds"], schedule: [...BOTH, "cron_expr", "timezone", "missed", "catch_up_limit", "overlap", "gap", "fold", "jitter_seconds"] }
const ORDINARY = { label: "", is_enabled: true, payload_template: {}, queue: null, priority: null, dedupe_window_seconds: 300, missed: "once", catch_up_limit: 10, overlap: "allow", gap: "next", fold: "once", jitter_seconds: 0 }
const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone
const MASK = "[redacted]"

export function NewTrigger({ query }) {
  const session = useSession()
  const type = query.type === "event" ? "event" : "schedule"
  const [tenant, setTenant] = useState(session.tenant ?? "default")
  const save = async (fields) => {
    const made = await api.post("/jobs/triggers", { trigger_type: type, ...written(fields) }, { query: session.operator ? { tenant } : {} })
    toast(`Trigger “${nameOf(made)}” created`)
    navigate(link(`triggers/${made.id}`))
  }
  const start = { ...ORDINARY, timezone: LOCAL_ZONE, cron_expr: "", event_name: "", definition_key: query.kind ?? "" }
  return html`
    <div class="head"><div class="grow"><${BackLink} href=${link("triggers", { tab: type === "event" ? "events" : null })}>${type === "event" ? "Event triggers" : "Schedules"}<//><h2>${type === "event" ? "New event trigger" : "New schedule"}</h2></div>
      <div class="switch" data-stay>${[["schedule", "Schedule"], ["event", "Event"]].map(([each, text]) => html`<a key=${each} role="button" aria-pressed=${each === type} href=${link("triggers/new", { ...query, type: each })}>${text}</a>`)}</div></div>
    <${TriggerForm} key=${type} type=${type} start=${start} tenant=${tenant} onSave=${save} submitText="Create" back=${link("triggers", { tab: type === "event" ? "events" : null })}
      before=${session.operator && !session.tenant && html`<${TenantField} tenant=${tenant} onChange=${setTenant} />`} />`
}

function TenantField({ tenant, onChange }) {
  const tenants = useApi("/admin/tenants")
  const ids = [...new Set(["default", ...(tenants.data ?? []).map(({ id }) => id)])]
  return html`<${SelectField} label="Tenant" value=${tenant} onChange=${onChange} options=${ids.map((id) => [id])} hint="The tenant that owns the jobs. Cannot be changed later." />`
}

/** `onDone(trigger)` gets the stored trigger. */
export function EditTrigger({ trigger, onDone }) {
  const [start] = useState(trigger)
  const page = link(`triggers/${trigger.id}`)
  const save = async (fields) => {
    const changed = Object.fromEntries(FIELDS[start.trigger_type].filter((name) => JSON.stringify(fields[name]) !== JSON.stringify(start[name])).map((name) => [name, fields[name]]))
    if (Object.keys(changed).length) {
      const query = { tenant: start.tenant_id }
      const made = await api.patch(`/jobs/triggers/${start.id}`, changed, { query, headers: { "If-Match": `"${start.version}"` } })
      onDone(made)
      const before = Object.fromEntries(Object.keys(changed).map((name) => [name, start[name]]))
      const masked = JSON.stringify(before).includes(MASK)
      toast(`Trigger “${nameOf(made)}” saved`, { undo: masked ? undefined : () => runWithToast(() => api.patch(`/jobs/triggers/${start.id}`, before, { query }).then(onDone), "Change undone") })
    }
    navigate(page)
  }
  return html`
    <div class="head"><div class="grow"><${BackLink} href=${page}>${nameOf(start)}<//><h2>Edit</h2></div></div>
    ${start.origin === "code" && html`<p class="note">This trigger is defined in code as ${start.name}. Changes made here last until the definition in code changes.</p>`}
    ${JSON.stringify(start.payload_template).includes(MASK) && html`<p class="note" data-tone="warn">A secret value in the payload is masked. If you change the payload, enter the value again.</p>`}
    <${TriggerForm} type=${start.trigger_type} start=${start} tenant=${start.tenant_id} id=${start.id} onSave=${save} submitText="Save" back=${page} />`
}

/** Non-empty fields; empty ones take their default. */
const written = (fields, type) => Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== "" && value !== null && value !== undefined && (!type || FIELDS[type].includes(name))))

function TriggerForm({ type, start, tenant, id, onSave, submitText, back, before }) {
  const [fields, setFields] = useState(Object.fromEntries(FIELDS[type].map((name) => [name, start[name]])))
  const [sample, setSample] = useState(LATEST)
  const [state, setState] = useState({ busy: false, error: null })
  const kinds = useApi("/definitions", { limit: 200 })
  const set = (name) => (value) => setFields((previous) => ({ ...previous, [name]: value }))
  const draft = { trigger_type: type, ...written(fields, type) }
  const trial = usePreview("/jobs/triggers/preview", { trigger: draft, trigger_id: id, runs: 6, ...sampleBody(sample) }, { tenant })
  const errors = errorsByPath(trial.data?.errors)
  const said = (name) => (fields[name] === "" || fields[name] === null ? undefined : errors[name])
  const event = trial.data?.event
  const paths = useMemo(() => (type === "event" ? [...pathsIn(event?.context ?? {}, "event").slice(1), ...OF_EVENTS.map(toPath)] : OF_SCHEDULES.map(toPath)), [type, event?.id, JSON.stringify(event?.context)])
  const submit = async (submitted) => {
    submitted.preventDefault()
    setState({ busy: true, error: null })
    try {
      await onSave(fields)
    } catch (error) {
      setState({ busy: false, error })
    }
  }
  const incomplete = !fields.definition_key || fields.payload_template === null || (type === "event" ? !fields.event_name : !fields.cron_expr)
  return html`
    <form class="grid-2 unequal" onSubmit=${submit} novalidate>
      <${Card} class="form">
        ${before}
        <${TextField} label="Label" value=${fields.label} onChange=${set("label")} maxlength="200" autofocus hint="Display name." />
        ${type === "event" ? html`<${EventFields} fields=${fields} set=${set} errorFor=${said} tenant=${tenant} />` : html`<${ScheduleFields} fields=${fields} set=${set} errorFor=${said} description=${trial.data?.description} />`}
        <${AsyncContent} request=${kinds} lines=${2}>${({ items }) => html`<${KindFields} items=${items} fields=${fields} setFields=${setFields} error=${said("definition_key")} paths=${paths} payloadErrors=${errorsByPath(trial.data?.payload_errors)} templateError=${errors.payload_template} />`}<//>
        <${MoreFields} type=${type} fields=${fields} set=${set} errorFor=${said} />
        ${state.error && html`<${ErrorBanner} error=${state.error} />`}
        <div class="bar"><span class="grow"></span><a class="button" href=${back}>Cancel</a><${Button} strong type="submit" busy=${state.busy} disabled=${incomplete}>${submitText}<//></div>
      <//>
      <${Card} title="Preview" class="sticky" aria-live="polite">
        <${Preview} type=${type} trial=${trial} fields=${fields}>
          ${type === "event" && html`<${SampleChoice} sample=${sample} onChange=${setSample} pattern=${said("event_name") ? null : fields.event_name} tenant=${tenant} seen=${event} />`}
        <//>
      <//>
    </form>`
}

const toPath = ([path, about]) => ({ path, about })

function ScheduleFields({ fields, set, errorFor, description }) {
  const zones = useMemo(() => html`<datalist id="zones"><option value="UTC" />${(Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => html`<option key=${zone} value=${zone} />`)}</datalist>`, [])
  return html`
    <div><${TextField} label="Schedule" value=${fields.cron_expr} onChange=${set("cron_expr")} error=${errorFor("cron_expr")} placeholder="0 9 * * MON-FRI" class="code" hint=${description && !errorFor("cron_expr") ? html`<b>${description}</b>` : "A cron expression with five fields (minute, hour, day, month, weekday), or “every 15m”."} />
      <div class="presets">${PRESETS.map(([cron, text]) => html`<button key=${cron} type="button" class="tag" onClick=${() => set("cron_expr")(cron)}>${text}</button>`)}</div></div>
    <${Field} label="Time zone" error=${errorFor("timezone")} hint="The time zone of the schedule.">${(given) => html`
      <input ...${given} list="zones" autocomplete="off" spellcheck=${false} value=${fields.timezone} onInput=${(event) => set("timezone")(event.target.value)} />${zones}`}<//>`
}

function EventFields({ fields, set, errorFor, tenant }) {
  const events = useApi("/events", { limit: 200, tenant })
  const names = [...new Set((events.data?.items ?? []).map(({ name }) => name))]
  return html`
    <${Field} label="Event" error=${errorFor("event_name")} hint="The event name. A star matches any part, for example order.*.">${(given) => html`
      <input ...${given} class="code" list="names" autocomplete="off" spellcheck=${false} value=${fields.event_name} placeholder="order.paid" onInput=${(event) => set("event_name")(event.target.value)} />
      <datalist id="names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`}<//>
    <${NumberField} label="Dedupe window in seconds" min="0" value=${fields.dedupe_window_seconds} onChange=${set("dedupe_window_seconds")} error=${errorFor("dedupe_window_seconds")} hint="At most one job with the same payload within this time. 0 creates a job for every event." />`
}

function KindFields({ items, fields, setFields, error, paths, payloadErrors, templateError }) {
  const chosen = items.find(({ key }) => key === fields.definition_key)
  const choose = (key) => setFields((previous) => ({ ...previous, definition_key: key, payload_template: defaultsOf(items.find((each) => each.key === key)?.arg_schema) }))
  const shown = items.filter((each) => each.is_active || each.key === fields.definition_key).map(({ key }) => [key])
  return html`
    <${SelectField} label="Job kind" value=${fields.definition_key} onChange=${choose} error=${error} hint=${chosen?.description} options=${[["", "Choose a kind"], ...shown]} />
    ${fields.definition_key && html`<${PayloadTemplate} key=${fields.definition_key} schema=${chosen?.arg_schema} value=${fields.payload_template} paths=${paths} errors=${payloadErrors} onChange=${(payload_template) => setFields((previous) => ({ ...previous, payload_template }))} />
      ${templateError && html`<${FieldErrors} errors=${[{ path: "", message: templateError }]} />`}`}`
}

function MoreFields({ type, fields, set, errorFor }) {
  return html`
    <details class="more"><summary>More settings</summary><div class="schema-form">
      ${type === "schedule" && html`
        <${SelectField} label="Missed runs" value=${fields.missed} onChange=${set("missed")} options=${MISSED} />
        ${fields.missed === "catch_up" && html`<${NumberField} label="Maximum missed runs to catch up" min="1" max="1000" value=${fields.catch_up_limit} onChange=${set("catch_up_limit")} error=${errorFor("catch_up_limit")} />`}
        <${SelectField} label="If the previous job is still active" value=${fields.overlap} onChange=${set("overlap")} options=${OVERLAP} />
        <${SelectField} label="Times skipped by daylight saving" value=${fields.gap} onChange=${set("gap")} options=${GAP} />
        <${SelectField} label="Times repeated by daylight saving" value=${fields.fold} onChange=${set("fold")} options=${FOLD} />
        <${NumberField} label="Jitter in seconds" min="0" max="86400" value=${fields.jitter_seconds} onChange=${set("jitter_seconds")} error=${errorFor("jitter_seconds")} hint="Delays each run by a random time up to this value, so that schedules do not all start at once." />`}
      <div class="columns"><${TextField} label="Queue" value=${fields.queue} onChange=${(text) => set("queue")(text || null)} error=${errorFor("queue")} hint="Leave empty for the queue of the definition." />
        <${SelectField} label="Priority" value=${fields.priority ?? ""} onChange=${(text) => set("priority")(text === "" ? null : Number(text))} options=${[["", "Default of the definition"], ...priorities(fields.priority)]} /></div>
      <${CheckField} label="Enabled" value=${fields.is_enabled} onChange=${set("is_enabled")} hint="A disabled trigger creates no jobs until it is resumed." />
    </div></details>`
}

function Preview({ type, trial, fields, children }) {
  const { data, error } = trial
  const ready = Boolean(type === "event" ? fields.event_name : data?.runs.length)
  return html`
    ${error && html`<${ErrorBanner} error=${error} />`}
    ${type === "schedule" && (data?.runs.length ? html`<p class="lead">${data.description}</p><${Runs} runs=${data.runs} zone=${data.timezone} />` : html`<p class="faint">Enter a schedule to preview its next runs.</p>`)}
    ${type === "event" && (data?.description ? html`<p class="lead">${data.description}</p>` : html`<p class="faint">Enter an event name to preview the job.</p>`)}
    ${children}
    ${data?.reason && html`<p class="note">${data.reason}</p>`}
    ${ready && fields.definition_key && data?.payload && html`<div><h3>Job payload</h3><${Json} value=${data.payload} label="payload" copy=${false} /></div>`}
    ${fields.definition_key && html`<${FieldErrors} errors=${data?.payload_errors} />`}
    ${data?.event && html`<details class="more"><summary>Event context</summary><div><${Json} value=${data.event.context} label="context" copy=${false} /></div></details>`}`
}
