// Keys of remote workers: create and revoke. A new key is shown once.
import { api, useApi } from "../api.js"
import { html, useState } from "../lib.js"
import { go, link } from "../router.js"
import { useSession } from "../session.js"
import { Button, Card, Empty, Loaded, Snippet, Tag, Time } from "../ui/basics.js"
import { Confirm, Dialog } from "../ui/dialog.js"
import { SelectField, TextField } from "../ui/fields.js"
import { Names } from "../ui/meter.js"
import { Table } from "../ui/table.js"
import { toast } from "../ui/toast.js"
import { Announce } from "./operator-keys.js"

const DAY = 86_400_000
const LIVES = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]]

export function RegisterButton({ made = () => {} }) {
  const session = useSession()
  const [open, setOpen] = useState(false)
  if (!session.can("keys:write")) return null
  return html`<${Button} icon="plus" onClick=${() => setOpen(true)}>Register worker<//>${open && html`<${Register} close=${() => setOpen(false)} made=${made} />`}`
}

export function WorkerKeys() {
  const session = useSession()
  const keys = useApi("/admin/keys", {}, { every: 15_000 })
  const [ending, setEnding] = useState(null)
  const revoke = async () => {
    await api.delete(`/admin/keys/${ending.prefix}`)
    toast(`Key “${ending.name}” revoked`)
    keys.reload()
  }
  const columns = [
    { name: "name", text: "Key", cell: (key) => html`<span><b>${key.name}</b> <code class="faint">${key.prefix}…</code></span>` },
    { name: "state", text: "State", cell: (key) => html`<span><${KeyState} of=${key} /></span>` },
    { name: "queues", text: "Queues", cell: (key) => html`<${Names} names=${key.queues} none="all" />` },
    { name: "tenant", text: "Tenant", cell: (key) => key.tenant_id ?? html`<span class="faint">all</span>` },
    { name: "used", text: "Last used", cell: (key) => html`<${Time} at=${key.last_used_at} none="never" />` },
    { name: "made", text: "Created", cell: (key) => html`<span><${Time} at=${key.created_at} /> <span class="faint">by ${key.created_by}</span></span>` },
    ...(session.can("keys:write") ? [{ name: "end", text: "", align: "right", cell: (key) => isGood(key) && html`<${Button} small icon="trash" onClick=${() => setEnding(key)} aria-label=${`Revoke ${key.name}`}>Revoke<//>` }] : []),
  ]
  return html`
    <${Card} title="Worker keys" aside=${html`<${RegisterButton} made=${keys.reload} />`}>
      <${Loaded} from=${keys} lines=${4}>${(all) => {
        const rows = all.filter(({ role }) => role === "worker").sort((one, other) => isGood(other) - isGood(one))
        return rows.length ? html`<${Table} label="Worker keys" columns=${columns} rows=${rows} rowKey=${({ prefix }) => prefix} />`
          : html`<${Empty} icon="key" title="No worker keys yet" command="posthouse keys create gpu-boxes --role worker">Keys of remote workers appear here. A remote worker gets its jobs over HTTPS and needs no database connection. Register one here, or run:<//>`
      }}<//>
    <//>
    ${ending && html`<${Confirm} title=${`Revoke ${ending.name}?`} danger actText="Revoke key" close=${() => setEnding(null)} act=${revoke}>Workers using this key stop immediately and their running jobs are rescued. This cannot be undone.<//>`}`
}

const isGood = ({ revoked_at, expires_at }) => !revoked_at && !(expires_at && new Date(expires_at) < Date.now())

function KeyState({ of: key }) {
  if (key.revoked_at) return html`<${Tag} tone="bad">revoked<//> <${Time} at=${key.revoked_at} />`
  if (!isGood(key)) return html`<${Tag} tone="warn">expired<//> <${Time} at=${key.expires_at} />`
  return html`<${Tag} tone="good">good<//>${key.expires_at && html` <span class="faint">ends <${Time} at=${key.expires_at} /></span>`}`
}

function Register({ close, made }) {
  const session = useSession()
  const tenants = useApi(session.can("tenants:read") ? "/admin/tenants" : null)
  const [given, setGiven] = useState({ name: "", queues: "", tenant: session.tenant ?? "", announce: false, days: "" })
  const [key, setKey] = useState(null)
  const set = (name) => (value) => setGiven({ ...given, [name]: value })
  const send = async () => {
    const queues = given.queues.split(/[\s,]+/).filter(Boolean)
    const expires_at = given.days ? new Date(Date.now() + Number(given.days) * DAY).toISOString() : null
    setKey(await api.post("/admin/keys", { name: given.name.trim(), role: "worker", queues: queues.length ? queues : null, tenant_id: given.tenant || null, may_announce: !given.tenant && given.announce, expires_at }))
    made()
    return false
  }
  if (key) return html`<${Made} made=${key} close=${close} />`
  return html`
    <${Dialog} title="Register worker" close=${close} act=${send} actText="Create key" disabled=${!given.name.trim()}>
      <p class="faint">A remote worker needs an API key and the URL of this server, but no database connection. The key limits which jobs it may run.</p>
      <${TextField} label="Name" value=${given.name} change=${set("name")} hint="The location of the workers, for example gpu-boxes." />
      <${TextField} label="Queues" value=${given.queues} change=${set("queues")} hint="Queues the worker may serve, separated by commas. Leave empty for all." />
      <div class="columns">
        <${SelectField} label="Tenant" value=${given.tenant} change=${set("tenant")} options=${[["", "All tenants"], ...(tenants.data ?? []).map(({ id, label }) => [id, label || id])]} />
        <${SelectField} label="Expires" value=${given.days} change=${set("days")} options=${LIVES} />
      </div>
      ${!given.tenant && html`<${Announce} value=${given.announce} change=${set("announce")} />`}
    <//>`
}

function Made({ made, close }) {
  const server = new URL("..", document.baseURI).href.replace(/\/$/, "")
  const done = () => {
    close()
    go(link("workers", { show: "keys" }))
  }
  return html`
    <${Dialog} title="Copy your new key" close=${done} wide>
      <p>The key <b>${made.name}</b> is shown only once; only a hash is stored.</p>
      <${Snippet} text=${made.key} />
      <p>On the worker machine, where your app is installed:</p>
      <${Snippet} text="pip install 'posthouse[remote]'" />
      <${Snippet} text=${`export POSTHOUSE_REMOTE_KEY=${made.key}`} />
      <${Snippet} text=${`posthouse worker --remote ${server} --app shop.jobs:app`} />
    <//>`
}
