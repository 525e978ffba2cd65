// Limits: current usage, edited inline.
import { api, useApi } from "../api.js"
import { count, exactly, plural, short } from "../format.js"
import { html, useEffect, useRef, useState } from "../lib.js"
import { setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Button, Card, Empty, Failure, Loaded, Meter, Names, Tag } from "../ui/basics.js"
import { Confirm } from "../ui/dialog.js"
import { NumberField, SelectField, TextField } from "../ui/fields.js"
import { Table } from "../ui/table.js"
import { complain, toast } from "../ui/toast.js"

const PER = { all: "all jobs together", tenant: "each tenant", key: "each key" }

export function Limits({ open }) {
  const session = useSession()
  const limits = useApi("/admin/limits", {}, { every: 2000 })
  const [making, setMaking] = useState(false)
  const may = session.can("queues:write")
  return html`
    <${Card} title="Limits" aside=${may && html`<${Button} small icon="plus" onClick=${() => setMaking(true)}>New limit<//>`}>
      ${making && html`<${LimitForm} close=${() => setMaking(false)} save=${(name, fields) => create(name, fields, limits)} />`}
      <${Loaded} from=${limits} lines=${4}>${(list) => list.length || making
        ? list.map((limit) => html`<${Limit} key=${limit.name} limit=${limit} may=${may} open=${open === limit.name} changed=${limits.reload} />`)
        : html`<${Empty} icon="sliders" title="No limits yet" command="posthouse limits set mailer --kind welcome --max-running 5">A limit caps concurrent jobs or the start rate, overall, per tenant or per key.<//>`}<//>
    <//>`
}

function Limit({ limit, may, open, changed }) {
  const [editing, setEditing] = useState(false)
  const [removing, setRemoving] = useState(false)
  const toggle = () => setQuery({ limit: open ? null : limit.name }, { replace: true })
  return html`
    <article class="limit" aria-label=${`Limit ${limit.name}`}>
      <div class="head"><b title=${`Changed ${exactly(limit.updated_at)}`}>${limit.name}</b><small><${Applies} limit=${limit} /></small></div>
      <div class="fill"><${Running} limit=${limit} /><${Pace} limit=${limit} /></div>
      <div class="steering">
        ${limit.per !== "all" && (open || limit.slots > 0) && html`<${Button} small icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${toggle}>${plural(limit.slots, PER_ONE[limit.per], PER_MANY[limit.per])}<//>`}
        ${may && html`<${Button} small icon="edit" label=${`Edit ${limit.name}`} onClick=${() => setEditing(!editing)} aria-expanded=${editing} />
        <${Button} small icon="trash" label=${`Delete ${limit.name}`} onClick=${() => setRemoving(true)} />`}
      </div>
      ${editing && html`<${LimitForm} limit=${limit} close=${() => setEditing(false)} save=${(_, fields) => change(limit, fields, changed)} />`}
      ${open && limit.per !== "all" && html`<${Slots} limit=${limit} />`}
      ${removing && html`<${Confirm} title=${`Delete ${limit.name}?`} danger actText="Delete limit" close=${() => setRemoving(false)} act=${() => remove(limit, changed)}>Its jobs are no longer limited.${limit.origin === "code" ? " The limit is defined in code: the next worker that starts creates it again." : ""}<//>`}
    </article>`
}

const PER_ONE = { tenant: "tenant", key: "key" }
const PER_MANY = { tenant: "tenants", key: "keys" }

/** The jobs and the scope of a limit. */
function Applies({ limit }) {
  const about = [...(limit.kinds ?? []), ...(limit.queues ?? []).map((name) => `queue ${name}`), ...(limit.tenants ?? []).map((name) => `tenant ${name}`)]
  return html`<${Names} names=${about} none="all jobs" /> <span>${PER[limit.per]}</span> ${limit.origin === "code" && html`<${Tag} title="Defined in the code of an app.">from code<//>`}`
}

function Running({ limit }) {
  if (limit.max_running === null) return html`<small>${count(limit.in_use)} running, no maximum</small>`
  if (limit.per === "all") return html`<div><${Meter} used=${limit.in_use} most=${limit.max_running} label=${`Running jobs of limit ${limit.name}`} /><small>running</small></div>`
  const full = limit.full_slots ? `, ${limit.full_slots} full` : ""
  return html`<div><${Meter} used=${limit.fullest} most=${limit.max_running} label=${`Fullest ${PER_ONE[limit.per]} of ${limit.name}`} /><small>in the fullest ${PER_ONE[limit.per]}; ${count(limit.in_use)} in total${full}</small></div>`
}

function Pace({ limit }) {
  if (limit.rate === null) return null
  const burst = limit.burst ?? Math.max(1, limit.rate)
  return html`<div><${Meter} used=${Math.max(0, limit.tokens ?? burst)} most=${burst} rising=${false} write=${tokens} label=${`Starts available under ${limit.name}`} /><small>starts available; ${rateText(limit.rate)}</small></div>`
}

const tokens = (value) => (value < 10 && !Number.isInteger(value) ? value.toFixed(1) : short(value))
const rateText = (rate) => (rate >= 1 || rate === 0 ? `${tokens(rate)} per second` : rate * 60 >= 1 ? `${tokens(rate * 60)} per minute` : `${tokens(rate * 3600)} per hour`)

function Slots({ limit }) {
  const detail = useApi(`/admin/limits/${encodeURIComponent(limit.name)}`, {}, { every: 2000 })
  const columns = [
    { name: "whose", text: limit.per === "tenant" ? "Tenant" : "Key", cell: ({ tenant_id, key }) => html`<b>${key ?? tenant_id}</b>${key !== null && tenant_id && html` <small>${tenant_id}</small>`}` },
    { name: "use", text: "Running", cell: (slot) => (slot.max_running === null ? count(slot.in_use) : html`<${Meter} used=${slot.in_use} most=${slot.max_running} label="Running" />`) },
    ...(limit.rate === null ? [] : [{ name: "tokens", text: "Starts available", cell: (slot) => html`<${Meter} used=${Math.max(0, slot.tokens ?? 0)} most=${slot.burst ?? Math.max(1, slot.rate)} rising=${false} write=${tokens} label="Starts available" />` }]),
  ]
  return html`<div class="below"><${Loaded} from=${detail} lines=${2}>${({ slots }) => slots.length ? html`<${Table} label=${`Slots of ${limit.name}`} columns=${columns} rows=${slots} rowKey=${({ tenant_id, key }) => `${tenant_id} ${key}`} />`
    : html`<p class="faint">No jobs count against this limit.</p>`}<//></div>`
}

