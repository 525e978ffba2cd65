// The library: upload, search, and all videos with their state.
import { api, useApi } from "posthouse/api.js"
import { html, useEffect, useRef, useState } from "posthouse/lib.js"
import { link, setQuery } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { Button, Empty, Loaded, Progress, Time } from "posthouse/ui/basics.js"
import { complain } from "posthouse/ui/toast.js"
import { upload } from "posthouse/upload.js"
import { clock, Marked, route, stateOf } from "./words.js"

const LIVE = 1500

export function Library({ query }) {
  const videos = useApi(route("videos"), { limit: 100 }, { every: LIVE })
  const asked = query.q ?? ""
  return html`
    <div class="vision">
      <div class="vision-bar"><${Search} asked=${asked} /><${Upload} done=${videos.reload} /></div>
      ${asked ? html`<${Hits} asked=${asked} />` : html`<${Loaded} from=${videos}>${(found) => html`<${Videos} videos=${found} />`}<//>`}
    </div>`
}

function Search({ asked }) {
  const [text, setText] = useState(asked)
  useEffect(() => setText(asked), [asked])
  const submit = (event) => {
    event.preventDefault()
    setQuery({ q: text.trim() })
  }
  return html`
    <form class="vision-search" role="search" onSubmit=${submit}>
      <input type="search" data-filter aria-label="Search the texts in all videos" placeholder="Search texts: words, @mention, #hashtag, 4711"
        value=${text} onInput=${(event) => { setText(event.target.value); if (!event.target.value) setQuery({ q: "" }) }} />
      <${Button} type="submit" icon="search" label="Search" />
    </form>`
}

function Upload({ done }) {
  const session = useSession()
  const [share, setShare] = useState(null)
  const input = useRef(null)
  if (!session.can("jobs:write")) return null
  const send = async (file) => {
    setShare(0)
    try {
      const { video_id: id } = await api.post(route("videos"), { title: file.name.slice(0, 500) })
      await upload(route(`videos/${id}/original`), file, { progress: setShare })
        .catch((error) => api.delete(route(`videos/${id}`)).then(() => { throw error }))
    } catch (error) {
      complain(error)
    }
    setShare(null)
    done()
  }
  const chosen = async (event) => {
    for (const file of [...event.target.files]) await send(file)
    if (input.current) input.current.value = ""
  }
  return html`
    <div class="vision-upload">
      <input ref=${input} class="hidden" id="vision-files" type="file" multiple accept="video/*,.mkv,.ts" aria-label="Video files" onChange=${chosen} />
      ${share === null
        ? html`<${Button} strong icon="plus" onClick=${() => input.current.click()}>Upload videos<//>`
        : html`<${Progress} percent=${100 * share} label="Upload" />`}
    </div>`
}

function Hits({ asked }) {
  const hits = useApi(route("search"), { q: asked, limit: 100 })
  return html`
    <${Loaded} from=${hits}>${(found) => found.length
      ? html`<ul class="vision-hits" aria-label="Search results">${found.map((hit) => html`
          <li key=${hit.segment_id}><a href=${link(`videos/${hit.video_id}`, { t: hit.t_start, q: asked })}>
            <${Picture} video=${hit.video_id} name=${hit.t_start} />
            <span class="vision-text"><b><${Marked} text=${hit.text} query=${asked} /></b>
              <small>${clock(hit.t_start)} – ${clock(hit.t_end)} · ${hit.title || "Untitled"}</small></span>
          </a></li>`)}</ul>`
      : html`<${Empty} icon="search" title="No text found">All words must be visible in one line of a video. Try fewer or shorter words.<//>`}<//>`
}

function Videos({ videos }) {
  if (!videos.length) return html`<${Empty} icon="play" title="No videos yet">Upload a video. The texts in it can be searched when it is ready.<//>`
  return html`<ul class="vision-videos" aria-label="Videos">${videos.map((video) => html`<${Tile} key=${video.video_id} video=${video} />`)}</ul>`
}

function Tile({ video }) {
  const state = stateOf(video)
  return html`
    <li class="card vision-tile"><a href=${link(`videos/${video.video_id}`)}>
      ${video.s3_thumb_path ? html`<${Picture} video=${video.video_id} name="poster" />` : html`<span class="vision-picture"></span>`}
      <b class="clip" title=${video.title}>${video.title || "Untitled"}</b>
      <span class="vision-facts"><span class="status" data-status=${state.status}>${state.text}</span>
        ${state.percent != null ? html`<${Progress} percent=${state.percent} label=${state.text} />` : html`<small>${video.duration_ms ? `${clock(video.duration_ms)} · ` : ""}<${Time} at=${video.created_at} /></small>`}</span>
      ${video.error && html`<small class="vision-error">${video.error}</small>`}
      ${video.warning && html`<small class="vision-warning">${video.warning}</small>`}
    </a></li>`
}

const Picture = ({ video, name }) => html`<img class="vision-picture" loading="lazy" alt="" src=${route(`videos/${video}/${name}.jpg`)} />`
