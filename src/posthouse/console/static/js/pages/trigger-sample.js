// Sample event of a trigger preview: the latest one, another stored one, or a hand-written one.
import { useApi } from "../api.js"
import { html } from "../lib.js"
import { relative } from "../format.js"
import { SelectField, TextField } from "../ui/fields.js"
import { JsonField } from "../ui/schema-form.js"

export const LATEST = { id: "" }
const OWN = "own"

/** The request fields of a sample: {event_id} or {event}. */
export function sampleBody(sample) {
  if (sample.id !== OWN) return sample.id ? { event_id: sample.id } : {}
  return sample.context === null || !sample.name ? {} : { event: { event_name: sample.name, context: sample.context, subject: sample.subject || null } }
}

/** `sample`: {id, name, context}; `pattern`: the event name of the trigger; `latest`: whether "" can be selected. */
export function SampleChoice({ sample, change, pattern, tenant, seen, latest = true }) {
  const events = useApi(pattern ? "/events" : null, { name: pattern, limit: 20, tenant })
  const options = [...(latest ? [["", "Latest matching event"]] : []), ...(events.data?.items ?? []).map((each) => [each.id, `${each.name}, ${relative(each.at)}${each.subject ? `, ${each.subject}` : ""}`]), [OWN, "Custom event"]]
  const choose = (id) => change(id === OWN ? { id, name: sample.name ?? seen?.name ?? (pattern?.includes("*") ? "" : pattern), context: seen?.context ?? sample.context ?? {} } : { ...sample, id })
  return html`
    <${SelectField} label="Sample event" value=${sample.id} change=${choose} options=${options} />
    ${sample.id === OWN && html`
      <${TextField} label="Event name" value=${sample.name} change=${(name) => change({ ...sample, name })} />
      <${JsonField} label="Event context" rows=${5} value=${sample.context} change=${(context, broken) => change({ ...sample, context: broken ? null : context ?? {} })} />`}`
}
