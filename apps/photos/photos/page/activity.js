// The commands of a library: buttons that start them, and the latest jobs with their progress.
import { api } from "posthouse/api.js"
import { html } from "posthouse/preact.js"
import { link } from "posthouse/router.js"
import { AsyncContent, Button, EmptyState, Progress, Status, Time } from "posthouse/components/display.js"
import { runWithToast } from "posthouse/components/toast.js"
import { isActive } from "./library.js"

const NAMES = { "photos.sync": "Sync", "photos.tag": "Tag", "photos.train": "Train", "photos.retag": "Re-tag", "photos.connect": "Connect", "photos.create-list": "Create list" }

export function Commands({ library, jobs, onDone }) {
  const start = (kind, payload = {}) => runWithToast(() => api.post("/jobs", { definition_key: kind, payload, dedupe_key: `${kind} ${JSON.stringify(payload)}` }).then(onDone), `${NAMES[kind]} started`)
  const busy = (kind) => jobs.some((job) => job.definition_key === kind && isActive(job))
  const provider = library?.providers[0]?.id
  return html`
    <div class="bar" role="group" aria-label="Commands">
      <${Button} icon="retry" busy=${busy("photos.sync")} disabled=${!provider} title="Compare the folder with the library." onClick=${() => start("photos.sync", { provider_id: provider })}>Sync<//>
      <${Button} icon="star" busy=${busy("photos.train")} title="Learn the names of the albums as keywords." onClick=${() => start("photos.train")}>Train<//>
      <${Button} icon="edit" busy=${busy("photos.retag")} disabled=${!library?.models.length} title="Tag all pictures with the trained keywords." onClick=${() => start("photos.retag")}>Re-tag<//>
    </div>`
}

export function Activity({ jobs }) {
  return html`
    <${AsyncContent} request=${jobs} lines=${4}>${({ items }) => (items.length
      ? html`<ul class="photos-activity" aria-label="Latest jobs">${items.map((job) => html`<${Line} key=${job.id} job=${job} />`)}</ul>`
      : html`<${EmptyState} icon="clock" title="No jobs yet">Syncs, training and tagging appear here.<//>`)}<//>`
}

const Line = ({ job }) => html`
  <li>
    <a href=${link(`jobs/${job.id}`)}>${NAMES[job.definition_key] ?? job.definition_key}</a>
    <${Status} status=${job.status} />
    <span class="grow clip faint" title=${job.last_error ?? ""}>${job.status === "running" ? html`<${Progress} percent=${job.progress_percent ?? 0} label=${`${NAMES[job.definition_key]} progress`} />` : job.status === "succeeded" ? "" : job.last_error}</span>
    <span class="faint"><${Time} at=${job.finished_at ?? job.queued_at} /></span>
  </li>`
