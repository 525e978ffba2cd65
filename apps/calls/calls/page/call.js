// One call: player with transcript, figures, exports, processing again and deletion.
import { api, useApi } from "posthouse/api.js"
import { percent } from "posthouse/format.js"
import { html, useEffect, useRef, useState } from "posthouse/preact.js"
import { link, navigate } from "posthouse/router.js"
import { useSession } from "posthouse/session.js"
import { AsyncContent, BackLink, Button, Card, EmptyState, Progress } from "posthouse/components/display.js"
import { Confirm } from "posthouse/components/dialog.js"
import { Icon } from "posthouse/components/icons.js"
import { runWithToast } from "posthouse/components/toast.js"
import { Figures, Jobs, Keywords, Speakers } from "./figures.js"
import { Player } from "./player.js"
import { wordAt, withTimes, Transcript } from "./transcript.js"
import { file, route, stateOf } from "./calls.js"

const POLL_MS = 1500
const FORMATS = ["srt", "vtt", "json"]

export function Call({ id, query }) {
  const call = useApi(route(id), {}, { every: POLL_MS })
  return html`
    <div class="calls">
      <${BackLink} href=${link("", { q: query.q })}>${query.q ? "Search results" : "All calls"}<//>
      <${AsyncContent} request=${call}>${(found) => html`<${CallDetails} call=${found} query=${query} reload=${call.reload} />`}<//>
    </div>`
}

function CallDetails({ call, query, reload }) {
  const state = stateOf(call)
  const isRead = call.status === "done" || call.status === "low_confidence"
  return html`
    <div class="calls-head"><h2 class="clip" title=${call.title}>${call.title || "Untitled"}</h2>
      <span class="status" data-status=${state.status}>${state.text}</span>
      <${Actions} call=${call} isRead=${isRead} reload=${reload} /></div>
    ${state.percent != null && html`<${Progress} percent=${state.percent} label=${state.text} />`}
    ${call.error && html`<p class="calls-note" data-tone=${call.status === "canceled" ? "quiet" : "bad"}><${Icon} name="alert" />${call.error}</p>`}
    ${isRead ? html`<${Results} key=${call.analysed_at} call=${call} query=${query} />` : html`<div class="calls-side"><${Jobs} call=${call} /></div>`}`
}

function Actions({ call, isRead, reload }) {
  const session = useSession()
  const [removing, setRemoving] = useState(false)
  const canWrite = session.can("jobs:write")
  const again = () => runWithToast(() => api.post(route(`${call.call_id}/process`), undefined, { query: { transcribe_again: isRead } }), "Processing started.").then(reload)
  const remove = () => runWithToast(() => api.delete(route(call.call_id)), () => {
    navigate(link(""))
    return "Call deleted."
  })
  return html`
    <div class="calls-actions">
      ${isRead && FORMATS.map((kind) => html`<a key=${kind} class="button small" href=${file(`${call.call_id}/export.${kind}`)} download target="_self" aria-label=${`Export ${kind.toUpperCase()}`}><${Icon} name="download" />${kind.toUpperCase()}</a>`)}
      ${canWrite && call.status !== "processing" && html`<${Button} small icon="retry" onClick=${again}>${isRead ? "Transcribe again" : "Process again"}<//>`}
      ${canWrite && html`<${Button} danger small icon="trash" onClick=${() => setRemoving(true)}>Delete<//>`}
      ${removing && html`<${Confirm} title="Delete the call?" danger submitText="Delete" onSubmit=${remove} onClose=${() => setRemoving(false)}>
        The audio, the transcript and the figures are deleted, and the data of its jobs. This cannot be undone.<//>`}
    </div>`
}

function Results({ call, query }) {
  const figures = useApi(route(`${call.call_id}/analysis`))
  const transcript = useApi(route(`${call.call_id}/transcript`))
  return html`
    ${call.status === "low_confidence" && html`<p class="calls-note" data-tone="warn"><${Icon} name="alert" />The model read this recording with a confidence of ${percent(call.confidence)}.
      The text is probably wrong: the recording may be in another language than ${transcript.data?.language ?? "expected"}, or hard to hear.</p>`}
    <div class="calls-columns">
      <${AsyncContent} request=${transcript}>${(found) => html`<${Playback} call=${call} phrases=${withTimes(found)} query=${query} />`}<//>
      <div class="calls-side"><${AsyncContent} request=${figures}>${(found) => html`
        <${Figures} figures=${found} /><${Speakers} speakers=${found.speakers} /><${Keywords} keywords=${found.keywords} />`}<//>
        <${Jobs} call=${call} /></div>
    </div>`
}

function Playback({ call, phrases, query }) {
  const player = useRef(null)
  const [position, setPosition] = useState("")
  const speakers = [...new Set(phrases.map((phrase) => phrase.speaker))].sort()
  const start = query.t === undefined ? null : Number(query.t)
  useEffect(() => { if (start !== null) player.current.seek(start) }, [start])
  return html`
    <${Card} class="calls-listen">
      <${Player} source=${file(`${call.call_id}/audio`)} duration=${call.duration ?? 0} phrases=${phrases} speakers=${speakers} player=${player}
        onMove=${(seconds) => setPosition(wordAt(phrases, seconds))} />
      ${phrases.length
        ? html`<${Transcript} phrases=${phrases} position=${position} query=${query.q ?? ""} onSeek=${(seconds) => player.current.seek(seconds)} />`
        : html`<${EmptyState} title="No speech">No words were found in this recording.<//>`}
    <//>`
}
