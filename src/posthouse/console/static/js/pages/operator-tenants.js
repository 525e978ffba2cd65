// Tenants: jobs, recent arrivals and failures, weight and retention.
import { api, useApi } from "../api.js"
import { Sparkline } from "../components/chart.js"
import { Confirm, Dialog } from "../components/dialog.js"
import { AsyncContent, Button, EmptyState, StatTile, Table, Time } from "../components/display.js"
import { NumberField, TextField } from "../components/forms.js"
import { runWithToast, toast } from "../components/toast.js"
import { formatCompact, formatInteger, percent, plural } from "../format.js"
import { html, useState } from "../preact.js"
import { link, navigate } from "../router.js"
import { useSession } from "../session.js"

/** The tenant of system jobs. */
const SYSTEM_TENANT = "posthouse"

/** Includes tenants that were never created explicitly but had jobs in the last hour. */
export function Tenants() {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const tenants = useApi("/admin/tenants", {}, { every: 10_000 })
  const stats = useApi("/stats", { by: "tenant", span_seconds: 3600, step_seconds: 300 }, { every: 30_000 })
  const hours = new Map((stats.data ?? []).map((series) => [series.tenant, series]))
  const unlisted = [...hours.keys()].filter((id) => id !== SYSTEM_TENANT && !tenants.data?.some((tenant) => tenant.id === id)).map((id) => ({ id, label: "", queued: 0, running: 0, unlisted: true }))
  const writes = session.can("tenants:write")
  return html`
    <${Totals} tenants=${tenants.data && [...tenants.data, ...unlisted]} series=${stats.data} />
    <div class="bar"><span class="grow"></span>${writes && html`<${Button} icon="plus" onClick=${() => setAsked({ what: "create" })}>New tenant<//>`}</div>
    <${AsyncContent} request=${tenants} lines=${6}>${(list) => list.length + unlisted.length
      ? html`<${Table} label="Tenants" rows=${[...list, ...unlisted]} rowKey=${({ id }) => id} columns=${columns(hours, session, writes && setAsked)} />`
      : html`<${EmptyState} title="No tenants yet" command="posthouse tenants create acme">A tenant appears when it is created or gets its first job. Jobs without a tenant belong to “default”.<//>`}<//>
    ${asked?.what === "create" && html`<${TenantDialog} onClose=${() => setAsked(null)} onDone=${tenants.reload} />`}
    ${asked?.what === "edit" && html`<${TenantDialog} tenant=${asked.tenant} onClose=${() => setAsked(null)} onDone=${tenants.reload} />`}
    ${asked?.what === "delete" && html`<${DeleteTenant} tenant=${asked.tenant} onClose=${() => setAsked(null)} onDone=${tenants.reload} />`}`
}

function Totals({ tenants, series }) {
  const sum = (list, of) => list?.reduce((total, each) => total + (of(each) ?? 0), 0)
  const failures = sum(series, ({ total }) => total.failures)
  return html`
    <div class="tiles">
      <${StatTile} name="Tenants" value=${tenants ? formatInteger(tenants.length) : "…"} hint="total" />
      <${StatTile} name="Queued" value=${tenants ? formatCompact(sum(tenants, ({ queued }) => queued)) : "…"} hint="ready, scheduled and blocked" />
      <${StatTile} name="Running" value=${tenants ? formatCompact(sum(tenants, ({ running }) => running)) : "…"} hint="now" />
      <${StatTile} name="Enqueued" value=${series ? formatCompact(sum(series, ({ total }) => total.arrivals)) : "…"} hint="in the last hour" />
      <${StatTile} name="Failed attempts" value=${series ? formatCompact(failures) : "…"} hint="in the last hour" tone=${failures > 0 ? "warn" : undefined} />
    </div>`
}

function columns(hours, session, ask) {
  const look = (tenant) => {
    session.chooseTenant(tenant.id)
    navigate(link(""))
  }
  const total = (tenant) => hours.get(tenant.id)?.total
  return [
    { name: "tenant", text: "Tenant", cell: (tenant) => html`<button type="button" class="name" title=${`Show only ${tenant.id}`} onClick=${() => look(tenant)}><b>${tenant.label || tenant.id}</b>${tenant.label && html` <small>${tenant.id}</small>`}</button>` },
    { name: "queued", text: "Queued", align: "right", cell: ({ queued }) => formatCompact(queued) },
    { name: "running", text: "Running", align: "right", cell: ({ running }) => formatCompact(running) },
    { name: "arrived", text: "Enqueued, last hour", align: "right", cell: (tenant) => html`<span class="spark"><${Sparkline} tone="accent" width=${72} height=${20} label="Jobs enqueued in the last hour" values=${hours.get(tenant.id)?.points.map(({ arrivals }) => arrivals) ?? []} /><span class="figure">${formatCompact(total(tenant)?.arrivals)}</span></span>` },
    { name: "failed", text: "Failed attempts", align: "right", cell: (tenant) => html`<${Failed} total=${total(tenant)} />` },
    { name: "weight", text: "Weight", align: "right", cell: ({ weight = 1 }) => String(weight) },
    { name: "kept", text: "Retention", align: "right", cell: ({ retention_days: days }) => (days ? plural(days, "day") : html`<span class="faint">default</span>`) },
    { name: "created", text: "Created", cell: ({ created_at: at }) => html`<${Time} at=${at} placeholder="automatically" />` },
    ask && { name: "do", text: "", align: "right", cell: (tenant) => !tenant.unlisted && html`<span>
      <${Button} plain small icon="edit" label=${`Edit ${tenant.id}`} onClick=${() => ask({ what: "edit", tenant })} />
      <${Button} plain small icon="trash" label=${`Delete ${tenant.id}`} onClick=${() => ask({ what: "delete", tenant })} /></span>` },
  ].filter(Boolean)
}

function Failed({ total }) {
  const tried = (total?.ended ?? 0) + (total?.failures ?? 0)
  if (!tried) return html`<span class="faint">–</span>`
  return html`<span><span class=${total.failures ? "bad" : undefined}>${formatCompact(total.failures)}</span> <small>${percent(total.failures / tried)}</small></span>`
}

const FIELDS = ["label", "weight", "retention_days"]

function TenantDialog({ tenant, onClose, onDone }) {
  const [id, setId] = useState(tenant?.id ?? "")
  const [fields, setFields] = useState({ label: tenant?.label ?? "", weight: tenant?.weight ?? 1, retention_days: tenant?.retention_days ?? null })
  const set = (name) => (value) => setFields({ ...fields, [name]: value })
  const write = (values) => api.patch(`/admin/tenants/${encodeURIComponent(tenant.id)}`, values).then(onDone)
  const save = async () => {
    if (!tenant) {
      await api.post("/admin/tenants", { id: id.trim(), ...fields, weight: fields.weight ?? 1 })
      toast(`Tenant ${id.trim()} created`)
      return onDone()
    }
    await write({ ...fields, weight: fields.weight ?? 1 })
    const before = Object.fromEntries(FIELDS.map((name) => [name, tenant[name]]))
    toast(`Tenant ${tenant.id} saved`, { undo: () => runWithToast(() => write(before), "Change undone") })
    return undefined
  }
  return html`
    <${Dialog} title=${tenant ? `Edit ${tenant.id}` : "New tenant"} onClose=${onClose} onSubmit=${save} submitText=${tenant ? "Save" : "Create"} disabled=${!id.trim()}>
      ${!tenant && html`<${TextField} label="Id" value=${id} onChange=${setId} maxlength="100" autofocus hint="Used by programs. No spaces; cannot be changed later." />`}
      <${TextField} label="Label" value=${fields.label} onChange=${set("label")} maxlength="200" hint="Display name." />
      <${NumberField} label="Weight" value=${fields.weight} onChange=${set("weight")} min="0" hint="Share of worker capacity relative to other tenants. Default 1; 2 gets twice as much." />
      <${NumberField} label="Retention in days" value=${fields.retention_days} onChange=${set("retention_days")} min="1" hint="Leave empty for the default, the setting retention_days." />
    <//>`
}

const DeleteTenant = ({ tenant, onClose, onDone }) => html`
  <${Confirm} title=${`Delete ${tenant.id}?`} danger submitText="Delete" onClose=${onClose}
    onSubmit=${() => api.delete(`/admin/tenants/${encodeURIComponent(tenant.id)}`).then(onDone).then(() => toast(`Tenant ${tenant.id} deleted`))}>
    Its API keys are revoked and its triggers deleted. Finished jobs are kept until retention deletes them. ${tenant.queued + tenant.running > 0
      && `${plural(tenant.queued + tenant.running, "active job")}: wait for them or cancel them before deleting the tenant.`}
  <//>`
