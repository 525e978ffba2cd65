// Settings in effect, and retention.
import { useApi } from "../api.js"
import { html } from "../lib.js"
import { bytes, count, duration, exactly, plural, words } from "../format.js"
import { link } from "../router.js"
import { Card, Copy, Empty, Loaded, Tag, Time } from "../ui/basics.js"
import { Table } from "../ui/table.js"
import { QueryField } from "../ui/words.js"

const SOURCES = { default: undefined, file: "accent", environment: "accent", flag: "accent" }
const ORIGIN = { default: "default", file: "posthouse.toml", environment: "environment", flag: "flag or code" }

export function Settings({ query }) {
  const settings = useApi("/admin/settings")
  const wanted = (query.q ?? "").toLowerCase()
  const fits = (each) => (!query.set || each.source !== "default") && `${each.name} ${each.help}`.toLowerCase().includes(wanted)
  return html`
    <div class="bar">
      <${QueryField} filter name="q" label="Search settings" value=${query.q} />
      <div class="switch" role="group" aria-label="Settings shown" data-stay>${[[null, "All"], [1, "Changed"]].map(([set, text]) => html`
        <a key=${text} role="button" aria-pressed=${String(query.set ?? "") === String(set ?? "")} href=${link("operator/settings", { ...query, set })}>${text}</a>`)}</div>
    </div>
    <${Loaded} from=${settings} lines=${12}>${(list) => {
      const shown = list.filter(fits)
      return shown.length ? html`<${Table} label="Settings in effect" rows=${shown} rowKey=${({ name }) => name} columns=${SETTING} />` : html`<${Empty} title="No matching settings">No ${query.set ? "changed " : ""}setting has this text in its name or description.<//>`
    }}<//>`
}

const SETTING = [
  { name: "name", text: "Setting", cell: ({ name, variable }) => html`<span><b>${name}</b> <${Copy} text=${variable} label=${`Copy ${variable}`} /></span>` },
  { name: "value", text: "Value", cell: ({ value, secret }) => html`<span><code class="value">${valueOf(value)}</code>${secret && html` <${Tag}>secret<//>`}</span>` },
  { name: "source", text: "Source", cell: ({ source }) => (source === "default" ? html`<span class="faint">${ORIGIN[source]}</span>` : html`<${Tag} tone=${SOURCES[source]}>${ORIGIN[source] ?? source}<//>`) },
  { name: "help", text: "Description", wide: true, cell: ({ help }) => html`<span class="help">${help}</span>` },
]

const valueOf = (value) => (value === "" || value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value))

export function Retention() {
  const kept = useApi("/admin/retention", {}, { every: 60_000 })
  return html`
    <${Loaded} from=${kept} lines=${10}>${({ things, tenants, due }) => html`
      <${Table} label="Retention" rows=${things} rowKey=${({ relation }) => relation} columns=${KEPT} />
      <div class="grid-2">
        <${Card} title="Deleted by the next clean-up">${due.length ? html`<ul class="lines">${due.map((each) => html`<li key=${each.name + each.action}><div><b>${each.action} ${each.name}</b><small>${[each.rows && plural(each.rows, "row"), each.bytes && bytes(each.bytes), each.ends_at && `up to ${exactly(each.ends_at)}`, each.tenants.length && each.tenants.join(", ")].filter(Boolean).join(" · ")}</small></div></li>`)}</ul>`
          : html`<${Empty} icon="check" title="Nothing to delete" command="posthouse retention --run">The keeper cleans up every 10 minutes. To run it now:<//>`}<//>
        <${Card} title="Tenants with custom retention" aside=${html`<a href=${link("operator/tenants")}>Tenants</a>`}>${tenants.length
          ? tenants.map((each) => html`<div key=${each.id} class="line"><b class="grow">${each.id}</b><span class="figure">${plural(each.retention_days, "day")}</span></div>`)
          : html`<p class="faint">All tenants use the default retention. Edit a tenant to set a custom one.</p>`}<//>
      </div>`}<//>`
}

const KEPT = [
  { name: "thing", text: "Data", cell: ({ thing, relation }) => html`<span><b>${words(thing)}</b> <small>${relation}</small></span>` },
  { name: "days", text: "Retention", align: "right", cell: ({ days }) => duration(days * 86_400) },
  { name: "rows", text: "Rows", align: "right", cell: ({ rows }) => count(rows) },
  { name: "bytes", text: "Size", align: "right", cell: (thing) => bytes(thing.bytes) },
  { name: "partitions", text: "Partitions", align: "right", cell: ({ partitions, span }) => html`<span>${count(partitions)} <small>by ${span}</small></span>` },
  { name: "oldest", text: "Oldest", align: "right", cell: ({ oldest }) => html`<${Time} at=${oldest} />` },
  { name: "next", text: "Next deletion", align: "right", cell: ({ next_drop_at: at }) => html`<${Time} at=${at} />` },
]
