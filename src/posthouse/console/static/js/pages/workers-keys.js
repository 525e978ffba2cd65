// Keys of remote workers: making one, which is shown once, and ending it.
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

const DAY = 86_400_000
const LIVES = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]]

export function RegisterButton({ made = () => {} }) {
  const session = useSession()
  const [open, setOpen] = useState(false)
  if (!session.can("keys:write")) return null
  return html`<${Button} icon="plus" onClick=${() => setOpen(true)}>Register a worker<//>${open && html`<${Register} close=${() => setOpen(false)} made=${made} />`}`
}

export function WorkerKeys() {
  const session = useSession()
  const keys = useApi("/admin/keys", {}, { every: 15_000 })
  const [ending, setEnding] = useState(null)
  const revoke = async () => {
    await api.delete(`/admin/keys/${ending.prefix}`)
    toast(`Revoked ${ending.name}`)
    keys.reload()
  }
  const columns = [
    { name: "name", text: "Key", cell: (key) => html`<span><b>${key.name}</b> <code class="faint">${key.prefix}…</code></span>` },
    { name: "state", text: "State", cell: (key) => html`<span><${KeyState} of=${key} /></span>` },
    { name: "queues", text: "Queues", cell: (key) => html`<${Names} names=${key.queues} none="all" />` },
    { name: "tenant", text: "Tenant", cell: (key) => key.tenant_id ?? html`<span class="faint">all</span>` },
    { name: "used", text: "Last used", cell: (key) => html`<${Time} at=${key.last_used_at} none="never" />` },
    { name: "made", text: "Made", cell: (key) => html`<span><${Time} at=${key.created_at} /> <span class="faint">by ${key.created_by}</span></span>` },
    ...(session.can("keys:write") ? [{ name: "end", text: "", align: "right", cell: (key) => isGood(key) && html`<${Button} small icon="trash" onClick=${() => setEnding(key)} aria-label=${`Revoke ${key.name}`}>Revoke<//>` }] : []),
  ]
  return html`
    <${Card} title="Keys of workers" aside=${html`<${RegisterButton} made=${keys.reload} />`}>
      <${Loaded} from=${keys} lines=${4}>${(all) => {
        const rows = all.filter(({ role }) => role === "worker").sort((one, other) => isGood(other) - isGood(one))
        return rows.length ? html`<${Table} label="Keys of workers" columns=${columns} rows=${rows} rowKey=${({ prefix }) => prefix} />`
          : html`<${Empty} icon="key" title="No key of a worker" command="posthouse keys create gpu-boxes --role worker">A worker with a key gets its jobs over HTTPS and needs no database. Register one here, or on the command line:<//>`
      }}<//>
    <//>
    ${ending && html`<${Confirm} title=${`Revoke ${ending.name}?`} danger actText="Revoke it" close=${() => setEnding(null)} act=${revoke}>Workers with this key stop at once, and what they run goes to others. A revoked key is never good again.<//>`}`
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
  const [given, setGiven] = useState({ name: "", queues: "", tenant: session.tenant ?? "", days: "" })
  const [key, setKey] = useState(null)
  const set = (name) => (value) => setGiven({ ...given, [name]: value })
  const send = async () => {
    const queues = given.queues.split(/[\s,]+/).filter(Boolean)
    const expires_at = given.days ? new Date(Date.now() + Number(given.days) * DAY).toISOString() : null
    setKey(await api.post("/admin/keys", { name: given.name.trim(), role: "worker", queues: queues.length ? queues : null, tenant_id: given.tenant || null, expires_at }))
    made()
    return false
  }
  if (key) return html`<${Made} made=${key} close=${close} />`
  return html`
    <${Dialog} title="Register a worker" close=${close} act=${send} actText="Make a key" disabled=${!given.name.trim()}>
      <p class="faint">A remote worker needs a key and the address of this server, and no database. The key says which jobs it may get.</p>
      <${TextField} label="Name" value=${given.name} change=${set("name")} hint="Where it is, say: gpu-boxes." />
      <${TextField} label="Queues" value=${given.queues} change=${set("queues")} hint="Only these, with commas between them. Empty: all." />
      <div class="columns">
        <${SelectField} label="Tenant" value=${given.tenant} change=${set("tenant")} options=${[["", "All tenants"], ...(tenants.data ?? []).map(({ id, label }) => [id, label || id])]} />
        <${SelectField} label="Expires" value=${given.days} change=${set("days")} options=${LIVES} />
      </div>
    <//>`
}

function Made({ made, close }) {
  const server = new URL("..", document.baseURI).href.replace(/\/$/, "")
  const done = () => {
    close()
    go(link("workers", { show: "keys" }))
  }
  return html`
    <${Dialog} title="Shown this once" close=${done} wide>
      <p>Copy the key of <b>${made.name}</b> now: it is not stored, and nobody can show it again.</p>
      <${Snippet} text=${made.key} />
      <p>On the machine that is to work, with your app:</p>
      <${Snippet} text="pip install 'posthouse[remote]'" />
      <${Snippet} text=${`export POSTHOUSE_REMOTE_KEY=${made.key}`} />
      <${Snippet} text=${`posthouse worker --remote ${server} --app shop.jobs:app`} />
    <//>`
}
