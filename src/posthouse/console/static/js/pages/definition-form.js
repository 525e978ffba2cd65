// Definition editor, its settings, and a test of a payload.
import { api, errorsByPath, usePreview } from "../api.js"
import { BackLink, Button, Card, CopyButton, DescriptionList, ErrorBanner, Tag } from "../components/display.js"
import { CheckField, defaultsOf, JsonField, NumberField, SchemaForm, SelectField, TextField } from "../components/forms.js"
import { Icon } from "../components/icons.js"
import { FieldErrors } from "../components/template-field.js"
import { runWithToast, toast } from "../components/toast.js"
import { duration, percent, priorities, priorityName } from "../format.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"

const PREVIEW = "/admin/jobs/definitions/preview"
const EXAMPLE = { argv: ["echo", "hello", "{payload.name}"] }
const EXAMPLE_SCHEMA = { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false }

export function EditDefinition({ definition, onDone }) {
  const [start] = useState(definition)
  const page = link(`definitions/${encodeURIComponent(start.key)}`)
  const path = `/admin/jobs/definitions/${encodeURIComponent(start.key)}`
  const save = async (draft) => {
    const fields = toFields(draft)
    if (Object.keys(fields).length) {
      onDone(await api.patch(path, fields, { headers: { "If-Match": `"${start.version}"` } }))
      const names = Object.keys(fields)
      const [kept, fresh] = [names.filter((name) => start.overridden.includes(name)), names.filter((name) => !start.overridden.includes(name))]
      const back = { ...Object.fromEntries(kept.map((name) => [name, start[name]])), clear: fresh }
      toast(`Definition ${start.key} saved`, { undo: () => runWithToast(() => api.patch(path, back).then(onDone), "Change undone") })
    }
    navigate(page)
  }
  return html`
    <div class="head"><div class="grow"><${BackLink} href=${page}>${start.key}<//><h2>Edit</h2></div></div>
    <${Form} start=${start} onSave=${save} back=${page} submitText="Save" body=${(draft, payload) => ({ key: start.key, ...toFields(draft), payload })} />`
}

export function NewCommand() {
  const [key, setKey] = useState("")
  const start = { description: "", queue: "default", priority: 100, max_attempts: 3, timeout_seconds: 3600, retry: null, limits: null, requires: [], prefers: [], followup_queues: [], redact: [], command: EXAMPLE, arg_schema: EXAMPLE_SCHEMA, overridden: [] }
  const save = async (draft) => {
    const made = await api.post("/admin/jobs/definitions", { key: key.trim(), arg_schema: EXAMPLE_SCHEMA, command: EXAMPLE, ...toFields(draft) })
    toast(`Command ${made.key} created. Workers started with --commands pick it up within seconds.`)
    navigate(link(`definitions/${encodeURIComponent(made.key)}`))
  }
  return html`
    <div class="head"><div class="grow"><${BackLink} href=${link("definitions")}>Definitions<//><h2>New command</h2><p class="faint">A job kind that runs a program. Commands run without a shell: each payload value becomes exactly one argument.</p></div></div>
    <${Form} start=${start} onSave=${save} back=${link("definitions")} submitText="Create" incomplete=${!key.trim()} body=${(draft, payload) => ({ arg_schema: EXAMPLE_SCHEMA, command: EXAMPLE, ...toFields(draft), payload })}
      tried=${{ name: "world" }} before=${html`<${TextField} label="Key" value=${key} onChange=${setKey} maxlength="512" autofocus hint="The job kind, for example sync-folder. It cannot be changed later." />`} />`
}

