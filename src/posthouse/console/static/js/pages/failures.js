// Failure groups: the list, the page of one group, and bulk retries.
import { useApi } from "../api.js"
import { BulkCard, BulkDialog, changedCount, Criteria, isOpen, rateText, share, StateTag, stopBulk, toneOf, useBulkChanges, useBulkPreview } from "../components/bulk-actions.js"
import { Chart, Sparkline } from "../components/chart.js"
import { Confirm } from "../components/dialog.js"
import { AsyncContent, BackLink, Button, Card, CopyButton, DescriptionList, EmptyState, JobLink, Progress, Status, Table, Tabs, Tag, Time } from "../components/display.js"
import { fieldValues, quoteValue } from "../filter-query.js"
import { formatCompact, formatInteger, plural } from "../format.js"
import { html, useMemo, useRef, useState } from "../preact.js"
import { link, setQuery } from "../router.js"
import { useSession } from "../session.js"

const RANGES = { "1h": 3600, "24h": 86_400, "7d": 604_800 }
const MAX_GROUPS = 200

export function Failures({ fingerprint, query }) {
  const session = useSession()
  const retries = useBulkChanges(50, "retry")
  if (fingerprint) return html`<${FailurePage} key=${fingerprint + query.kind} fingerprint=${fingerprint} query=${query} retries=${retries} />`
  const tab = query.show === "retries" ? "retries" : "groups"
  const running = (retries.data?.items ?? []).filter(isOpen)
  return html`
    <${Tabs} label="Failures" current=${tab} tabs=${[
      { name: "groups", text: "Groups", href: link("failures") },
      { name: "retries", text: "Bulk retries", href: link("failures", { show: "retries" }), count: running.length ? `${running.length} running` : undefined },
    ]} />
    ${tab === "retries" ? html`<${Retries} retries=${retries} />` : html`
      ${running.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} canChange=${session.can("jobs:write")} onChanged=${retries.reload} />`)}
      <${Groups} query=${query} />`}`
}

function Groups({ query }) {
  const range = RANGES[query.since] ? query.since : "all"
  const most = Math.min(MAX_GROUPS, Number(query.most) || 50)
  const since = useMemo(() => RANGES[range] && new Date(Date.now() - RANGES[range] * 1000).toISOString(), [range])
  const groups = useApi("/failures", { kind: query.kind, since, limit: most }, { every: 5000 })
  const items = useStableOrder(groups.data?.items, groupKey, `${query.kind} ${range}`)
  return html`
    <div class="bar">
      <${KindFilter} kind=${query.kind} />
      <div class="switch" role="group" aria-label="Last seen within">${[...Object.keys(RANGES), "all"].map((name) => html`
        <button key=${name} type="button" aria-pressed=${name === range} onClick=${() => setQuery({ since: name === "all" ? null : name }, { replace: true })}>${name}</button>`)}</div>
    </div>
    <${AsyncContent} request=${groups} lines=${10}>${({ next_cursor: more }) => items.length === 0 ? html`<${NoGroups} filtered=${query.kind || range !== "all"} />` : html`
      <${Table} label="Failure groups" columns=${COLUMNS} rows=${items} rowKey=${groupKey} faint=${groups.stale} />
      ${more && (most < MAX_GROUPS
        ? html`<${Button} onClick=${() => setQuery({ most: most * 2 }, { replace: true })}>Show more<//>`
        : html`<p class="faint">Only the latest ${formatInteger(MAX_GROUPS)} groups are shown. Select a kind to see others.</p>`)}`}<//>`
}

export const groupKey = (group) => `${group.tenant_id} ${group.definition_key} ${group.fingerprint}`

/** The page of a group. */
export const groupLink = (group, query = {}) => link(`failures/${group.fingerprint}`, { kind: group.definition_key, tenant: group.tenant_id, ...query })

const COLUMNS = [
  { name: "group", text: "Failure group", wide: true, cell: (group) => html`<a class="failure-group" href=${groupLink(group)}><b>${group.type}</b><span class="clip">${group.message}</span></a>` },
  { name: "kind", text: "Kind", cell: (group) => html`<${KindAndTenant} group=${group} />` },
  { name: "day", text: "Last 24 h", cell: (group) => html`<${Sparkline} values=${group.last_day ?? group.last_hour} label=${`${formatCompact(sum(group.last_day ?? []))} failures in the last 24 hours`} />` },
  { name: "failures", text: "Failed attempts", align: "right", cell: (group) => formatCompact(group.failures) },
  { name: "dead", text: "Dead letter", align: "right", cell: (group) => figured(group.dead_letter) },
  { name: "failed", text: "Failed", align: "right", cell: (group) => figured(group.failed) },
  { name: "first", text: "First seen", align: "right", cell: (group) => html`<${Time} at=${group.first_seen} />` },
  { name: "last", text: "Last seen", align: "right", cell: (group) => html`<${Time} at=${group.last_seen} />` },
]

