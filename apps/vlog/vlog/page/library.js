// The library: upload, search by title, and all videos with their state.
import { site } from "posthouse/api.js"
import { bytes } from "posthouse/format.js"
import { cls, html, useEffect, useRef, useState } from "posthouse/preact.js"
import { link, setQuery } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, Button, EmptyState, Progress, Time } from "posthouse/components/display.js"
import { Icon } from "posthouse/components/icons.js"
import { runWithToast } from "posthouse/components/toast.js"
import { discard, send, useTransfers } from "./transfers.js"
import { clock, isWorkedOn, linesOf, route, State, stateOf, useVideos } from "./videos.js"

const PAGE = 48
const TYPES = ".mp4,.mkv,.mov,.webm,.avi,.m4v,.ts"

export function Library({ query }) {
  const session = useSession()
  const videos = useVideos(route(), { limit: PAGE, before: query.before, q: query.q }, (list) => list.some(isWorkedOn))
  const [dropping, setDropping] = useState(false)
  const writes = session.can("jobs:write")
  const drop = (event) => {
    event.preventDefault()
    setDropping(false)
    send([...event.dataTransfer.files], videos.reload)
  }
  const over = (event) => { event.preventDefault(); setDropping(true) }
  const dropped = writes ? { onDragOver: over, onDragLeave: () => setDropping(false), onDrop: drop } : {}
  return html`
    <div class=${cls("vlog", dropping && "vlog-dropping")} ...${dropped}>
      <div class="vlog-bar"><${Search} text=${query.q ?? ""} />${writes && html`<${UploadButton} onDone=${videos.reload} />`}</div>
      ${writes && html`<${Transfers} onDone=${videos.reload} />`}
      <${AsyncContent} request=${videos}>${(list) => html`<${Videos} videos=${list} query=${query} />`}<//>
    </div>`
}

function Search({ text: searched }) {
  const [text, setText] = useState(searched)
  useEffect(() => setText(searched), [searched])
  const submit = (event) => {
    event.preventDefault()
    setQuery({ q: text.trim(), before: null })
  }
  const typed = ({ target }) => {
    setText(target.value)
    if (!target.value) setQuery({ q: null, before: null })
  }
  return html`
    <form class="vlog-search" role="search" onSubmit=${submit}>
      <input type="search" data-filter aria-label="Search videos by title" placeholder="Search titles" value=${text} onInput=${typed} />
    </form>`
}

function UploadButton({ onDone, children = "Upload videos", ...rest }) {
  const input = useRef(null)
  const chosen = (event) => {
    send([...event.target.files], onDone)
    event.target.value = ""
  }
  return html`
    <span><input ref=${input} hidden type="file" multiple accept=${TYPES} aria-label="Video files" onChange=${chosen} />
      <${Button} strong icon="plus" ...${rest} onClick=${() => input.current.click()}>${children}<//></span>`
}

function Transfers({ onDone }) {
  const transfers = useTransfers(useSession())
  if (!transfers.length) return null
  return html`
    <section class="card"><header><h2>Uploads</h2></header>
      <ul class="vlog-transfers" aria-label="Uploads">${transfers.map((each) => html`<${Transfer} key=${each.key} transfer=${each} onDone=${onDone} />`)}</ul>
    </section>`
}

const TRANSFER_STATES = { queued: "Waiting", interrupted: "Interrupted. Choose the same file again to continue." }

function Transfer({ transfer, onDone }) {
  const { key, name, size, sent, state, message } = transfer
  const text = message ?? TRANSFER_STATES[state] ?? `${bytes(sent)} of ${bytes(size)}`
  return html`
    <li data-state=${state}>
      <div class="vlog-transfer"><b class="clip" title=${name}>${name}</b><small class=${cls(state === "failed" && "vlog-error")}>${text}</small></div>
      ${state !== "failed" && html`<${Progress} percent=${size ? (100 * sent) / size : 0} label=${`Upload of ${name}`} />`}
      ${state === "interrupted" && html`<${UploadButton} small onDone=${onDone}>Continue<//>`}
      <${Button} small plain icon="close" label=${state === "sending" ? `Cancel the upload of ${name}` : `Discard ${name}`} onClick=${() => runWithToast(() => discard(key))} />
    </li>`
}

function Videos({ videos, query }) {
  if (!videos.length && query.q) return html`<${EmptyState} icon="search" title="No matching videos">No title contains “${query.q}”.<//>`
  if (!videos.length) return html`<${EmptyState} icon="play" title="No videos yet">Upload a video or drop files here. Each is transcoded to several qualities and can be watched when it is ready.<//>`
  return html`
    <ul class="vlog-videos" aria-label="Videos">${videos.map((video) => html`<${Tile} key=${video.id} video=${video} />`)}</ul>
    <nav class="vlog-pager" aria-label="Pages of videos">
      ${query.before && html`<a class="button" href=${link("", { q: query.q })}>Newest</a>`}
      ${videos.length === PAGE && html`<a class="button" href=${link("", { q: query.q, before: videos.at(-1).id })}>Older</a>`}
    </nav>`
}

function Tile({ video }) {
  const { percent, text } = stateOf(video)
  return html`
    <li class="card vlog-tile"><a href=${link(`videos/${video.id}`)}>
      <${Poster} video=${video} />
      <b class="clip" title=${video.title}>${video.title}</b>
      <span class="vlog-facts"><${State} video=${video} /><small><${Time} at=${video.created_at} /></small></span>
      ${percent != null && html`<${Progress} percent=${percent} label=${text} />`}
      ${video.error_message && html`<small class="vlog-error vlog-lines" title=${video.error_message}>${video.error_message}</small>`}
    </a></li>`
}

/** The poster with the duration and the largest quality. The first link is kept: new ones would load the picture again. */
function Poster({ video }) {
  const [picture, setPicture] = useState(video.thumbnail)
  useEffect(() => setPicture(video.thumbnail), [video.version])
  return html`
    <span class="vlog-poster">
      ${picture ? html`<img loading="lazy" alt="" src=${site(picture)} onError=${() => setPicture(video.thumbnail)} />` : html`<${Icon} name=${video.status === "failed" ? "alert" : "play"} />`}
      ${video.qualities.length > 0 && html`<span class="vlog-badge">${linesOf(video.qualities[0])}</span>`}
      ${video.duration != null && html`<span class="vlog-badge vlog-length">${clock(video.duration)}</span>`}
    </span>`
}