/** `draft` holds only the changed fields; `body(draft, payload)` is the request that validates them. */
function Form({ start, onSave, back, submitText, body, before, tried, incomplete }) {
  const [draft, setDraft] = useState({})
  const [state, setState] = useState({ busy: false, error: null })
  const broken = Object.values(draft).some((value) => value === undefined)
  const errors = errorsByPath(usePreview(broken ? null : PREVIEW, body(draft, {})).data?.definition_errors)
  const change = (name, value) => setDraft((previous) => {
    const { [name]: _, ...rest } = previous
    return JSON.stringify(value) === JSON.stringify(start[name]) ? rest : { ...rest, [name]: value }
  })
  const json = (name, fallback) => (next, wrong) => change(name, wrong ? undefined : next ?? fallback)
  const now = (name) => (name in draft ? draft[name] : start[name])
  const codeDefault = (name) => (start.origin === "code" && start.overridden.includes(name) ? start.code_defaults[name] : undefined)
  const submit = async (event) => {
    event.preventDefault()
    setState({ busy: true, error: null })
    try {
      await onSave(draft)
    } catch (error) {
      setState({ busy: false, error })
    }
  }
  const [settings, more] = [SETTINGS.slice(0, 5), SETTINGS.slice(5).filter(({ name }) => start[name] !== undefined)]
  const field = (setting) => html`<${SettingField} key=${setting.name} setting=${setting} value=${now(setting.name)} onChange=${change} error=${errors[setting.name]} codeDefault=${codeDefault(setting.name)} />`
  return html`
    <form class="grid-2" onSubmit=${submit} novalidate>
      <${Card} class="form">
        ${before}
        ${(start.command || start.origin === "operator") && html`<${JsonField} label="Command" rows=${7} value=${now("command") ?? undefined} onChange=${json("command", start.command ? {} : null)} error=${errors.command} hint="argv: a string is one argument. A list is omitted as a whole if an optional value in it is missing. {payload.name} is a required value, {payload.name?} an optional one." />`}
        ${settings.map(field)}
        <${JsonField} label="Payload schema" rows=${12} value=${now("arg_schema")} onChange=${json("arg_schema", {})} error=${errors.arg_schema} hint="JSON Schema. {} accepts any object." />
        <details class="more"><summary>More settings</summary><div class="schema-form">${more.map(field)}</div></details>
        ${state.error && html`<${ErrorBanner} error=${state.error} />`}
        <div class="bar"><span class="grow faint">${plural(Object.keys(draft).length)}</span><a class="button" href=${back}>Cancel</a><${Button} strong type="submit" busy=${state.busy} disabled=${incomplete || broken}>${submitText}<//></div>
      <//>
      <${TryPayload} title="Test payload" class="sticky" start=${tried} schema=${now("arg_schema") ?? start.arg_schema} onCheck=${(payload) => (broken ? [null] : [PREVIEW, body(draft, payload)])} />
    </form>`
}

const plural = (number) => (number ? `${number} unsaved ${number === 1 ? "change" : "changes"}` : "")

// Settings of a definition: display and form fields.