const sum = (values) => values.reduce((total, each) => total + each, 0)

const figured = (value) => (value ? html`<b>${formatCompact(value)}</b>` : html`<span class="faint zero">0</span>`)

function KindAndTenant({ group }) {
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
  ? html`<${EmptyState} icon="check" title="No matching failures" action=${html`<${Button} onClick=${() => setQuery({ kind: null, since: null })}>Show all failures<//>`}>No attempt of this kind failed in this time range.<//>`
  : html`<${EmptyState} icon="check" title="No failures" command="posthouse failures">Failed attempts are grouped here by error, each group with a sample traceback and its jobs. On the command line:<//>`)

/**
 * The items in the order in which they first appeared; new items come first.
 * `scope` identifies the list; another scope resets the order.
 */
function useStableOrder(items, keyOf, scope = "") {
  const known = useRef({ scope: null, order: new Map(), next: 0 })
  if (!items) return items
  if (known.current.scope !== scope) known.current = { scope, order: new Map(), next: 0 }
  const { order } = known.current
  const fresh = items.filter((item) => !order.has(keyOf(item)))
  for (const item of fresh.reverse()) order.set(keyOf(item), --known.current.next)
  return [...items].sort((one, other) => order.get(keyOf(one)) - order.get(keyOf(other)))
}

// One failure group: error, sample traceback, jobs and bulk retry.

const FEW_JOBS = 10
const MANY_JOBS = 200
const HOUR = 3_600_000

