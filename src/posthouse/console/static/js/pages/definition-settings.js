// The settings of a definition: how they are shown, and how they are written.
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
  { name: "max_attempts", text: "Attempts", kind: "number", hint: "How often it is tried before it is a dead letter." },
  { name: "timeout_seconds", text: "Timeout in seconds", kind: "number", hint: "Empty: it may run for ever.", may: "none" },
  { name: "retry", text: "Retry policy", kind: "json", hint: "Like {\"ladder\": [60, 300]} or {\"base\": 2, \"factor\": 2}. Empty: the ordinary one.", may: "ordinary" },
  { name: "limits", text: "Limits", kind: "json", hint: "Like {\"by\": \"video_id\"}. Empty: none of its own.", may: "none" },
  { name: "requires", text: "Requires", kind: "list", hint: "What a worker must offer, with commas between." },
  { name: "prefers", text: "Prefers", kind: "list", hint: "Workers that offer it go first." },
  { name: "redact", text: "Masked fields", kind: "list", hint: "Of the payload, besides those that are known to be secret." },
  { name: "keep_steps", text: "Keep steps when it runs again", kind: "check" },
  { name: "keep_progress", text: "Keep progress when it runs again", kind: "check" },
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

/** Each setting; those that an operator set, with what the code says and a way back to it. */
export const SettingRows = ({ definition, clear }) => html`
  <dl class="settings">${SETTINGS.filter(({ name }) => definition[name] !== undefined).map(({ name, text }) => html`
    <div key=${name}><dt>${text.replace(" in seconds", "")}</dt><dd>${shown(name, definition[name])}</dd>
      ${definition.origin === "code" && definition.overridden?.includes(name) && html`<${Overridden} name=${name} text=${text} beneath=${definition.beneath[name]} clear=${clear} />`}</div>`)}
  </dl>`

export const Overridden = ({ name, text, beneath, clear }) => html`
  <span class="overridden"><${Tag} tone="accent">set here<//> <small>the code says ${beneath !== null && typeof beneath === "object" && !Array.isArray(beneath) ? "something else" : shown(name, beneath)}</small>
    ${clear && html`<${Button} small plain onClick=${() => clear(name)} aria-label=${`Clear ${text}`}>Clear<//>`}</span>`

/** A field to write a setting with. `change(name, value)`; broken JSON is undefined. */
export function SettingField({ setting, value, change, error, beneath }) {
  const { name, text, kind, hint } = setting
  const said = [hint, beneath !== undefined && html`The code says ${shown(name, beneath)}.`].filter(Boolean)
  const common = { label: text, error, hint: said.length ? html`${said.map((each, place) => html`<span key=${place}>${each} </span>`)}` : undefined }
  const set = (next) => change(name, next)
  if (kind === "number") return html`<${NumberField} ...${common} min="0" value=${value} change=${set} />`
  if (kind === "check") return html`<${CheckField} ...${common} value=${value} change=${set} />`
  if (kind === "priority") return html`<${SelectField} ...${common} value=${value} change=${(next) => set(Number(next))} options=${priorities(value)} />`
  if (kind === "list") return html`<${TextField} ...${common} value=${Array.isArray(value) ? value.join(", ") : value} change=${set} />`
  if (kind === "json") return html`<${JsonField} ...${common} rows=${3} value=${value ?? undefined} change=${(next, broken) => set(broken ? undefined : next ?? null)} />`
  return html`<${TextField} ...${common} value=${value} change=${set} />`
}

/** What the API is to be told: lists are written as text. */
export function toFields(draft) {
  const entry = ([name, value]) => [name, NAMES[name]?.kind === "list" && typeof value === "string" ? value.split(",").map((each) => each.trim()).filter(Boolean) : value]
  return Object.fromEntries(Object.entries(draft).map(entry))
}

/** Tags that say what is unusual about a kind. */
export const Marks = ({ of }) => html`
  ${of.runner === "command" && html`<${Tag} tone="accent" title="Runs a program">command<//> `}
  ${!of.active && html`<${Tag} tone="warn" title="Takes no new jobs">inactive<//> `}
  ${of.origin === "code" && of.overridden?.length > 0 && html`<${Tag} title=${`An operator set ${of.overridden.join(", ")}`}>${of.overridden.length} changed<//>`}`
