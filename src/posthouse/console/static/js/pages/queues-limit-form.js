// Inline form of a limit.
import { html, useEffect, useRef, useState } from "../lib.js"
import { Button, Failure } from "../ui/basics.js"
import { NumberField, SelectField, TextField } from "../ui/fields.js"

const FIELDS = ["kinds", "queues", "tenants", "per", "max_running", "rate", "burst", "weights"]

/** The editable fields of a limit. */
export const fieldsOf = (limit) => Object.fromEntries(FIELDS.map((name) => [name, limit[name]]))

const NEW = { kinds: null, queues: null, tenants: null, per: "all", max_running: null, rate: null, burst: null, weights: {} }

const joined = (names) => (names ?? []).join(", ")
const parted = (text) => text.split(",").map((each) => each.trim()).filter(Boolean)

export function LimitForm({ limit, close, save }) {
  const box = useRef(null)
  const [name, setName] = useState("")
  const [given, setGiven] = useState(() => asWritten(limit ?? NEW))
  const [error, setError] = useState(null)
  const [busy, setBusy] = useState(false)
  useEffect(() => box.current.querySelector("input").focus(), [])
  const set = (field) => (value) => setGiven((was) => ({ ...was, [field]: value }))
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    try {
      await save(limit?.name ?? name.trim(), asSent(given))
      close()
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`
    <form ref=${box} class="limit-form" aria-label=${limit ? `Edit ${limit.name}` : "New limit"} onSubmit=${submit} onKeyDown=${(event) => event.key === "Escape" && close()} novalidate>
      ${!limit && html`<${TextField} label="Name" value=${name} change=${setName} required />`}
      <div class="columns">
        <${NumberField} label="Max running" min="0" step="1" value=${given.max_running} change=${set("max_running")} hint="Maximum concurrent jobs. Leave empty for no maximum." />
        <${NumberField} label="Starts per second" min="0" value=${given.rate} change=${set("rate")} hint="0.1 means one start every 10 s. Leave empty for no rate limit." />
        <${NumberField} label="Burst" min="1" value=${given.burst} change=${set("burst")} hint="Starts allowed at once." />
        <${SelectField} label="Scope" value=${given.per} change=${set("per")} options=${[["all", "all jobs together"], ["tenant", "each tenant"], ["key", "each key (limit_key)"]]} />
      </div>
      <div class="columns">
        <${TextField} label="Kinds" value=${given.kinds} change=${set("kinds")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Queues" value=${given.queues} change=${set("queues")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Tenants" value=${given.tenants} change=${set("tenants")} hint="Separated by commas. Leave empty for all." />
        <${TextField} label="Weights" value=${given.weights} change=${set("weights")} hint="How much a job of a kind counts, for example report=5, mail=0.5." />
      </div>
      ${error && html`<${Failure} error=${error} />`}
      <div class="bar"><${Button} strong small type="submit" busy=${busy} disabled=${!limit && !name.trim()}>${limit ? "Save" : "Create limit"}<//><${Button} small onClick=${close}>Cancel<//></div>
    </form>`
}

const asWritten = (limit) => ({
  ...limit, kinds: joined(limit.kinds), queues: joined(limit.queues), tenants: joined(limit.tenants),
  weights: Object.entries(limit.weights ?? {}).map(([kind, weight]) => `${kind}=${weight}`).join(", "),
})

function asSent(given) {
  const list = (text) => (parted(text).length ? parted(text) : null)
  const weights = Object.fromEntries(parted(given.weights).map((each) => {
    const [kind, weight] = each.split("=")
    if (!kind || !Number.isFinite(Number(weight ?? "x"))) throw new Error(`Invalid weight “${each}”: write kind=number, for example report=5.`)
    return [kind.trim(), Number(weight)]
  }))
  return { per: given.per, max_running: given.max_running, rate: given.rate, burst: given.burst, kinds: list(given.kinds), queues: list(given.queues), tenants: list(given.tenants), weights }
}
