// The jobs of a tenant: summary, table and triggers, made of the pages of the console.
import { useApi } from "posthouse/api.js"
import { duration, formatCompact } from "posthouse/format.js"
import { html, useMemo } from "posthouse/preact.js"
import { Jobs } from "posthouse/pages/jobs.js"
import { Triggers } from "posthouse/pages/triggers.js"
import { link } from "posthouse/router.js"
import { actionsColumn } from "posthouse/row-actions.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, StatTile, Tabs } from "posthouse/components/display.js"

const TABS = [{ name: "jobs", text: "Queue" }, { name: "triggers", text: "Triggers" }]

const JobTabs = ({ current }) => html`<${Tabs} label="Jobs and triggers" current=${current} tabs=${TABS.map((tab) => ({ ...tab, href: link(tab.name) }))} />`

const COLUMNS = ["id", "kind", "source", "status", "attempts", "queued", "started", "finished", "worker"]

export function Queue({ query }) {
  const session = useSession()
  const own = useMemo(() => ({ usual: COLUMNS, more: [actionsColumn(session.can("jobs:write"))] }), [session])
  return html`<${JobTabs} current="jobs" /><${Summary} /><${Jobs} query=${query} ownColumns=${own} />`
}

export const TriggerTab = ({ id, query }) => html`${!id && html`<${JobTabs} current="triggers" />`}<${Triggers} id=${id} query=${query} />`

function Summary() {
  const summary = useApi("/jobs/summary", {}, { every: 3000 })
  return html`
    <${AsyncContent} request=${summary} height=${92}>${({ counts, oldest_queued_seconds: oldest }) => html`
      <div class="tiles" role="group" aria-label="Jobs by status">
        <${Card} name="Queued" status="queued" counts=${counts} hint=${oldest ? `oldest ${duration(oldest)}` : counts.queued ? "scheduled for later" : "no jobs waiting"} />
        <${Card} name="Running" status="running" counts=${counts} hint="one at a time per tenant" />
        <${Card} name="Failed" status="failed" counts=${counts} hint="by an error that is not retried" bad />
        <${Card} name="Dead letter" status="dead_letter" counts=${counts} hint="attempts used up" bad />
      </div>`}<//>`
}

const Card = ({ name, status, counts, hint, bad }) => html`
  <${StatTile} name=${name} value=${formatCompact(counts[status] ?? 0)} hint=${hint} tone=${bad && counts[status] > 0 && "bad"} href=${link("jobs", { q: `status:${status}` })} />`