function FailurePage({ fingerprint, query, retries }) {
  const session = useSession()
  const whose = session.operator && !session.tenant ? query.tenant : undefined
  const [few, setFew] = useState(true)
  const [asking, setAsking] = useState(false)
  const detail = useApi(`/failures/${encodeURIComponent(fingerprint)}`, { kind: query.kind, tenant: whose, jobs: few ? FEW_JOBS : MANY_JOBS }, { every: 5000 })
  const own = (retries.data?.items ?? []).filter(({ criteria }) => criteria.fingerprint === fingerprint || fieldValues(criteria.q ?? "", "fingerprint")?.[0] === fingerprint)
  const shown = own.filter((bulk, index) => isOpen(bulk) || index === 0)
  const retried = () => {
    retries.reload()
    detail.reload()
  }
  return html`
    <${BackLink} href=${link("failures")}>All failures<//>
    <${AsyncContent} request=${detail} lines=${12}>${({ group, error, jobs }) => html`
      <${Card} class="failure-head">
        <div class="bar"><h2 class="title">${group.type}</h2><${Tag}>${group.definition_key}<//>${session.operator && html`<${Tag} title="Tenant">${group.tenant_id}<//>`}<span class="grow"></span>
          ${session.can("jobs:write") && html`<${RetryAll} group=${group} tenant=${whose} round=${own.map(({ state, retried }) => state + retried).join()} open=${() => setAsking(true)} />`}</div>
        <p class="message">${group.message}</p>
        <${DescriptionList} items=${[
          ["Failed attempts", formatInteger(group.failures)], ["Dead letter", formatInteger(group.dead_letter)], ["Failed", formatInteger(group.failed)],
          ["Canceled dependents", group.canceled ? formatInteger(group.canceled) : null],
          ["First seen", html`<${Time} at=${group.first_seen} />`], ["Last seen", html`<${Time} at=${group.last_seen} />`],
          ["Fingerprint", html`<span class="bar"><code>${group.fingerprint}</code><${CopyButton} text=${group.fingerprint} label="Copy fingerprint" /></span>`],
        ]} />
      <//>
      ${shown.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} canChange=${session.can("jobs:write")} onChanged=${retried} />`)}
      <div class="grid-2">
        <${Card} title="Sample traceback" aside=${html`<${JobLink} id=${group.job_id}>sample job<//>${error?.traceback && html`<${CopyButton} text=${error.traceback} label="Copy traceback" />`}`}>
          ${error?.traceback ? html`<pre class="traceback" tabindex="0" aria-label="Traceback">${error.traceback}</pre>`
            : html`<p class="faint">${error ? "No traceback was recorded." : "Retention has deleted the latest error."}</p>`}
        <//>
        <${Card} title="Failed attempts, last 24 hours"><${LastDayChart} group=${group} /><//>
      </div>
      <${Card} title="Failed jobs" aside=${html`<a href=${link("jobs", { q: groupFilter(group) })}>Show in jobs</a>`}>
        ${jobs.length ? html`<${Table} label="Failed jobs of this group" columns=${JOBS} rows=${jobs} rowKey=${({ id }) => id} />
          ${few && jobs.length === FEW_JOBS && html`<${Button} plain icon="down" onClick=${() => setFew(false)}>Show more<//>`}
          ${jobs.length === MANY_JOBS && html`<p class="faint">Only the latest ${MANY_JOBS} are shown.</p>`}`
          : html`<${EmptyState} icon="check" title="No failed jobs left in this group">All of them were retried, or a retry is scheduled.<//>`}
      <//>
      ${asking && html`<${BulkDialog} action="retry" aged title=${`Retry ${group.type}`} q=${groupFilter(group)} tenant=${whose} onClose=${() => setAsking(false)} onStarted=${retried} />`}`}<//>`
}

/** The filter query that finds the jobs of a group. */
const groupFilter = (group) => `fingerprint:${group.fingerprint} kind:${quoteValue(group.definition_key)}`

function RetryAll({ group, tenant, round, open }) {
  const { matched, exact } = useBulkPreview("retry", groupFilter(group), tenant, `${group.failures} ${round}`)
  return html`<${Button} strong icon="retry" onClick=${open} disabled=${!matched}>${matched === 0 ? "Nothing to retry" : matched ? `Retry all ${formatInteger(matched)}${exact ? "" : "+"}` : "Retry all"}<//>`
}

function LastDayChart({ group }) {
  const points = useMemo(() => {
    const now = Math.floor(Date.now() / HOUR) * HOUR
    const hours = group.last_day ?? []
    return hours.map((failures, index) => ({ at: new Date(now - (hours.length - 1 - index) * HOUR).toISOString(), failures }))
  }, [group])
  return html`<${Chart} label=${`${plural(group.failures, "failed attempt")} in total`} points=${points} series=${DAY} height=${200} />`
}

const DAY = [{ name: "failed attempts per hour", of: (point) => point.failures, tone: "bad", kind: "bars" }]

const JOBS = [
  { name: "id", text: "Job", cell: (job) => html`<${JobLink} id=${job.id} />` },
  { name: "status", text: "Status", cell: (job) => html`<${Status} status=${job.status} />` },
  { name: "attempts", text: "Attempts", align: "right", cell: (job) => `${job.attempt_count} of ${job.max_attempts}` },
  { name: "queue", text: "Queue", cell: (job) => job.queue },
  { name: "subject", text: "Subject", wide: true, cell: (job) => job.subject ?? html`<span class="faint zero">–</span>` },
  { name: "ended", text: "Finished", cell: (job) => html`<${Time} at=${job.finished_at} />` },
]

// All bulk retries, newest first.

function Retries({ retries }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const columns = [
    { name: "what", text: "Jobs", wide: true, cell: (bulk) => html`<span><${Criteria} criteria=${bulk.criteria} /></span>` },
    { name: "state", text: "State", cell: (bulk) => html`<${StateTag} bulk=${bulk} />` },
    { name: "progress", text: "Progress", cell: (bulk) => html`<${Progress} percent=${share(bulk)} label="Jobs retried" tone=${toneOf(bulk)} />` },
    { name: "retried", text: "Retried", align: "right", cell: (bulk) => `${formatInteger(bulk.retried)} of ${formatInteger(bulk.total)}` },
    { name: "good", text: "Succeeded", align: "right", cell: (bulk) => formatInteger(bulk.succeeded) },
    { name: "bad", text: "Failed again", align: "right", cell: (bulk) => formatInteger(bulk.failed) },
    { name: "rate", text: "Rate", cell: rateText },
    { name: "created_by", text: "By", cell: (bulk) => bulk.created_by },
    { name: "when", text: "Started", cell: (bulk) => html`<${Time} at=${bulk.created_at} />` },
    ...(session.can("jobs:write") ? [{ name: "stop", text: "", align: "right", cell: (bulk) => isOpen(bulk) && html`<${Button} small icon="stop" onClick=${() => setAsked(bulk)}>Stop<//>` }] : []),
  ]
  return html`
    <${AsyncContent} request=${retries} lines=${6}>${({ items }) => items.length ? html`<${Table} label="Bulk retries" columns=${columns} rows=${items} rowKey=${({ id }) => id} />`
      : html`<${EmptyState} icon="retry" title="No bulk retries yet" command="posthouse failures retry FINGERPRINT --rate 10">Bulk retries appear here. To start one, open a failure group and choose “Retry all”, or run:<//>`}<//>
    ${asked && html`<${Confirm} title="Stop this bulk retry?" danger submitText="Stop retry" onClose=${() => setAsked(null)} onSubmit=${() => stopBulk(asked.id, retries.reload)}>${formatInteger(changedCount(asked))} of ${plural(asked.total ?? 0, "job")} were retried and keep running. The remaining jobs are not retried.<//>`}`
}
