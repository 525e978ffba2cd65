// The library: upload, search, and all videos with their state.
import { useApi } from "posthouse/api.js"
import { html, useState } from "posthouse/preact.js"
import { link } from "posthouse/router.js"
import { Search } from "posthouse/search.js"
import { AsyncContent, Button, EmptyState, Progress, Time } from "posthouse/components/display.js"
import { Uploads } from "./uploads.js"
import { clock, Marked, media, route, stateOf } from "./videos.js"

const POLL_MS = 1500
const PAGE = 100
const MAX_SHOWN = 500

export function Library({ query }) {
  const [limit, setLimit] = useState(PAGE)
  const videos = useApi(route("videos"), { limit }, { every: POLL_MS })
  const asked = query.q ?? ""
  return html`
    <div class="vision">
      <div class="vision-bar"><${Search} class="vision-search" value=${asked} label="Search the texts in all videos" hint="Search texts: words, @mention, #hashtag, 4711" /><${Uploads} onDone=${videos.reload} /></div>
      ${asked ? html`<${SearchResults} key=${asked} text=${asked} />` : html`<${AsyncContent} request=${videos}>${(found) => html`<${Videos} videos=${found} />
        <${More} shown=${found.length} limit=${limit} setLimit=${setLimit} />`}<//>`}
    </div>`
}

/** Loads more of a list that has as many entries as were asked for. */
const More = ({ shown, limit, setLimit }) => shown === limit && limit < MAX_SHOWN
  && html`<p class="vision-more"><${Button} onClick=${() => setLimit(Math.min(MAX_SHOWN, limit + PAGE))}>Show more<//></p>`

function SearchResults({ text }) {
  const [limit, setLimit] = useState(PAGE)
  const hits = useApi(route("search"), { q: text, limit })
  return html`
    <${AsyncContent} request=${hits}>${(found) => found.length
      ? html`<ul class="vision-hits" aria-label="Search results">${found.map((hit) => html`
          <li key=${hit.segment_id}><a href=${link(`videos/${hit.video_id}`, { t: hit.t_start, q: text })}>
            <${Picture} video=${hit.video_id} name=${hit.t_start} />
            <span class="vision-text"><b><${Marked} text=${hit.text} query=${text} /></b>
              <small>${clock(hit.t_start)} – ${clock(hit.t_end)} · ${hit.title || "Untitled"}</small></span>
          </a></li>`)}</ul><${More} shown=${found.length} limit=${limit} setLimit=${setLimit} />`
      : html`<${EmptyState} icon="search" title="No text found">All words must be visible in one line of a video. Try fewer or shorter words.<//>`}<//>`
}

function Videos({ videos }) {
  if (!videos.length) return html`<${EmptyState} icon="play" title="No videos yet">Upload a video. The texts in it can be searched when it is ready.<//>`
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

const Picture = ({ video, name }) => html`<img class="vision-picture" loading="lazy" alt="" src=${media(video, `${name}.jpg`)} />`
