// Failure groups: failed attempts grouped by error, and bulk retries.
import { useApi } from "../api.js"
import { html, useMemo, useRef } from "../lib.js"
import { count, short } from "../format.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"
import { Button, Empty, Loaded, Tabs, Tag, Time } from "../ui/basics.js"
import { BulkCard, isOpen, useBulkChanges } from "../ui/bulk-state.js"
import { Sparkline } from "../ui/chart.js"
import { Table } from "../ui/table.js"
import { FailurePage } from "./failures-group.js"
import { Retries } from "./failures-retries.js"

const RANGES = { "1h": 3600, "24h": 86_400, "7d": 604_800 }
const MOST = 200

export function Failures({ fingerprint, query }) {
  const session = useSession()
  const retries = useBulkChanges(50, "retry")
  if (fingerprint) return html`<${FailurePage} key=${fingerprint + query.kind} fingerprint=${fingerprint} query=${query} retries=${retries} />`
  const tab = query.show === "retries" ? "retries" : "groups"
  const running = (retries.data?.items ?? []).filter(isOpen)
  return html`
    <${Tabs} label="Failures" now=${tab} tabs=${[
      { name: "groups", text: "Groups", href: link("failures") },
      { name: "retries", text: "Bulk retries", href: link("failures", { show: "retries" }), count: running.length ? `${running.length} running` : undefined },
    ]} />
    ${tab === "retries" ? html`<${Retries} retries=${retries} />` : html`
      ${running.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} may=${session.can("jobs:write")} changed=${retries.reload} />`)}
      <${Groups} query=${query} />`}`
}

function Groups({ query }) {
  const range = RANGES[query.since] ? query.since : "all"
  const most = Math.min(MOST, Number(query.most) || 50)
  const since = useMemo(() => RANGES[range] && new Date(Date.now() - RANGES[range] * 1000).toISOString(), [range])
  const groups = useApi("/failures", { kind: query.kind, since, limit: most }, { every: 5000 })
  const items = useSteady(groups.data?.items, groupKey, `${query.kind} ${range}`)
  return html`
    <div class="bar">
      <${KindFilter} kind=${query.kind} />
      <div class="switch" role="group" aria-label="Last seen within">${[...Object.keys(RANGES), "all"].map((name) => html`
        <button key=${name} type="button" aria-pressed=${name === range} onClick=${() => setQuery({ since: name === "all" ? null : name }, { replace: true })}>${name}</button>`)}</div>
    </div>
    <${Loaded} from=${groups} lines=${10}>${({ next_cursor: more }) => items.length === 0 ? html`<${NoGroups} filtered=${query.kind || range !== "all"} />` : html`
      <${Table} label="Failure groups" columns=${COLUMNS} rows=${items} rowKey=${groupKey} faint=${groups.stale} />
      ${more && (most < MOST
        ? html`<${Button} onClick=${() => setQuery({ most: most * 2 }, { replace: true })}>Show more<//>`
        : html`<p class="faint">Only the latest ${count(MOST)} groups are shown. Select a kind to see others.</p>`)}`}<//>`
}

export const groupKey = (group) => `${group.tenant_id} ${group.definition_key} ${group.fingerprint}`

/** The page of a group. */
export const groupLink = (group, query = {}) => link(`failures/${group.fingerprint}`, { kind: group.definition_key, tenant: group.tenant_id, ...query })

const COLUMNS = [
  { name: "fault", text: "Failure group", wide: true, cell: (group) => html`<a class="fault" href=${groupLink(group)}><b>${group.type}</b><span class="clip">${group.message}</span></a>` },
  { name: "kind", text: "Kind", cell: (group) => html`<${Whose} group=${group} />` },
  { name: "day", text: "Last 24 h", cell: (group) => html`<${Sparkline} values=${group.last_day ?? group.last_hour} label=${`${short(sum(group.last_day ?? []))} failures in the last 24 hours`} />` },
  { name: "failures", text: "Failed attempts", align: "right", cell: (group) => short(group.failures) },
  { name: "dead", text: "Dead letter", align: "right", cell: (group) => figured(group.dead_letter) },
  { name: "failed", text: "Failed", align: "right", cell: (group) => figured(group.failed) },
  { name: "first", text: "First seen", align: "right", cell: (group) => html`<${Time} at=${group.first_seen} />` },
  { name: "last", text: "Last seen", align: "right", cell: (group) => html`<${Time} at=${group.last_seen} />` },
]

const sum = (values) => values.reduce((total, each) => total + each, 0)

const figured = (value) => (value ? html`<b>${short(value)}</b>` : html`<span class="faint zero">0</span>`)

function Whose({ group }) {
  const session = useSession()
  return html`<span class="names"><${Tag} title=${group.definition_key}>${group.definition_key}<//>${session.operator && !session.tenant && html`<small>${group.tenant_id}</small>`}</span>`
}

function KindFilter({ kind = "" }) {
  const kinds = useApi("/definitions", { limit: 200 })
  const names = new Set([...(kinds.data?.items ?? []).map(({ key }) => key), ...(kind ? [kind] : [])])
  return html`
    <label><span class="hidden">Kind</span>
      <select data-filter value=${kind} onChange=${(event) => setQuery({ kind: event.target.value || null }, { replace: true })}>
        <option value="">All kinds</option>${[...names].sort().map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
    </label>`
}

const NoGroups = ({ filtered }) => (filtered
  ? html`<${Empty} icon="check" title="No matching failures" action=${html`<${Button} onClick=${() => setQuery({ kind: null, since: null })}>Show all failures<//>`}>No attempt of this kind failed in this time range.<//>`
  : html`<${Empty} icon="check" title="No failures" command="posthouse failures">Failed attempts are grouped here by error, each group with a sample traceback and its jobs. On the command line:<//>`)

/**
 * The items in the order in which they first appeared; new items come first.
 * `scope` identifies the list; another scope resets the order.
 */
function useSteady(items, keyOf, scope = "") {
  const known = useRef({ scope: null, places: new Map(), next: 0 })
  if (!items) return items
  if (known.current.scope !== scope) known.current = { scope, places: new Map(), next: 0 }
  const { places } = known.current
  const fresh = items.filter((item) => !places.has(keyOf(item)))
  for (const item of fresh.reverse()) places.set(keyOf(item), --known.current.next)
  return [...items].sort((one, other) => places.get(keyOf(one)) - places.get(keyOf(other)))
}
