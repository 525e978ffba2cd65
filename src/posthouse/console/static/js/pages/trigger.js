// One trigger: what came of it, when it runs next, and what can be done with it.
import { api, useApi } from "../api.js"
import { html, useState } from "../lib.js"
import { duration } from "../format.js"
import { useLive } from "../live.js"
import { go, link } from "../router.js"
import { useSession } from "../session.js"
import { Back, Button, Card, Empty, Facts, JobLink, Loaded, Since, Status, Tag, Time } from "../ui/basics.js"
import { Confirm } from "../ui/dialog.js"
import { Icon } from "../ui/icons.js"
import { Json } from "../ui/json.js"
import { More, usePaged } from "../ui/paged.js"
import { priorityName } from "../ui/priority.js"
import { toast } from "../ui/toast.js"
import { FireDialog } from "./trigger-fire.js"
import { EditTrigger } from "./trigger-form.js"
import { Runs } from "./trigger-runs.js"
import { FromCode, nameOf, setEnabled } from "./trigger-parts.js"
import { FOLD, GAP, inWords, MISSED, OVERLAP } from "./trigger-words.js"

export function TriggerPage({ id, query }) {
  const trigger = useApi(`/jobs/triggers/${id}`, {}, { every: query.edit ? 0 : 10_000 })
  return html`<${Loaded} from=${trigger} lines=${10}>${(found) => (query.edit
    ? html`<${EditTrigger} trigger=${found} done=${trigger.setData} />`
    : html`<${Shown} trigger=${found} reload=${trigger.reload} />`)}<//>`
}

function Shown({ trigger, reload }) {
  const outcomes = usePaged(`/jobs/triggers/${trigger.id}/outcomes`, { limit: 20 }, { every: 5000 })
  const scheduled = trigger.type === "schedule"
  return html`
    <${Head} trigger=${trigger} reload=${reload} fired=${outcomes.reload} />
    ${trigger.last_error && html`<div class="failure" role="alert"><${Icon} name="alert" /><div><b>${trigger.last_error}</b><p>It could not make its job <${Time} at=${trigger.last_error_at} />. It tries again ${scheduled ? "at its next time" : "with the next event"}.</p></div></div>`}
    <div class="grid-2 unequal">
      <${Card} title="What came of it"><${Outcomes} trigger=${trigger} outcomes=${outcomes} /><//>
      <div class="stack">
        ${scheduled && html`<${Card} title="Next runs"><${NextRuns} trigger=${trigger} /><//>`}
        <${Card} title="What it makes"><${Rules} trigger=${trigger} /><//>
      </div>
    </div>`
}

function Head({ trigger, reload, fired }) {
  const session = useSession()
  const [asked, setAsked] = useState(null)
  const writes = session.can("triggers:write")
  const remove = async () => {
    await api.delete(`/jobs/triggers/${trigger.id}`)
    toast(`${nameOf(trigger)} is gone; its jobs stay`)
    go(link("triggers", { tab: trigger.type === "event" ? "events" : null }))
  }
  return html`
    <div class="head">
      <div class="grow"><${Back} href=${link("triggers", { tab: trigger.type === "event" ? "events" : null })}>${trigger.type === "event" ? "Triggers on events" : "Schedules"}<//>
        <h2>${nameOf(trigger)} ${!trigger.enabled && html`<${Tag} tone="warn">paused<//>`} ${trigger.origin === "code" && html`<${FromCode} />`}</h2>
        <p class="faint">${trigger.words} ${trigger.cron_expr && html`<code>${trigger.cron_expr}</code>`}</p></div>
      ${writes && html`<div class="bar">
        <${Button} icon=${trigger.enabled ? "pause" : "play"} onClick=${() => setEnabled(trigger, !trigger.enabled, reload)}>${trigger.enabled ? "Pause" : "Resume"}<//>
        <${Button} icon="bolt" onClick=${() => setAsked("fire")}>Fire now<//>
        <a class="button" href=${link(`triggers/${trigger.id}`, { edit: 1 })}><${Icon} name="edit" />Edit</a>
        ${trigger.origin !== "code" && html`<${Button} plain icon="trash" label="Delete" onClick=${() => setAsked("delete")} />`}
      </div>`}
    </div>
    ${writes && trigger.origin === "code" && html`<p class="note"><${Icon} name="info" /><span>It stands in the code as <code>${trigger.name}</code>. What you change here holds until the code says something else. To be rid of it take it out of the code, or pause it: a worker that starts would bring it back.</span></p>`}
    ${asked === "fire" && html`<${FireDialog} trigger=${trigger} close=${() => setAsked(null)} done=${fired} />`}
    ${asked === "delete" && html`<${Confirm} title=${`Delete “${nameOf(trigger)}”?`} danger actText="Delete" close=${() => setAsked(null)} act=${remove}>It makes no more jobs. Those that it made stay.<//>`}`
}

function NextRuns({ trigger }) {
  const runs = useApi(`/jobs/triggers/${trigger.id}/next`, { count: 6, of: trigger.next_at })
  if (!trigger.enabled) return html`<p class="faint">It is paused. When it goes on, it does so with its next time; what was left out meanwhile is not made up for.</p>`
  return html`<${Loaded} from=${runs} lines=${6}>${(list) => html`<${Runs} runs=${list} zone=${trigger.timezone} />`}<//>`
}

