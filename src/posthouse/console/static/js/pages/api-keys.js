// API keys of operators and of remote workers. A new key is shown once.
import { api, useApi } from "../api.js"
import { Confirm, Dialog } from "../components/dialog.js"
import { AsyncContent, Button, Card, EmptyState, Snippet, Table, Tag, TagList, Time } from "../components/display.js"
import { CheckField, SelectField, TextField } from "../components/forms.js"
import { toast } from "../components/toast.js"
import { plural } from "../format.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"

const ROLES = {
  "super-admin": "Full access to all tenants.",
  "tenant-admin": "Full access to one tenant: jobs, triggers, keys.",
  "tenant-viewer": "Read-only access to one tenant.",
  "event-emitter": "Can only emit events.",
  worker: "Remote worker: runs jobs over HTTP.",
}
const ROLES_WITHOUT_TENANT = ["super-admin"]
const WITHOUT_TENANT = ["super-admin", "worker"]
const DAY = 86_400_000
const EXPIRY_OPTIONS = [["", "Never"], ["7", "In a week"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"]]

export function Keys({ query }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const keys = useApi("/admin/keys", {}, { every: 30_000 })
  const writes = session.can("keys:write")
  const over = (key) => key.revoked_at || (key.expires_at && new Date(key.expires_at) < Date.now())
  return html`
    <div class="bar"><p class="faint grow">API keys authenticate programs and users. Only the prefix is stored in clear text.</p>
      ${writes && html`<${Button} icon="plus" onClick=${() => setAsked({ what: "create" })}>New key<//>`}</div>
    <${AsyncContent} request=${keys} lines=${6}>${(list) => {
      const ended = list.filter(over)
      const shown = query.ended ? list : list.filter((key) => !over(key))
      return html`
        ${shown.length ? html`<${Table} label="Keys" rows=${shown} rowKey=${({ prefix }) => prefix} rowClass=${(key) => over(key) && "over"} columns=${columns(session, writes && setAsked, over)} />`
          : html`<${EmptyState} icon="key" title="No keys yet" command="posthouse keys create shop --role event-emitter --tenant acme">API keys appear here. Programs use them to call the API, users to log in to the console.<//>`}
        ${ended.length > 0 && html`<div data-stay><a href=${link("operator/keys", { ended: query.ended ? null : 1 })}>${query.ended ? "Hide" : "Show"} ${plural(ended.length, "expired or revoked key")}</a></div>`}`
    }}<//>
    ${asked?.what === "create" && html`<${NewKey} session=${session} onClose=${() => setAsked(null)} onDone=${keys.reload} />`}
    ${asked?.what === "revoke" && html`
      <${Confirm} title=${`Revoke “${asked.key.name}”?`} danger submitText="Revoke" onClose=${() => setAsked(null)} onSubmit=${async () => {
        await api.delete(`/admin/keys/${asked.key.prefix}`)
        toast(`Key “${asked.key.name}” revoked`)
        keys.reload()
      }}>Clients using this key lose access immediately. This cannot be undone. ${asked.key.last_used_at ? html`The key was last used <${Time} at=${asked.key.last_used_at} />.` : "The key was never used."}<//>`}`
}

const columns = (session, ask, over) => [
  { name: "name", text: "Name", wide: true, cell: (key) => html`<span><b>${key.name}</b> <small class="id">${key.prefix}…</small></span>` },
  { name: "role", text: "Role", cell: (key) => html`<${Tag} tone=${key.role === "super-admin" ? "warn" : undefined} title=${ROLES[key.role]}>${key.role.replace("-", " ")}<//>` },
  session.operator && { name: "tenant", text: "Tenant", cell: (key) => key.tenant_id ?? html`<span class="faint">all</span>` },
  { name: "queues", text: "Queues", cell: (key) => (key.queues ? html`<span title=${key.queues.join(", ")}>${key.queues.join(", ")}</span>` : html`<span class="faint">–</span>`) },
  { name: "used", text: "Last used", cell: (key) => html`<${Time} at=${key.last_used_at} placeholder="never" />` },
  { name: "created", text: "Created", cell: (key) => html`<span><${Time} at=${key.created_at} /> <small>by ${key.created_by}</small></span>` },
  { name: "ends", text: "Expires", cell: (key) => (key.revoked_at ? html`<span><${Tag} tone="bad">revoked<//> <${Time} at=${key.revoked_at} /></span>` : html`<${Time} at=${key.expires_at} placeholder="never" />`) },
  ask && { name: "do", text: "", align: "right", cell: (key) => !over(key) && html`<${Button} small onClick=${() => ask({ what: "revoke", key })} aria-label=${`Revoke ${key.name}`}>Revoke<//>` },
].filter(Boolean)

function NewKey({ session, onClose, onDone }) {
  const [fields, setFields] = useState({ name: "", role: session.operator ? "tenant-admin" : "tenant-viewer", tenant_id: session.tenant ?? "", queues: "", announce: false, ends: "" })
  const [made, setMade] = useState(null)
  const tenants = useApi(session.operator && session.can("tenants:read") ? "/admin/tenants" : null)
  const set = (name) => (value) => setFields({ ...fields, [name]: value })
  const worker = fields.role === "worker"
  const ofTenant = session.operator && !ROLES_WITHOUT_TENANT.includes(fields.role)
  const create = async () => {
    const queues = fields.queues.split(/[\s,]+/).filter(Boolean)
    setMade(await api.post("/admin/keys", {
      name: fields.name.trim(), role: fields.role,
      tenant_id: (ofTenant && fields.tenant_id) || null,
      queues: worker && queues.length ? queues : null,
      may_announce: worker && !fields.tenant_id && fields.announce,
      expires_at: fields.ends ? new Date(Date.now() + Number(fields.ends) * DAY).toISOString() : null,
    }))
    onDone()
    return false
  }
  if (made) return html`<${NewKeyDialog} created=${made} onClose=${onClose} />`
  const roles = Object.keys(ROLES).filter((role) => session.operator || !WITHOUT_TENANT.includes(role))
  const missing = !fields.name.trim() || (ofTenant && !WITHOUT_TENANT.includes(fields.role) && !fields.tenant_id)
  return html`
    <${Dialog} title="New key" onClose=${onClose} onSubmit=${create} submitText="Create" disabled=${missing}>
      <${TextField} label="Name" value=${fields.name} onChange=${set("name")} maxlength="200" autofocus hint="The purpose of the key, for example “web shop” or “CI”. The name shown in the audit log." />
      <${SelectField} label="Role" value=${fields.role} onChange=${set("role")} options=${roles.map((role) => [role, role.replace("-", " ")])} hint=${ROLES[fields.role]} />
      ${ofTenant && html`<${SelectField} label="Tenant" value=${fields.tenant_id} onChange=${set("tenant_id")}
        options=${[["", worker ? "All tenants" : "Choose a tenant"], ...choices(tenants.data)]} />`}
      ${worker && html`<${TextField} label="Queues" value=${fields.queues} onChange=${set("queues")} hint="Queues the worker may serve, separated by commas. Leave empty for all." />
        ${!fields.tenant_id && html`<${Announce} value=${fields.announce} onChange=${set("announce")} />`}`}
      <${SelectField} label="Expires" value=${fields.ends} onChange=${set("ends")} options=${EXPIRY_OPTIONS} />
    <//>`
}

const Announce = (given) => html`<${CheckField} ...${given} label="May announce definitions" hint="Stores the definitions, limits and triggers of the worker's code." />`

/** Jobs without a tenant belong to “default”, which always exists. */
const choices = (tenants = []) => [{ id: "default" }, ...(tenants ?? []).filter(({ id }) => id !== "default")].map(({ id, label }) => [id, label && label !== id ? `${label} (${id})` : id])

const NewKeyDialog = ({ created, onClose }) => html`
  <${Dialog} title="Copy your new key" onClose=${onClose}>
    <p>The key <b>${created.name}</b> is shown only once; only a hash is stored.</p>
    <${Snippet} text=${created.key} />
    <p class="faint">Programs send it as <code>Authorization: Bearer …</code>; users log in to the console with it.</p>
  <//>`

// Keys of remote workers: create and revoke. A new key is shown once.

const LIFETIME_OPTIONS = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]]

export function RegisterButton({ onCreated = () => {} }) {
  const session = useSession()
  const [open, setOpen] = useState(false)
  if (!session.can("keys:write")) return null
  return html`<${Button} icon="plus" onClick=${() => setOpen(true)}>Register worker<//>${open && html`<${Register} onClose=${() => setOpen(false)} onCreated=${onCreated} />`}`
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
    { name: "state", text: "State", cell: (key) => html`<span><${KeyState} apiKey=${key} /></span>` },
    { name: "queues", text: "Queues", cell: (key) => html`<${TagList} names=${key.queues} placeholder="all" />` },
    { name: "tenant", text: "Tenant", cell: (key) => key.tenant_id ?? html`<span class="faint">all</span>` },
    { name: "used", text: "Last used", cell: (key) => html`<${Time} at=${key.last_used_at} placeholder="never" />` },
    { name: "made", text: "Created", cell: (key) => html`<span><${Time} at=${key.created_at} /> <span class="faint">by ${key.created_by}</span></span>` },
    ...(session.can("keys:write") ? [{ name: "end", text: "", align: "right", cell: (key) => isGood(key) && html`<${Button} small icon="trash" onClick=${() => setEnding(key)} aria-label=${`Revoke ${key.name}`}>Revoke<//>` }] : []),
  ]
  return html`
    <${Card} title="Worker keys" aside=${html`<${RegisterButton} onCreated=${keys.reload} />`}>
      <${AsyncContent} request=${keys} lines=${4}>${(all) => {
        const rows = all.filter(({ role }) => role === "worker").sort((one, other) => isGood(other) - isGood(one))
        return rows.length ? html`<${Table} label="Worker keys" columns=${columns} rows=${rows} rowKey=${({ prefix }) => prefix} />`
          : html`<${EmptyState} icon="key" title="No worker keys yet" command="posthouse keys create gpu-boxes --role worker">Keys of remote workers appear here. A remote worker gets its jobs over HTTPS and needs no database connection. Register one here, or run:<//>`
      }}<//>
    <//>
    ${ending && html`<${Confirm} title=${`Revoke ${ending.name}?`} danger submitText="Revoke key" onClose=${() => setEnding(null)} onSubmit=${revoke}>Workers using this key stop immediately and their running jobs are rescued. This cannot be undone.<//>`}`
}

const isGood = ({ revoked_at, expires_at }) => !revoked_at && !(expires_at && new Date(expires_at) < Date.now())

function KeyState({ apiKey: key }) {
  if (key.revoked_at) return html`<${Tag} tone="bad">revoked<//> <${Time} at=${key.revoked_at} />`
  if (!isGood(key)) return html`<${Tag} tone="warn">expired<//> <${Time} at=${key.expires_at} />`
  return html`<${Tag} tone="good">good<//>${key.expires_at && html` <span class="faint">ends <${Time} at=${key.expires_at} /></span>`}`
}

