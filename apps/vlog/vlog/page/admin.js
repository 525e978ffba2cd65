// Workers, and the videos that they transcode, live.
import { site, useApi } from "posthouse/api.js"
import { formatInteger, plural } from "posthouse/format.js"
import { html } from "posthouse/preact.js"
import { link } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, Card, EmptyState, Progress, StatTile, Status, Table, Tag, Time } from "posthouse/components/display.js"
import { Qualities, route, State, stateOf, useVideos } from "./videos.js"

const QUEUE = "vlog"
const WORKERS_MS = 2000

export function Admin() {
  const session = useSession()
  const isOperator = session.can("overview:read")
  const videos = useVideos(route("/progress"), {}, (list) => list.length > 0)
  const workers = useApi(isOperator ? "/admin/workers" : "/workers", {}, { every: WORKERS_MS })
  const serving = workers.data?.filter(({ queues, status }) => (!queues.length || queues.includes(QUEUE)) && status !== "offline")
  const running = videos.data?.filter((video) => video.worker_id)
  return html`
    <div class="vlog">
      <div class="tiles">
        <${StatTile} name="Workers" value=${formatInteger(serving?.length)} hint="online, for videos" tone=${serving?.length === 0 && "bad"} />
        <${StatTile} name="Busy" value=${formatInteger(serving?.filter(({ running: jobs }) => jobs).length)} hint="run at least one job" />
        <${StatTile} name="Transcoding" value=${formatInteger(running?.length)} hint="videos now" />
        <${StatTile} name="Waiting" value=${formatInteger(videos.data && videos.data.length - running.length)} hint="videos in the queue" />
      </div>
      <${AsyncContent} request=${videos} lines=${4}>${(list) => list.length
        ? html`<ul class="vlog-active" aria-label="Videos in progress">${list.map((video) => html`<${ActiveVideo} key=${video.id} video=${video} />`)}</ul>`
        : html`<${Card}><${EmptyState} icon="check" title="Nothing to transcode">Uploaded videos appear here until they are ready.<//><//>`}<//>
      <${Card} title="Workers" aside=${isOperator && html`<a href=${site("/console/workers")}>Manage workers</a>`}>
        <${AsyncContent} request=${workers} lines=${3}>${() => serving.length
          ? html`<${Table} label="Workers" columns=${isOperator ? [...COLUMNS, ...OPERATOR_COLUMNS] : COLUMNS} rows=${serving} rowKey=${({ id }) => id} />`
          : html`<${EmptyState} icon="cpu" title="No workers online" command="posthouse worker --app vlog:app --queue vlog">Videos wait until a worker starts. To start one:<//>`}<//>
      <//>
    </div>`
}

function ActiveVideo({ video }) {
  const { text, percent } = stateOf({ ...video, playable: video.version })
  const running = Boolean(video.worker_id)
  const attempt = video.attempt_number + (running ? 0 : 1)
  return html`
    <li class="card">
      <div class="vlog-head">
        <h2><a href=${link(`videos/${video.id}`)}>${video.title}</a></h2>
        <${State} video=${video} />
        ${attempt > 1 && html`<${Tag} tone="warn">attempt ${attempt} of ${video.max_attempts}<//>`}
      </div>
      <small>${running ? html`on ${video.worker_name || "a worker"}, last report <${Time} at=${video.last_checkpoint} />` : "no worker yet"}</small>
      ${percent != null && html`<${Progress} percent=${percent} label=${text} />`}
      <${Qualities} qualities=${video.qualities} running=${running} />
    </li>`
}

const COLUMNS = [
  { name: "name", text: "Worker", cell: ({ name, id }) => html`<b>${name ?? id.slice(0, 8)}</b>` },
  { name: "status", text: "Status", cell: ({ status }) => html`<${Status} status=${status} />` },
  { name: "running", text: "Running jobs", align: "right", cell: ({ running, concurrency }) => `${formatInteger(running)} in ${plural(concurrency, "slot")}` },
  { name: "capabilities", text: "Capabilities", cell: ({ capabilities }) => (capabilities.length ? capabilities.map((name) => html`<${Tag} key=${name} tone="accent">${name}<//> `) : "–") },
]

/** Tenants see neither names nor machines of workers. */
const OPERATOR_COLUMNS = [
  { name: "host", text: "Host", cell: ({ hostname }) => hostname },
  { name: "heartbeat", text: "Last heartbeat", cell: ({ heartbeat_at: at }) => html`<${Time} at=${at} />` },
]