const TONES = { fired: "good", deduped: undefined, overlap: "warn", missed: "warn", error: "bad" }
const MEANS = { deduped: "Such a job was made shortly before", overlap: "The job before was still active", missed: "Nobody made it in time" }

function Outcomes({ trigger, outcomes }) {
  useLive({ event: "job", kind: trigger.definition_key }, ({ job }) => {
    const newest = new Map(job.map((each) => [each.id, each]))
    const merged = (each) => (newest.has(each.job_id) ? { ...each, job_status: newest.get(each.job_id).status, job_started_at: newest.get(each.job_id).started_at ?? each.job_started_at, job_finished_at: newest.get(each.job_id).finished_at ?? each.job_finished_at } : each)
    outcomes.setData((was) => was && { ...was, items: was.items.map(merged) })
  })
  return html`<${Loaded} from=${outcomes} lines=${8}>${(list) => list.length
    ? html`<ul class="outcomes" aria-label="What came of it">${list.map((each) => html`<${Outcome} key=${(each.event_id ?? each.nominal_at) + each.replay + each.at} outcome=${each} />`)}</ul><${More} from=${outcomes} />`
    : html`<${Empty} icon="clock" title="Nothing yet">${trigger.type === "schedule" ? "Its first time has not come. “Fire now” makes a job at once." : html`No event named <code>${trigger.event_name}</code> has come. “Fire now” makes a job of one that you write.`}<//>`}<//>`
}

const Outcome = ({ outcome }) => html`
  <li>
    <${Tag} tone=${TONES[outcome.outcome]}>${outcome.outcome}<//>
    <span class="grow">${outcome.job_id ? html`<${JobLink} id=${outcome.job_id} /> ${outcome.job_status ? html`<${Status} status=${outcome.job_status} />` : html`<span class="faint">no longer kept</span>`}` : html`<span class="faint">${outcome.reason ?? MEANS[outcome.outcome]}</span>`}
      ${outcome.job_started_at && html` <small><${Since} from=${outcome.job_started_at} to=${outcome.job_finished_at ?? (outcome.job_status === "running" ? null : outcome.job_started_at)} /></small>`}
      ${outcome.event_name && html`<small class="from">${outcome.event_name}${outcome.replay > 0 && ", replayed"}</small>`}
      ${outcome.through && html`<small class="from">and all up to <${Time} at=${outcome.through} /></small>`}</span>
    <span class="faint"><${Time} at=${outcome.nominal_at ?? outcome.at} /></span>
  </li>`

function Rules({ trigger }) {
  const session = useSession()
  const scheduled = trigger.type === "schedule"
  return html`
    <${Facts} facts=${[
      ["Kind of job", html`<a href=${link(`definitions/${encodeURIComponent(trigger.definition_key)}`)}>${trigger.definition_key}</a>`],
      ["Queue", trigger.queue], ["Priority", trigger.priority !== null && priorityName(trigger.priority)],
      ["Tenant", session.operator && trigger.tenant_id],
      ["No second one within", !scheduled && (trigger.dedupe_window_seconds ? duration(trigger.dedupe_window_seconds) : "no window")],
      ["Missed runs", scheduled && inWords(MISSED, trigger.missed) + (trigger.missed === "catch_up" ? `, at most ${trigger.catch_up_limit}` : "")],
      ["While the job before is active", scheduled && inWords(OVERLAP, trigger.overlap)],
      ["A time that clocks skip", scheduled && trigger.gap !== "next" && inWords(GAP, trigger.gap)],
      ["A time that comes twice", scheduled && trigger.fold !== "once" && inWords(FOLD, trigger.fold)],
      ["Starts later by up to", trigger.jitter_seconds > 0 && duration(trigger.jitter_seconds)],
      ["Changed", html`<${Time} at=${trigger.updated_at} />`], ["Created by", trigger.created_by],
    ]} />
    <h3>Payload</h3><${Json} value=${trigger.payload_template} label="payload template" />`
}