function Register({ onClose, onCreated }) {
  const session = useSession()
  const tenants = useApi(session.can("tenants:read") ? "/admin/tenants" : null)
  const [given, setGiven] = useState({ name: "", queues: "", tenant: session.tenant ?? "", announce: false, days: "" })
  const [key, setKey] = useState(null)
  const set = (name) => (value) => setGiven({ ...given, [name]: value })
  const send = async () => {
    const queues = given.queues.split(/[\s,]+/).filter(Boolean)
    const expires_at = given.days ? new Date(Date.now() + Number(given.days) * DAY).toISOString() : null
    setKey(await api.post("/admin/keys", { name: given.name.trim(), role: "worker", queues: queues.length ? queues : null, tenant_id: given.tenant || null, may_announce: !given.tenant && given.announce, expires_at }))
    onCreated()
    return false
  }
  if (key) return html`<${CreatedKey} created=${key} onClose=${onClose} />`
  return html`
    <${Dialog} title="Register worker" onClose=${onClose} onSubmit=${send} submitText="Create key" disabled=${!given.name.trim()}>
      <p class="faint">A remote worker needs an API key and the URL of this server, but no database connection. The key limits which jobs it may run.</p>
      <${TextField} label="Name" value=${given.name} onChange=${set("name")} hint="The location of the workers, for example gpu-boxes." />
      <${TextField} label="Queues" value=${given.queues} onChange=${set("queues")} hint="Queues the worker may serve, separated by commas. Leave empty for all." />
      <div class="columns">
        <${SelectField} label="Tenant" value=${given.tenant} onChange=${set("tenant")} options=${[["", "All tenants"], ...(tenants.data ?? []).map(({ id, label }) => [id, label || id])]} />
        <${SelectField} label="Expires" value=${given.days} onChange=${set("days")} options=${LIFETIME_OPTIONS} />
      </div>
      ${!given.tenant && html`<${Announce} value=${given.announce} onChange=${set("announce")} />`}
    <//>`
}

function CreatedKey({ created, onClose }) {
  const server = new URL("..", document.baseURI).href.replace(/\/$/, "")
  const done = () => {
    onClose()
    navigate(link("workers", { show: "keys" }))
  }
  return html`
    <${Dialog} title="Copy your new key" onClose=${done} wide>
      <p>The key <b>${created.name}</b> is shown only once; only a hash is stored.</p>
      <${Snippet} text=${created.key} />
      <p>On the worker machine, where your app is installed:</p>
      <${Snippet} text="pip install 'posthouse[remote]'" />
      <${Snippet} text=${`export POSTHOUSE_REMOTE_KEY=${created.key}`} />
      <${Snippet} text=${`posthouse worker --remote ${server} --app shop.jobs:app`} />
    <//>`
}
