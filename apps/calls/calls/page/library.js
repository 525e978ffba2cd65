// All calls: upload, search in transcripts, and a list with live states.
import { useApi } from "posthouse/api.js"
import { percent } from "posthouse/format.js"
import { html, useRef, useState } from "posthouse/preact.js"
import { link } from "posthouse/router.js"
import { Search } from "posthouse/search.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, Button, EmptyState, Progress, Tag, Time } from "posthouse/components/display.js"
import { showError } from "posthouse/components/toast.js"
import { upload } from "posthouse/upload.js"
import { clock, Marked, route, stateOf } from "./calls.js"

const POLL_MS = 1500

export function Library({ query }) {
  const calls = useApi(route(), { limit: 200 }, { every: POLL_MS })
  const asked = query.q ?? ""
  return html`
    <div class="calls">
      <div class="calls-bar"><${Search} class="calls-search" value=${asked} label="Search in all transcripts" /><${Upload} onDone=${calls.reload} /></div>
      ${asked ? html`<${SearchResults} text=${asked} />` : html`<${AsyncContent} request=${calls}>${(found) => html`<${Calls} calls=${found} />`}<//>`}
    </div>`
}

function Upload({ onDone }) {
  const session = useSession()
  const [sending, setSending] = useState(null)
  const input = useRef(null)
  if (!session.can("jobs:write")) return null
  const send = async (recording) => {
    const progress = (share) => setSending({ name: recording.name, share })
    progress(0)
    try {
      await upload(route(), recording, { method: "POST", query: { title: recording.name.slice(0, 500) }, progress })
    } catch (error) {
      showError(error)
    }
    setSending(null)
    onDone()
  }
  const chosen = async (event) => {
    for (const recording of [...event.target.files]) await send(recording)
    if (input.current) input.current.value = ""
  }
  return html`
    <div class="calls-upload">
      <input ref=${input} class="hidden" id="calls-files" type="file" multiple accept="audio/*,video/*" aria-label="Recordings" onChange=${chosen} />
      ${sending === null
        ? html`<${Button} strong icon="plus" onClick=${() => input.current.click()}>Upload recordings<//>`
        : html`<span class="clip">${sending.name}</span><${Progress} percent=${100 * sending.share} label="Upload" />`}
    </div>`
}

function SearchResults({ text }) {
  const hits = useApi(route("search"), { q: text, limit: 100 })
  return html`
    <${AsyncContent} request=${hits}>${(found) => found.length
      ? html`<ul class="calls-hits" aria-label="Search results">${found.map((hit) => html`
          <li key=${`${hit.call_id} ${hit.number}`}><a href=${link(`calls/${hit.call_id}`, { t: hit.start_seconds, q: text })}>
            <span class="figure calls-at">${clock(hit.start_seconds)}</span>
            <span class="calls-said"><span><${Marked} text=${hit.text} query=${text} /></span>
              <small>Speaker ${hit.speaker} · ${hit.title || "Untitled"}</small></span>
            ${hit.is_low_confidence && html`<${Tag} tone="warn">Low confidence<//>`}
          </a></li>`)}</ul>`
      : html`<${EmptyState} icon="search" title="No phrase found">All words must be said in one phrase. Try fewer words, or their beginnings.<//>`}<//>`
}

function Calls({ calls }) {
  if (!calls.length) return html`<${EmptyState} icon="list" title="No calls yet">Upload the recording of a call. Its transcript and figures appear here.<//>`
  return html`
    <div class="table-box"><table class="calls-list" aria-label="Calls">
      <thead><tr><th class="wide">Call</th><th>Status</th><th data-align="right">Length</th><th data-align="right">Confidence</th><th data-align="right">Uploaded</th></tr></thead>
      <tbody>${calls.map((call) => html`<${Row} key=${call.call_id} call=${call} />`)}</tbody>
    </table></div>`
}

function Row({ call }) {
  const state = stateOf(call)
  return html`
    <tr>
      <td class="wide"><a href=${link(`calls/${call.call_id}`)} title=${call.title}>${call.title || "Untitled"}</a>
        ${call.error && html`<small class="calls-error clip" title=${call.error}>${call.error}</small>`}</td>
      <td class="calls-status"><span class="status" data-status=${state.status}>${state.text}</span>
        ${state.percent != null && html`<${Progress} percent=${state.percent} label=${state.text} />`}</td>
      <td data-align="right" data-label="Length">${call.duration === null ? "–" : clock(call.duration)}</td>
      <td data-align="right" class="calls-confidence">${percent(call.confidence)}</td>
      <td data-align="right" data-label="Uploaded"><${Time} at=${call.created_at} /></td>
    </tr>`
}
