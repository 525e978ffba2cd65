// Uploads with progress, one file after the other, in the chosen language.
import { api, useApi } from "posthouse/api.js"
import { html, useRef, useState } from "posthouse/preact.js"
import { useSession } from "posthouse/session.js"
import { Button, Progress } from "posthouse/components/display.js"
import { showError } from "posthouse/components/toast.js"
import { upload } from "posthouse/upload.js"
import { languageName, route } from "./videos.js"

const TYPES = "video/*,.mkv,.ts"

/** Sends the original of a video. `progress`: called with the share that was sent, 0 to 1. */
const send = (id, file, options) => upload(route(`videos/${id}/original`), file, options)

/** Registers a video and uploads it; one that did not arrive is deleted. */
async function add(file, languages, options) {
  const { video_id: id } = await api.post(route("videos"), { title: file.name.slice(0, 500), options: { languages } })
  try {
    await send(id, file, options)
  } catch (error) {
    await api.delete(route(`videos/${id}`))
    throw error
  }
}

export function Uploads({ onDone }) {
  const session = useSession()
  const [language, setLanguage] = useState("eng")
  if (!session.can("jobs:write")) return null
  return html`
    <div class="vision-upload">
      <${Language} value=${language} onChange=${setLanguage} />
      <${FileButton} strong icon="plus" multiple onDone=${onDone} onFile=${(file, options) => add(file, [...new Set([language, "eng"])], options)}>Upload videos<//>
    </div>`
}

function Language({ value, onChange }) {
  const languages = useApi(route("languages"), {})
  const names = (languages.data ?? [value]).map((code) => [code, languageName(code)]).sort((a, b) => a[1].localeCompare(b[1]))
  return html`
    <select aria-label="Language of the texts" title="Language of the texts" value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${names.map(([code, name]) => html`<option key=${code} value=${code}>${name}</option>`)}
    </select>`
}

/** Replaces the original of a video, for example of one that failed. */
export const Replace = ({ video, onDone }) => html`
  <${FileButton} small icon="retry" onDone=${onDone} onFile=${(file, options) => send(video.video_id, file, options)}>
    ${video.status === "failed" ? "Upload again" : "Replace"}<//>`

/** A button that asks for files and sends them with `onFile`; meanwhile the progress, and a button that stops it. */
function FileButton({ onFile, onDone, multiple = false, children, ...rest }) {
  const [share, setShare] = useState(null)
  const input = useRef(null)
  const stopping = useRef(null)
  const chosen = async (event) => {
    stopping.current = new AbortController()
    for (const file of [...event.target.files]) {
      setShare(0)
      await onFile(file, { progress: setShare, signal: stopping.current.signal }).catch((error) => error.name === "AbortError" || showError(error))
      onDone()
      if (stopping.current.signal.aborted) break
    }
    setShare(null)
    if (input.current) input.current.value = ""
  }
  return html`
    <input ref=${input} class="hidden" type="file" multiple=${multiple} accept=${TYPES} aria-label="Video files" onChange=${chosen} />
    ${share === null
      ? html`<${Button} ...${rest} onClick=${() => input.current.click()}>${children}<//>`
      : html`<span class="vision-sending"><${Progress} percent=${100 * share} label="Upload" />
          <${Button} small plain icon="close" label="Stop the upload" onClick=${() => stopping.current.abort()} /></span>`}`
}
