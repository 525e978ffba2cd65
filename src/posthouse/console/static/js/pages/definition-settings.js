// Settings of a definition: display and form fields.
import { html } from "../lib.js"
import { duration } from "../format.js"
import { Button, Tag } from "../ui/basics.js"
import { CheckField, NumberField, SelectField, TextField } from "../ui/fields.js"
import { priorities, priorityName } from "../ui/priority.js"
import { JsonField } from "../ui/schema-form.js"

export const SETTINGS = [
  { name: "description", text: "Description", kind: "text" },
  { name: "queue", text: "Queue", kind: "text" },
  { name: "priority", text: "Priority", kind: "priority" },
  { name: "max_attempts", text: "Max attempts", kind: "number", hint: "Maximum attempts before the job becomes a dead letter." },
  { name: "timeout_seconds", text: "Timeout in seconds", kind: "number", hint: "Leave empty for no timeout.", may: "none" },
  { name: "retry", text: "Retry policy", kind: "json", hint: "For example {\"ladder\": [60, 300]} or {\"base\": 2, \"factor\": 2}. Leave empty for the default policy.", may: "default" },
  { name: "limits", text: "Limits", kind: "json", hint: "For example {\"by\": \"video_id\"}. Leave empty for none.", may: "none" },
  { name: "requires", text: "Requires", kind: "list", hint: "Capabilities a worker must have, separated by commas." },
  { name: "prefers", text: "Prefers", kind: "list", hint: "Workers with these capabilities are preferred." },
  { name: "followup_queues", text: "Follow-up queues", kind: "list", hint: "Queues follow-ups may use beyond those of the worker's key." },
  { name: "redact", text: "Masked fields", kind: "list", hint: "Additional payload fields to mask; common secret names are always masked." },
  { name: "keep_steps", text: "Keep completed steps on retry", kind: "check" },
  { name: "keep_progress", text: "Keep progress on retry", kind: "check" },
]

const NAMES = Object.fromEntries(SETTINGS.map((each) => [each.name, each]))

export function shown(name, value) {
  const { kind, may } = NAMES[name] ?? {}
  if (value === null || value === undefined || value === "") return html`<span class="faint">${may ?? "–"}</span>`
  if (name === "timeout_seconds") return duration(value)
  if (kind === "priority") return priorityName(value)
  if (kind === "check") return value ? "yes" : "no"
  if (Array.isArray(value)) return value.length ? value.join(", ") : html`<span class="faint">–</span>`
  return typeof value === "object" ? html`<code>${JSON.stringify(value)}</code>` : String(value)
}

/** All settings; overridden ones with the code default and a reset button. */
export const SettingRows = ({ definition, clear }) => html`
  <dl class="settings">${SETTINGS.filter(({ name }) => definition[name] !== undefined).map(({ name, text }) => html`
    <div key=${name}><dt>${text.replace(" in seconds", "")}</dt><dd>${shown(name, definition[name])}</dd>
      ${definition.origin === "code" && definition.overridden?.includes(name) && html`<${Overridden} name=${name} text=${text} beneath=${definition.beneath[name]} clear=${clear} />`}</div>`)}
  </dl>`

export const Overridden = ({ name, text, beneath, clear }) => html`
  <span class="overridden"><${Tag} tone="accent">overridden<//> <small>${beneath !== null && typeof beneath === "object" && !Array.isArray(beneath) ? "differs from the code default" : html`code default: ${shown(name, beneath)}`}</small>
    ${clear && html`<${Button} small plain onClick=${() => clear(name)} aria-label=${`Reset ${text}`}>Reset<//>`}</span>`

/** Form field of a setting. `change(name, value)`; invalid JSON is undefined. */
export function SettingField({ setting, value, change, error, beneath }) {
  const { name, text, kind, hint } = setting
  const said = [hint, beneath !== undefined && html`Code default: ${shown(name, beneath)}.`].filter(Boolean)
  const common = { label: text, error, hint: said.length ? html`${said.map((each, place) => html`<span key=${place}>${each} </span>`)}` : undefined }
  const set = (next) => change(name, next)
  if (kind === "number") return html`<${NumberField} ...${common} min="0" value=${value} change=${set} />`
  if (kind === "check") return html`<${CheckField} ...${common} value=${value} change=${set} />`
  if (kind === "priority") return html`<${SelectField} ...${common} value=${value} change=${(next) => set(Number(next))} options=${priorities(value)} />`
  if (kind === "list") return html`<${TextField} ...${common} value=${Array.isArray(value) ? value.join(", ") : value} change=${set} />`
  if (kind === "json") return html`<${JsonField} ...${common} rows=${3} value=${value ?? undefined} change=${(next, broken) => set(broken ? undefined : next ?? null)} />`
  return html`<${TextField} ...${common} value=${value} change=${set} />`
}

/** The request fields; lists are edited as text. */
export function toFields(draft) {
  const entry = ([name, value]) => [name, NAMES[name]?.kind === "list" && typeof value === "string" ? value.split(",").map((each) => each.trim()).filter(Boolean) : value]
  return Object.fromEntries(Object.entries(draft).map(entry))
}

/** Tags of a kind: command, inactive, overridden settings. */
export const Marks = ({ of }) => html`
  ${of.runner === "command" && html`<${Tag} tone="accent" title="Runs a program.">command<//> `}
  ${!of.is_active && html`<${Tag} tone="warn" title="New jobs are rejected.">inactive<//> `}
  ${of.origin === "code" && of.overridden?.length > 0 && html`<${Tag} title=${`Overridden by an operator: ${of.overridden.join(", ")}`}>${of.overridden.length} overridden<//>`}`
