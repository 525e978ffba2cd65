// Keys of the API: who has one, what it opens, when it was last used. A new one is shown once.
import { api, useApi } from "../api.js"
import { html, useState } from "../lib.js"
import { plural } from "../format.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Button, Empty, Loaded, Snippet, Tag, Time } from "../ui/basics.js"
import { Confirm, Dialog } from "../ui/dialog.js"
import { SelectField, TextField } from "../ui/fields.js"
import { Table } from "../ui/table.js"
import { toast } from "../ui/toast.js"

const ROLES = {
  "super-admin": "Everything, for all tenants.",
  "tenant-admin": "All of one tenant: jobs, triggers, keys.",
  "tenant-viewer": "Sees what a tenant has, changes nothing.",
  "event-emitter": "Only says what happened.",
  worker: "Runs jobs from elsewhere, over HTTP.",
}
const OF_NO_TENANT = ["super-admin"]
const WITHOUT_TENANT = ["super-admin", "worker"]
const DAY = 86_400_000
const ENDS = [["", "Never"], ["7", "In a week"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"]]

export function Keys({ query }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const keys = useApi("/admin/keys", {}, { every: 30_000 })
  const writes = session.can("keys:write")
  const over = (key) => key.revoked_at || (key.expires_at && new Date(key.expires_at) < Date.now())
  return html`
    <div class="bar"><p class="faint grow">A key says who a program is and what it may do. Only its beginning is known here.</p>
      ${writes && html`<${Button} icon="plus" onClick=${() => setAsked({ what: "create" })}>New key<//>`}</div>
    <${Loaded} from=${keys} lines=${6}>${(list) => {
      const ended = list.filter(over)
      const shown = query.ended ? list : list.filter((key) => !over(key))
      return html`
        ${shown.length ? html`<${Table} label="Keys" rows=${shown} rowKey=${({ prefix }) => prefix} rowClass=${(key) => over(key) && "over"} columns=${columns(session, writes && setAsked, over)} />`
          : html`<${Empty} icon="key" title="No key yet" command="posthouse keys create shop --role event-emitter --tenant acme">Programs need one to use the API; people log in here with theirs.<//>`}
        ${ended.length > 0 && html`<div data-stay><a href=${link("operator/keys", { ended: query.ended ? null : 1 })}>${query.ended ? "Hide" : "Show"} ${plural(ended.length, "key")} that ended</a></div>`}`
    }}<//>
    ${asked?.what === "create" && html`<${NewKey} session=${session} close=${() => setAsked(null)} done=${keys.reload} />`}
    ${asked?.what === "revoke" && html`
      <${Confirm} title=${`Revoke “${asked.key.name}”?`} danger actText="Revoke" close=${() => setAsked(null)} act=${async () => {
        await api.delete(`/admin/keys/${asked.key.prefix}`)
        toast(`${asked.key.name} opens nothing any more`)
        keys.reload()
      }}>Whoever uses it is shut out at once, and for good. ${asked.key.last_used_at ? html`It was last used <${Time} at=${asked.key.last_used_at} />.` : "It was never used."}<//>`}`
}

const columns = (session, ask, over) => [
  { name: "name", text: "Name", wide: true, cell: (key) => html`<span><b>${key.name}</b> <small class="id">${key.prefix}…</small></span>` },
  { name: "role", text: "Role", cell: (key) => html`<${Tag} tone=${key.role === "super-admin" ? "warn" : undefined} title=${ROLES[key.role]}>${key.role.replace("-", " ")}<//>` },
  session.operator && { name: "tenant", text: "Tenant", cell: (key) => key.tenant_id ?? html`<span class="faint">all</span>` },
  { name: "queues", text: "Queues", cell: (key) => (key.queues ? html`<span title=${key.queues.join(", ")}>${key.queues.join(", ")}</span>` : html`<span class="faint">–</span>`) },
  { name: "used", text: "Last used", cell: (key) => html`<${Time} at=${key.last_used_at} none="never" />` },
  { name: "created", text: "Created", cell: (key) => html`<span><${Time} at=${key.created_at} /> <small>by ${key.created_by}</small></span>` },
  { name: "ends", text: "Ends", cell: (key) => (key.revoked_at ? html`<span><${Tag} tone="bad">revoked<//> <${Time} at=${key.revoked_at} /></span>` : html`<${Time} at=${key.expires_at} none="never" />`) },
  ask && { name: "do", text: "", align: "right", cell: (key) => !over(key) && html`<${Button} small onClick=${() => ask({ what: "revoke", key })} aria-label=${`Revoke ${key.name}`}>Revoke<//>` },
].filter(Boolean)

function NewKey({ session, close, done }) {
  const [fields, setFields] = useState({ name: "", role: session.operator ? "tenant-admin" : "tenant-viewer", tenant_id: session.tenant ?? "", queues: "", ends: "" })
  const [made, setMade] = useState(null)
  const tenants = useApi(session.operator && session.can("tenants:read") ? "/admin/tenants" : null)
  const set = (name) => (value) => setFields({ ...fields, [name]: value })
  const ofTenant = session.operator && !OF_NO_TENANT.includes(fields.role)
  const create = async () => {
    const queues = fields.queues.split(/[\s,]+/).filter(Boolean)
    setMade(await api.post("/admin/keys", {
      name: fields.name.trim(), role: fields.role,
      tenant_id: (ofTenant && fields.tenant_id) || null,
      queues: fields.role === "worker" && queues.length ? queues : null,
      expires_at: fields.ends ? new Date(Date.now() + Number(fields.ends) * DAY).toISOString() : null,
    }))
    done()
    return false
  }
  if (made) return html`<${MadeKey} made=${made} close=${close} />`
  const roles = Object.keys(ROLES).filter((role) => session.operator || !WITHOUT_TENANT.includes(role))
  const missing = !fields.name.trim() || (ofTenant && !WITHOUT_TENANT.includes(fields.role) && !fields.tenant_id)
  return html`
    <${Dialog} title="New key" close=${close} act=${create} actText="Create" disabled=${missing}>
      <${TextField} label="Name" value=${fields.name} change=${set("name")} maxlength="200" autofocus hint="What it is for: “web shop”, “CI”. The audit log calls its deeds by it." />
      <${SelectField} label="Role" value=${fields.role} change=${set("role")} options=${roles.map((role) => [role, role.replace("-", " ")])} hint=${ROLES[fields.role]} />
      ${ofTenant && html`<${SelectField} label="Tenant" value=${fields.tenant_id} change=${set("tenant_id")}
        options=${[["", fields.role === "worker" ? "All tenants" : "Choose a tenant"], ...choices(tenants.data)]} />`}
      ${fields.role === "worker" && html`<${TextField} label="Queues" value=${fields.queues} change=${set("queues")} hint="Those that it may take jobs from, with commas between. Empty: all." />`}
      <${SelectField} label="Ends" value=${fields.ends} change=${set("ends")} options=${ENDS} />
    <//>`
}

/** Jobs without a tenant are of “default”, whether somebody created it or not. */
const choices = (tenants = []) => [{ id: "default" }, ...(tenants ?? []).filter(({ id }) => id !== "default")].map(({ id, label }) => [id, label && label !== id ? `${label} (${id})` : id])

const MadeKey = ({ made, close }) => html`
  <${Dialog} title="Copy it now" close=${close}>
    <p>This is the key of <b>${made.name}</b>. It is shown this once: only a hash of it is stored.</p>
    <${Snippet} text=${made.key} />
    <p class="faint">Programs show it as <code>Authorization: Bearer …</code>; here people log in with it.</p>
  <//>`
