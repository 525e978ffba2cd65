// Definition editor with a live payload test.
import { api } from "../api.js"
import { html, useState } from "../lib.js"
import { go, link } from "../router.js"
import { Back, Button, Card, Failure } from "../ui/basics.js"
import { TextField } from "../ui/fields.js"
import { JsonField } from "../ui/schema-form.js"
import { attempt, toast } from "../ui/toast.js"
import { faultsByPath, useTrial } from "../ui/trial.js"
import { SettingField, SETTINGS, toFields } from "./definition-settings.js"
import { TryPayload } from "./definition-try.js"

const PREVIEW = "/admin/jobs/definitions/preview"
const EXAMPLE = { argv: ["echo", "hello", "{payload.name}"] }
const EXAMPLE_SCHEMA = { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false }

export function EditDefinition({ definition, done }) {
  const [start] = useState(definition)
  const page = link(`definitions/${encodeURIComponent(start.key)}`)
  const path = `/admin/jobs/definitions/${encodeURIComponent(start.key)}`
  const save = async (draft) => {
    const fields = toFields(draft)
    if (Object.keys(fields).length) {
      done(await api.patch(path, fields, { headers: { "If-Match": `"${start.version}"` } }))
      const names = Object.keys(fields)
      const [kept, fresh] = [names.filter((name) => start.overridden.includes(name)), names.filter((name) => !start.overridden.includes(name))]
      const back = { ...Object.fromEntries(kept.map((name) => [name, start[name]])), clear: fresh }
      toast(`Definition ${start.key} saved`, { undo: () => attempt(() => api.patch(path, back).then(done), "Change undone") })
    }
    go(page)
  }
  return html`
    <div class="head"><div class="grow"><${Back} href=${page}>${start.key}<//><h2>Edit</h2></div></div>
    <${Form} start=${start} save=${save} back=${page} actText="Save" body=${(draft, payload) => ({ key: start.key, ...toFields(draft), payload })} />`
}

export function NewCommand() {
  const [key, setKey] = useState("")
  const start = { description: "", queue: "default", priority: 100, max_attempts: 3, timeout_seconds: 3600, retry: null, limits: null, requires: [], prefers: [], followup_queues: [], redact: [], command: EXAMPLE, arg_schema: EXAMPLE_SCHEMA, overridden: [] }
  const save = async (draft) => {
    const made = await api.post("/admin/jobs/definitions", { key: key.trim(), arg_schema: EXAMPLE_SCHEMA, command: EXAMPLE, ...toFields(draft) })
    toast(`Command ${made.key} created. Workers started with --commands pick it up within seconds.`)
    go(link(`definitions/${encodeURIComponent(made.key)}`))
  }
  return html`
    <div class="head"><div class="grow"><${Back} href=${link("definitions")}>Definitions<//><h2>New command</h2><p class="faint">A job kind that runs a program. Commands run without a shell: each payload value becomes exactly one argument.</p></div></div>
    <${Form} start=${start} save=${save} back=${link("definitions")} actText="Create" incomplete=${!key.trim()} body=${(draft, payload) => ({ arg_schema: EXAMPLE_SCHEMA, command: EXAMPLE, ...toFields(draft), payload })}
      tried=${{ name: "world" }} before=${html`<${TextField} label="Key" value=${key} change=${setKey} maxlength="512" autofocus hint="The job kind, for example sync-folder. It cannot be changed later." />`} />`
}

/** `draft` holds only the changed fields; `body(draft, payload)` is the request that validates them. */
function Form({ start, save, back, actText, body, before, tried, incomplete }) {
  const [draft, setDraft] = useState({})
  const [state, setState] = useState({ busy: false, error: null })
  const broken = Object.values(draft).some((value) => value === undefined)
  const faults = faultsByPath(useTrial(broken ? null : PREVIEW, body(draft, {})).data?.definition_errors)
  const change = (name, value) => setDraft((was) => {
    const { [name]: _, ...rest } = was
    return JSON.stringify(value) === JSON.stringify(start[name]) ? rest : { ...rest, [name]: value }
  })
  const json = (name, fallback) => (next, wrong) => change(name, wrong ? undefined : next ?? fallback)
  const now = (name) => (name in draft ? draft[name] : start[name])
  const beneath = (name) => (start.origin === "code" && start.overridden.includes(name) ? start.beneath[name] : undefined)
  const submit = async (event) => {
    event.preventDefault()
    setState({ busy: true, error: null })
    try {
      await save(draft)
    } catch (error) {
      setState({ busy: false, error })
    }
  }
  const [settings, more] = [SETTINGS.slice(0, 5), SETTINGS.slice(5).filter(({ name }) => start[name] !== undefined)]
  const field = (setting) => html`<${SettingField} key=${setting.name} setting=${setting} value=${now(setting.name)} change=${change} error=${faults[setting.name]} beneath=${beneath(setting.name)} />`
  return html`
    <form class="grid-2" onSubmit=${submit} novalidate>
      <${Card} class="form">
        ${before}
        ${(start.command || start.origin === "operator") && html`<${JsonField} label="Command" rows=${7} value=${now("command") ?? undefined} change=${json("command", start.command ? {} : null)} error=${faults.command} hint="argv: a string is one argument. A list is omitted as a whole if an optional value in it is missing. {payload.name} is a required value, {payload.name?} an optional one." />`}
        ${settings.map(field)}
        <${JsonField} label="Payload schema" rows=${12} value=${now("arg_schema")} change=${json("arg_schema", {})} error=${faults.arg_schema} hint="JSON Schema. {} accepts any object." />
        <details class="more"><summary>More settings</summary><div class="schema-form">${more.map(field)}</div></details>
        ${state.error && html`<${Failure} error=${state.error} />`}
        <div class="bar"><span class="grow faint">${plural(Object.keys(draft).length)}</span><a class="button" href=${back}>Cancel</a><${Button} strong type="submit" busy=${state.busy} disabled=${incomplete || broken}>${actText}<//></div>
      <//>
      <${TryPayload} title="Test payload" class="sticky" start=${tried} schema=${now("arg_schema") ?? start.arg_schema} ask=${(payload) => (broken ? [null] : [PREVIEW, body(draft, payload)])} />
    </form>`
}

const plural = (number) => (number ? `${number} unsaved ${number === 1 ? "change" : "changes"}` : "")