const put = (name, fields) => api.put(`/admin/limits/${encodeURIComponent(name)}`, fields)
const drop = (name) => api.delete(`/admin/limits/${encodeURIComponent(name)}`)

/** Undoes a change and shows a toast. */
const back = (work, text, changed) => () => work().then(() => toast(text), complain).finally(changed)

async function create(name, fields, limits) {
  if (limits.data?.some((each) => each.name === name)) throw new Error(`Limit ${name} already exists; edit it instead.`)
  await put(name, fields)
  toast(`Limit ${name} created`, { undo: back(() => drop(name), `Limit ${name} deleted`, limits.reload) })
  limits.reload()
}

async function change(limit, fields, changed) {
  await put(limit.name, fields)
  toast(`Limit ${limit.name} saved`, { undo: back(() => put(limit.name, fieldsOf(limit)), `Limit ${limit.name}: change undone`, changed) })
  changed()
}

async function remove(limit, changed) {
  await drop(limit.name)
  toast(`Limit ${limit.name} deleted`, { undo: back(() => put(limit.name, fieldsOf(limit)), `Limit ${limit.name} restored`, changed) })
  changed()
}

// Inline form of a limit.

const FIELDS = ["kinds", "queues", "tenants", "per", "max_running", "rate", "burst", "weights"]

/** The editable fields of a limit. */
const fieldsOf = (limit) => Object.fromEntries(FIELDS.map((name) => [name, limit[name]]))

const NEW = { kinds: null, queues: null, tenants: null, per: "all", max_running: null, rate: null, burst: null, weights: {} }

const joined = (names) => (names ?? []).join(", ")
const parted = (text) => text.split(",").map((each) => each.trim()).filter(Boolean)

function LimitForm({ limit, close, save }) {
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
