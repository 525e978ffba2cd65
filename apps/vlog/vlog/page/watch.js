// One video: player, qualities, progress, and actions.
import { api, site } from "posthouse/api.js"
import { duration } from "posthouse/format.js"
import { html, useState } from "posthouse/preact.js"
import { link, navigate } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, BackLink, Button, Card, CopyButton, DescriptionList, EmptyState, ErrorBanner, Progress, Table, Time } from "posthouse/components/display.js"
import { Confirm, Dialog } from "posthouse/components/dialog.js"
import { toast } from "posthouse/components/toast.js"
import { Player } from "./player.js"
import { clock, isWorkedOn, Qualities, rate, route, State, stateOf, useVideos } from "./videos.js"

export function Watch({ id }) {
  const video = useVideos(route(`/${id}`), {}, isWorkedOn)
  const isGone = video.error?.status === 404
  return html`
    <div class="vlog">
      <${BackLink} href=${link("")}>All videos<//>
      ${isGone ? html`<${EmptyState} icon="play" title="Video not found">It was deleted, or the link is wrong.<//>`
        : html`<${AsyncContent} request=${video}>${(found) => html`<${VideoDetails} key=${found.id} video=${found} onChanged=${video.reload} />`}<//>`}
    </div>`
}

function VideoDetails({ video, onChanged }) {
  const session = useSession()
  const [dialog, setDialog] = useState(null)
  const working = isWorkedOn(video)
  const close = () => setDialog(null)
  return html`
    <div class="vlog-head">
      <h2>${video.title}</h2><${State} video=${video} />
      ${session.can("jobs:write") && html`<span class="vlog-actions">
        <${Button} small icon="retry" disabled=${working} onClick=${() => setDialog("retranscode")}>Transcode again<//>
        <${Button} small danger icon="trash" onClick=${() => setDialog("delete")}>Delete<//></span>`}
    </div>
    ${video.error_message && video.status === "failed" && html`<${ErrorBanner} error=${{ message: video.error_message }} />`}
    ${working && html`<${TranscodingProgress} video=${video} />`}
    ${video.playable && html`<${Player} video=${video} />`}
    ${video.playable && html`<${VideoFacts} video=${video} />`}
    ${video.transcription && html`<${Card} title="Transcription"><p class="vlog-text">${video.transcription}</p><//>`}
    ${dialog === "delete" && html`<${Delete} video=${video} onClose=${close} />`}
    ${dialog === "retranscode" && html`<${Retranscode} video=${video} onClose=${close} onChanged=${onChanged} />`}`
}

/** The progress of the newest job, live. */
function TranscodingProgress({ video }) {
  const progress = useVideos(route(`/${video.id}/progress`), {}, () => true)
  const { text, percent } = stateOf(video)
  const job = progress.data?.job
  const running = Boolean(job?.worker_id)
  const worker = running ? job.processed_by_worker_name || "a worker" : "none yet"
  return html`
    <${Card} title="Progress" aside=${job && html`<a href=${site(`/console/jobs/${video.job_id}`)}>Job</a>`}>
      ${percent != null && html`<p class="vlog-step"><${Progress} percent=${percent} label=${text} /></p>`}
      <${AsyncContent} request=${progress} lines=${3}>${({ qualities }) => html`
        <${DescriptionList} items=${[["Worker", worker], ["Attempt", job && `${job.attempt_number + (running ? 0 : 1)} of ${job.max_attempts}`], ["Last report", job?.last_checkpoint && html`<${Time} at=${job.last_checkpoint} />`]]} />
        <${Qualities} qualities=${qualities} running=${running} />`}<//>
    <//>`
}

const COLUMNS = [
  { name: "quality", text: "Quality", cell: ({ quality }) => html`<b>${quality}</b>` },
  { name: "size", text: "Size", cell: ({ width, height }) => `${width} × ${height}` },
  { name: "rate", text: "Bit rate", align: "right", cell: ({ bitrate }) => rate(bitrate) },
  { name: "peak", text: "Peak", align: "right", cell: ({ peak_bitrate: peak }) => rate(peak) },
  { name: "segments", text: "Segments", align: "right", cell: ({ segments }) => segments },
  { name: "codecs", text: "Codecs", cell: ({ codecs }) => html`<code>${codecs}</code>` },
]

const VideoFacts = ({ video }) => html`
  <${Card} title="Video">
    <${DescriptionList} items=${[
      ["Duration", clock(video.duration)], ["Source", `${video.width} × ${video.height}`],
      ["Uploaded", html`<${Time} at=${video.created_at} />`], ["Published", html`<${Time} at=${video.published_at} />`],
      ["Playback link", html`<span>${video.link_seconds ? `valid for ${duration(video.link_seconds)}` : "public"}<${CopyButton} text=${site(video.playlist)} label="Copy the playback link" /></span>`],
    ]} />
  <//>
  <${Table} label="Qualities" columns=${COLUMNS} rows=${video.qualities} rowKey=${({ quality }) => quality} />`

function Delete({ video, onClose }) {
  const act = async () => {
    await api.delete(route(`/${video.id}`))
    toast(`Deleted “${video.title}”.`)
    navigate(link(""))
  }
  return html`<${Confirm} title="Delete the video?" danger submitText="Delete" onSubmit=${act} onClose=${onClose}>
    The source, all qualities, the poster and the jobs of “${video.title}” are deleted. Links to it stop working. This cannot be undone.<//>`
}

function Retranscode({ video, onClose, onChanged }) {
  const names = video.qualities.map(({ quality }) => quality)
  const [only, setOnly] = useState(null)
  const [forget, setForget] = useState(false)
  const act = async () => {
    await api.post(route(`/${video.id}/retranscode`), { qualities: only, delete_transcription: forget })
    onChanged()
  }
  const toggle = (name) => setOnly((was) => (was.includes(name) ? was.filter((each) => each !== name) : [...was, name]))
  return html`
    <${Dialog} title="Transcode again?" submitText="Transcode" onSubmit=${act} onClose=${onClose} disabled=${only?.length === 0}>
      <p>${video.playable ? "The current output stays available until the new one is published." : "The video is transcoded from its source again."}</p>
      ${names.length > 0 && html`<fieldset class="vlog-choice"><legend class="hidden">Qualities</legend>
        <label><input type="radio" name="which" checked=${!only} onChange=${() => setOnly(null)} /> All configured qualities</label>
        <label><input type="radio" name="which" checked=${Boolean(only)} onChange=${() => setOnly([])} /> Only these</label>
        ${only && html`<span class="vlog-names">${names.map((name) => html`<label key=${name}><input type="checkbox" checked=${only.includes(name)} onChange=${() => toggle(name)} /> ${name}</label>`)}</span>`}
      </fieldset>`}
      ${video.transcription && html`<label><input type="checkbox" checked=${forget} onChange=${() => setForget(!forget)} /> Delete the transcription when the new output is published</label>`}
    <//>`
}
