// One failure group: error, sample traceback, jobs and bulk retry.
import { useApi } from "../api.js"
import { html, useMemo, useState } from "../lib.js"
import { count, plural } from "../format.js"
import { quoted, valuesOf } from "../filter.js"
import { link } from "../router.js"
import { useSession } from "../session.js"
import { Back, Button, Card, Copy, Empty, Facts, JobLink, Loaded, Status, Tag, Time } from "../ui/basics.js"
import { BulkDialog, useBulkPreview } from "../ui/bulk.js"
import { BulkCard, isOpen } from "../ui/bulk-state.js"
import { Chart } from "../ui/chart.js"
import { Table } from "../ui/table.js"

const FEW_JOBS = 10
const MANY_JOBS = 200
const HOUR = 3_600_000

export function FailurePage({ fingerprint, query, retries }) {
  const session = useSession()
  const whose = session.operator && !session.tenant ? query.tenant : undefined
  const [few, setFew] = useState(true)
  const [asking, setAsking] = useState(false)
  const detail = useApi(`/failures/${encodeURIComponent(fingerprint)}`, { kind: query.kind, tenant: whose, jobs: few ? FEW_JOBS : MANY_JOBS }, { every: 5000 })
  const own = (retries.data?.items ?? []).filter(({ chosen }) => chosen.fingerprint === fingerprint || valuesOf(chosen.q ?? "", "fingerprint")?.[0] === fingerprint)
  const shown = own.filter((bulk, place) => isOpen(bulk) || place === 0)
  const retried = () => {
    retries.reload()
    detail.reload()
  }
  return html`
    <${Back} href=${link("failures")}>All failures<//>
    <${Loaded} from=${detail} lines=${12}>${({ group, error, jobs }) => html`
      <${Card} class="fault-head">
        <div class="bar"><h2 class="title">${group.type}</h2><${Tag}>${group.definition_key}<//>${session.operator && html`<${Tag} title="Tenant">${group.tenant_id}<//>`}<span class="grow"></span>
          ${session.can("jobs:write") && html`<${RetryAll} group=${group} tenant=${whose} round=${own.map(({ state, retried }) => state + retried).join()} open=${() => setAsking(true)} />`}</div>
        <p class="message">${group.message}</p>
        <${Facts} facts=${[
          ["Failed attempts", count(group.failures)], ["Dead letter", count(group.dead_letter)], ["Failed", count(group.failed)],
          ["Canceled dependents", group.canceled ? count(group.canceled) : null],
          ["First seen", html`<${Time} at=${group.first_seen} />`], ["Last seen", html`<${Time} at=${group.last_seen} />`],
          ["Fingerprint", html`<span class="bar"><code>${group.fingerprint}</code><${Copy} text=${group.fingerprint} label="Copy fingerprint" /></span>`],
        ]} />
      <//>
      ${shown.map((bulk) => html`<${BulkCard} key=${bulk.id} bulk=${bulk} may=${session.can("jobs:write")} changed=${retried} />`)}
      <div class="grid-2">
        <${Card} title="Sample traceback" aside=${html`<${JobLink} id=${group.job_id}>sample job<//>${error?.traceback && html`<${Copy} text=${error.traceback} label="Copy traceback" />`}`}>
          ${error?.traceback ? html`<pre class="traceback" tabindex="0" aria-label="Traceback">${error.traceback}</pre>`
            : html`<p class="faint">${error ? "No traceback was recorded." : "Retention has deleted the latest error."}</p>`}
        <//>
        <${Card} title="Failed attempts, last 24 hours"><${Day} group=${group} /><//>
      </div>
      <${Card} title="Failed jobs" aside=${html`<a href=${link("jobs", { q: lineOf(group) })}>Show in jobs</a>`}>
        ${jobs.length ? html`<${Table} label="Failed jobs of this group" columns=${JOBS} rows=${jobs} rowKey=${({ id }) => id} />
          ${few && jobs.length === FEW_JOBS && html`<${Button} plain icon="down" onClick=${() => setFew(false)}>Show more<//>`}
          ${jobs.length === MANY_JOBS && html`<p class="faint">Only the latest ${MANY_JOBS} are shown.</p>`}`
          : html`<${Empty} icon="check" title="No failed jobs left in this group">All of them were retried, or a retry is scheduled.<//>`}
      <//>
      ${asking && html`<${BulkDialog} action="retry" aged title=${`Retry ${group.type}`} q=${lineOf(group)} tenant=${whose} close=${() => setAsking(false)} started=${retried} />`}`}<//>`
}

/** The filter query that finds the jobs of a group. */
const lineOf = (group) => `fingerprint:${group.fingerprint} kind:${quoted(group.definition_key)}`

function RetryAll({ group, tenant, round, open }) {
  const { matched, exact } = useBulkPreview("retry", lineOf(group), tenant, `${group.failures} ${round}`)
  return html`<${Button} strong icon="retry" onClick=${open} disabled=${!matched}>${matched === 0 ? "Nothing to retry" : matched ? `Retry all ${count(matched)}${exact ? "" : "+"}` : "Retry all"}<//>`
}

function Day({ group }) {
  const points = useMemo(() => {
    const now = Math.floor(Date.now() / HOUR) * HOUR
    const hours = group.last_day ?? []
    return hours.map((failures, place) => ({ at: new Date(now - (hours.length - 1 - place) * HOUR).toISOString(), failures }))
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