const SETTINGS = [
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

function shown(name, value) {
  const { kind, may } = NAMES[name] ?? {}
  if (value === null || value === undefined || value === "") return html`<span class="faint">${may ?? "–"}</span>`
  if (name === "timeout_seconds") return duration(value)
  if (kind === "priority") return priorityName(value)
  if (kind === "check") return value ? "yes" : "no"
  if (name === "retry") return retryWords(value)
  if (Array.isArray(value)) return value.length ? value.join(", ") : html`<span class="faint">–</span>`
  return typeof value === "object" ? html`<code>${JSON.stringify(value)}</code>` : String(value)
}

/** The delays of a retry policy in words. Fields that it does not name have the defaults of `Retry`. */
function retryWords({ ladder, base = 10, factor = 2, cap = 600, jitter = ladder?.length ? 0 : 0.2 }) {
  const delays = ladder?.length ? `after ${ladder.map(duration).join(", ")}` : `after ${duration(base)}, each time × ${factor}, at most ${duration(cap)}`
  return jitter ? `${delays}; jitter ${percent(jitter)}` : delays
}

/** All settings; overridden ones with the code default and a reset button. */
export const SettingRows = ({ definition, onClear }) => html`
  <dl class="settings">${SETTINGS.filter(({ name }) => definition[name] !== undefined).map(({ name, text }) => html`
    <div key=${name}><dt>${text.replace(" in seconds", "")}</dt><dd>${shown(name, definition[name])}</dd>
      ${definition.origin === "code" && definition.overridden?.includes(name) && html`<${Overridden} name=${name} text=${text} codeDefault=${definition.code_defaults[name]} onClear=${onClear} />`}</div>`)}
  </dl>`

export const Overridden = ({ name, text, codeDefault, onClear }) => html`
  <span class="overridden"><${Tag} tone="accent">overridden<//> <small>${codeDefault !== null && typeof codeDefault === "object" && !Array.isArray(codeDefault) ? "differs from the code default" : html`code default: ${shown(name, codeDefault)}`}</small>
    ${onClear && html`<${Button} small plain onClick=${() => onClear(name)} aria-label=${`Reset ${text}`}>Reset<//>`}</span>`

/** Form field of a setting. `onChange(name, value)`; invalid JSON is undefined. */
function SettingField({ setting, value, onChange, error, codeDefault }) {
  const { name, text, kind, hint } = setting
  const said = [hint, codeDefault !== undefined && html`Code default: ${shown(name, codeDefault)}.`].filter(Boolean)
  const common = { label: text, error, hint: said.length ? html`${said.map((each, index) => html`<span key=${index}>${each} </span>`)}` : undefined }
  const set = (next) => onChange(name, next)
  if (kind === "number") return html`<${NumberField} ...${common} min="0" value=${value} onChange=${set} />`
  if (kind === "check") return html`<${CheckField} ...${common} value=${value} onChange=${set} />`
  if (kind === "priority") return html`<${SelectField} ...${common} value=${value} onChange=${(next) => set(Number(next))} options=${priorities(value)} />`
  if (kind === "list") return html`<${TextField} ...${common} value=${Array.isArray(value) ? value.join(", ") : value} onChange=${set} />`
  if (kind === "json") return html`<${JsonField} ...${common} rows=${3} value=${value ?? undefined} onChange=${(next, broken) => set(broken ? undefined : next ?? null)} />`
  return html`<${TextField} ...${common} value=${value} onChange=${set} />`
}

/** The request fields; lists are edited as text. */
function toFields(draft) {
  const entry = ([name, value]) => [name, NAMES[name]?.kind === "list" && typeof value === "string" ? value.split(",").map((each) => each.trim()).filter(Boolean) : value]
  return Object.fromEntries(Object.entries(draft).map(entry))
}

/** Tags of a kind: command, inactive, overridden settings. */
export const DefinitionTags = ({ definition }) => html`
  ${definition.runner === "command" && html`<${Tag} tone="accent" title="Runs a program.">command<//> `}
  ${!definition.is_active && html`<${Tag} tone="warn" title="New jobs are rejected.">inactive<//> `}
  ${definition.origin === "code" && definition.overridden?.length > 0 && html`<${Tag} title=${`Overridden by an operator: ${definition.overridden.join(", ")}`}>${definition.overridden.length} overridden<//>`}`

// Validates a payload against a definition and shows the command that would run. Nothing is enqueued.

/** `ask(payload)`: [path, body] of the validation request. `start`: the initial payload. */
export function TryPayload({ schema, onCheck, start, title = "Test payload", class: more }) {
  const [payload, setPayload] = useState(() => start ?? defaultsOf(schema))
  const [touched, setTouched] = useState(false)
  const [path, body] = payload === null ? [null] : onCheck(payload)
  const { data, error } = usePreview(path, body)
  const errors = Object.fromEntries((touched ? data?.errors ?? [] : []).map(({ path: at, message }) => [at.split(/[.[]/)[0], message]))
  return html`
    <${Card} title=${title} class=${more}>
      <${SchemaForm} key=${Object.keys(schema?.properties ?? {}).join()} schema=${schema} value=${payload ?? {}} onChange=${(next, broken) => { setTouched(true); setPayload(broken ? null : next ?? {}) }} errors=${errors} />
      <div aria-live="polite" class="stack">
        ${error && html`<${ErrorBanner} error=${error} />`}
        ${data && !error && payload !== null && html`<${CheckResult} check=${data} touched=${touched} />`}
      </div>
    <//>`
}

function CheckResult({ check, touched }) {
  if (check.definition_errors.length) return html`<div><h3>Invalid definition</h3><${FieldErrors} errors=${check.definition_errors} /></div>`
  if (!check.valid && !touched) return html`<p class="faint">Enter a payload to validate it. Nothing is enqueued.</p>`
  return html`
    ${check.valid ? html`<p class="verdict" data-tone="good"><${Icon} name="check" />Payload is valid.${!check.is_active && " The definition is inactive: new jobs are rejected."}</p>` : html`<div class="stack"><p class="verdict" data-tone="bad"><${Icon} name="close" />Payload is invalid.</p><${FieldErrors} errors=${check.errors} /></div>`}
    ${check.command && html`<${Argv} command=${check.command} />`}`
}

const plain = /^[\w@%+=:,./-]+$/
const quoted = (text) => (plain.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)

const Argv = ({ command }) => html`
  <div class="argv"><div class="bar"><h3 class="grow">Command preview</h3><${CopyButton} text=${() => command.argv.map(quoted).join(" ")} label="Copy as shell command" /></div>
    <ol aria-label="Arguments">${command.argv.map((argument, index) => html`<li key=${index}><code>${argument === "" ? "''" : argument}</code></li>`)}</ol>
    <${DescriptionList} items=${[["Working directory", html`<code>${command.cwd}</code>`], ["Variables", command.variables.join(", ")], ["Secrets", command.secrets.join(", ")]]} />
  </div>`
