// Audit log: actor, action, target, and the state before and after.
import { html, useState } from "../lib.js"
import { plural, shortId } from "../format.js"
import { setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Button, Empty, Loaded, Tag, Time } from "../ui/basics.js"
import { More, usePaged } from "../ui/paged.js"
import { QueryField } from "../ui/words.js"

const ACTIONS = ["definition", "job", "key", "limit", "queue", "retention", "tenant", "trigger", "event", "worker"]
const NAMES = ["actor", "action", "target"]

export function Audit({ query }) {
  const session = useSession()
  const chosen = Object.fromEntries(NAMES.map((name) => [name, query[name]]))
  const filtered = NAMES.some((name) => query[name])
  const entries = usePaged("/admin/audit", { ...chosen, limit: 50 }, { every: 15_000 })
  return html`
    <div class="bar" role="search">
      <${QueryField} filter name="actor" label="Actor" value=${query.actor} />
      <${QueryField} name="action" label="Action, e.g. trigger" value=${query.action} options=${ACTIONS} />
      <${QueryField} name="target" label="Target" value=${query.target} />
      ${filtered && html`<${Button} plain small icon="close" onClick=${() => setQuery({ actor: null, action: null, target: null })}>Clear filters<//>`}
    </div>
    <${Loaded} from=${entries} lines=${10}>${(list) => list.length
      ? html`<ul class="audit" aria-label="Audit log">${list.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} session=${session} />`)}</ul><${More} from=${entries} />`
      : html`<${Empty} title=${filtered ? "No matching entries" : "No entries yet"}>${filtered ? "Actors and targets must match exactly; an action also matches by its first part." : "Every change made by a user or an API client is recorded here."}<//>`}<//>`
}

function Entry({ entry, session }) {
  const [open, setOpen] = useState(false)
  const changed = differences(entry.before, entry.after)
  const choose = (name) => () => setQuery({ [name]: entry[name] })
  return html`
    <li><div class="entry">
      <span class="when"><${Time} at=${entry.at} /></span>
      <button type="button" class="name actor" title="Filter by actor" onClick=${choose("actor")}>${entry.actor}</button>
      <button type="button" class="name" title="Filter by action" onClick=${choose("action")}><${Tag} tone=${toneOf(entry.action)}>${entry.action}<//></button>
      <button type="button" class="name what" title=${`Filter by target: ${entry.target}`} onClick=${choose("target")}><b>${labelOf(entry) ?? entry.target}</b>${labelOf(entry) && html` <small class="id">${shortId(entry.target)}</small>`}${session.operator && entry.tenant_id && html` <small>${entry.tenant_id}</small>`}</button>
      ${changed.length > 0 ? html`<${Button} plain small icon=${open ? "down" : "right"} aria-expanded=${open} onClick=${() => setOpen(!open)}>${plural(changed.length, "field")}<//>` : html`<span></span>`}
    </div>${open && html`<${Diff} changed=${changed} />`}</li>`
}

/** The label of a target that is only an id. */
const labelOf = ({ target, before, after }) => (/^[0-9a-f-]{36}$/.test(target) && (after?.label || before?.label)) || null

const toneOf = (action) => (/delete|remove|revoke|cancel|deactivate/.test(action) ? "bad" : /create|activate|enable|resume/.test(action) ? "good" : undefined)

/** [[name, before, after]] of the fields that differ; undefined where a field is missing. */
function differences(before, after) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  return names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name])).map((name) => [name, before?.[name], after?.[name]])
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 1 : 0))

const Diff = ({ changed }) => html`
  <dl class="diff">${changed.map(([name, before, after]) => html`
    <div key=${name}><dt>${name.replaceAll("_", " ")}</dt>
      <dd>${before !== undefined && before !== null && html`<del>${written(before)}</del>`}${after !== undefined && after !== null && html`<ins>${written(after)}</ins>`}
        ${(after === undefined || after === null) && (before === undefined || before === null) && html`<span class="faint">(empty)</span>`}</dd></div>`)}
  </dl>`
