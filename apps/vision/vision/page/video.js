// One video: player, texts, clips and deletion.
import Hls from "hls.js"
import { api, useApi } from "posthouse/api.js"
import { html, useEffect, useRef, useState } from "posthouse/preact.js"
import { link, navigate } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, BackLink, Button, Card, EmptyState, Progress, Snippet } from "posthouse/components/display.js"
import { Confirm, Dialog } from "posthouse/components/dialog.js"
import { SelectField } from "posthouse/components/forms.js"
import { runWithToast, showError, toast } from "posthouse/components/toast.js"
import { Replace } from "./uploads.js"
import { clock, Marked, media, route, stateOf } from "./videos.js"

const POLL_MS = 1500

export function Video({ id, query }) {
  const video = useApi(route(`videos/${id}`), {}, { every: POLL_MS })
  return html`
    <div class="vision">
      <${BackLink} href=${link("", { q: query.q })}>${query.q ? "Search results" : "All videos"}<//>
      <${AsyncContent} request=${video}>${(found) => html`<${VideoDetails} video=${found} query=${query} reload=${video.reload} />`}<//>
    </div>`
}

function VideoDetails({ video, query, reload }) {
  const player = useRef(null)
  const state = stateOf(video)
  const seek = (ms) => {
    player.current.currentTime = ms / 1000
    player.current.play().catch(() => {})
  }
  return html`
    <div class="vision-head"><h2 class="clip">${video.title || "Untitled"}</h2>
      <span class="status" data-status=${state.status}>${state.text}</span>
      <${Actions} video=${video} reload=${reload} /></div>
    ${state.percent != null && html`<${Progress} percent=${state.percent} label=${state.text} />`}
    ${video.error && html`<p class="vision-error">${video.error}</p>`}
    ${video.warning && html`<p class="vision-warning">${video.warning}</p>`}
    <div class="vision-watch">
      ${video.s3_proxy_path && html`<${Player} video=${video} player=${player} at=${Number(query.t ?? 0)} />`}
      ${video.status === "ready" && html`<${Texts} video=${video} query=${query} onSeek=${seek} />`}
    </div>`
}

function Actions({ video, reload }) {
  const session = useSession()
  const [open, setOpen] = useState(null)
  const close = () => setOpen(null)
  const remove = () => runWithToast(() => api.delete(route(`videos/${video.video_id}`)), () => {
    toast("Video deleted.")
    navigate(link(""))
  })
  return html`
    <span class="vision-actions">
      ${video.s3_proxy_path && html`<${Button} small icon="link" onClick=${() => setOpen("share")}>Share<//>`}
      ${session.can("jobs:write") && html`
        ${video.status !== "processing" && html`<${Replace} video=${video} onDone=${reload} />`}
        <${Button} danger small icon="trash" onClick=${() => setOpen("remove")}>Delete<//>`}
    </span>
    ${open === "share" && html`<${Share} video=${video} onClose=${close} />`}
    ${open === "remove" && html`<${Confirm} title="Delete the video?" danger submitText="Delete" onSubmit=${remove} onClose=${close}>
      The file, its stream, texts and clips are deleted. This cannot be undone.<//>`}`
}

const LINK_LIFETIMES = [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"]]

/** Creates a link to the stream that needs no login and expires. */
function Share({ video, onClose }) {
  const [life, setLife] = useState("86400")
  const [url, setUrl] = useState(null)
  const create = async () => {
    const { stream } = await api.post(route(`videos/${video.video_id}/links`), { seconds: Number(life) })
    setUrl(new URL(stream, location.href).href)
    return false
  }
  return html`
    <${Dialog} title="Share the video" onClose=${onClose} onSubmit=${create} submitText="Create link" closeText="Close">
      <${SelectField} label="Expires after" value=${life} onChange=${setLife} options=${LINK_LIFETIMES}
        hint="The link plays the video without a login until then, in all players of HLS streams such as VLC and Safari." />
      ${url && html`<${Snippet} text=${url} />`}
    <//>`
}

function Player({ video, player, at }) {
  const source = media(video.video_id, "hls/index.m3u8")
  useEffect(() => {
    const element = player.current
    const begin = () => { element.currentTime = at / 1000 }
    element.addEventListener("loadedmetadata", begin, { once: true })
    if (!Hls.isSupported()) {
      element.src = source
      return undefined
    }
    const stream = new Hls({ startPosition: at / 1000 })
    stream.on(Hls.Events.ERROR, (_, problem) => problem.fatal && showError(new Error("The stream cannot be played. Reload the page to try again.")))
    stream.loadSource(source)
    stream.attachMedia(element)
    return () => stream.destroy()
  }, [source, at])
  return html`<video class="vision-player" ref=${player} controls playsinline autoplay=${at > 0} muted=${at > 0} poster=${at ? undefined : media(video.video_id, "poster.jpg")}></video>`
}

function Texts({ video, query, onSeek }) {
  const session = useSession()
  const texts = useApi(route(`videos/${video.video_id}/segments`), { limit: 500 })
  return html`
    <${Card} title="Texts" class="vision-texts">
      <${AsyncContent} request=${texts}>${(found) => found.length
        ? html`<ul aria-label="Texts">${found.map((text) => html`
            <li key=${text.segment_id} aria-current=${String(text.t_start) === query.t ? "true" : undefined}>
              <button type="button" class="vision-seek" onClick=${() => onSeek(text.t_start)}><span class="figure">${clock(text.t_start)}</span>
                <span><${Marked} text=${text.text} query=${query.q ?? ""} /></span></button>
              ${session.can("jobs:write") && html`<${ClipButton} video=${video} text=${text} />`}
            </li>`)}</ul>`
        : html`<${EmptyState} title="No texts">No text was found in this video.<//>`}<//>
    <//>`
}

/** Creates a clip of the time at which a text is visible, then links to the file. */
function ClipButton({ video, text }) {
  const [clip, setClip] = useState(null)
  const where = clip && route(`clips/${video.video_id}/${clip.clip_id}`)
  const state = useApi(clip && clip.status !== "done" ? where : null, {}, { every: 1000 })
  useEffect(() => {
    if (state.data?.status === "done") setClip(state.data)
    if (state.data?.error) {
      showError(new Error(state.data.error))
      setClip(null)
    }
  }, [state.data])
  const create = () => runWithToast(async () => setClip(await api.post(route("clips"), { video_id: video.video_id, t_start: text.t_start, t_end: text.t_end })))
  if (clip?.status === "done") return html`<a class="button small" href=${media(video.video_id, `clips/${clip.clip_id}.mp4`)} download="clip.mp4" target="_self">Download clip</a>`
  return html`<${Button} small plain busy=${Boolean(clip)} onClick=${create}>Clip<//>`
}
