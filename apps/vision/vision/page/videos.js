// Times, states and highlighted texts.
import { html } from "posthouse/preact.js"
import { site } from "posthouse/api.js"

export const route = (path) => site(`/vision/${path}`)

/** A media file of a video, for the session of this browser. */
export const media = (video, path) => route(`media/session/${video}/${path}`)

const CHINESE = { chi_sim: "Chinese (simplified)", chi_tra: "Chinese (traditional)" }
const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language" })

/** "German" for deu. */
export const languageName = (code) => CHINESE[code] ?? LANGUAGES.of(code)

/** 83,500 ms as 1:23. */
export function clock(ms) {
  const seconds = Math.floor((ms ?? 0) / 1000)
  const parts = [Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, "0"))
  const hours = Math.floor(seconds / 3600)
  return hours ? `${hours}:${parts.join(":")}` : `${Number(parts[0])}:${parts[1]}`
}

const STAGES = {
  "vision.transcode": ["Creating the stream", 1], "vision.sample": ["Selecting frames", 2],
  "vision.ocr": ["Reading texts", 3], "vision.segment_index": ["Indexing", 4],
}

/** What happens to a video now: {text, status, percent}. `status` is one of the console, for its colour. */
export function stateOf(video) {
  if (video.status === "ready") return { text: "Ready", status: "succeeded" }
  if (video.status === "failed") return { text: "Failed", status: "failed" }
  if (video.status === "uploading") return { text: "Waiting for the upload", status: "queued" }
  const [name, step] = STAGES[video.stage] ?? ["Waiting", 1]
  const waits = video.stage_status === "queued"
  return { text: `${name}${waits ? ", waiting" : ""} (${step} of 4)`, status: "running", percent: video.progress_percent }
}

/** The text with the words of the query marked, where words begin with them. */
export function Marked({ text, query }) {
  const words = query.split(/\s+/).filter(Boolean).map((word) => word.replace(/^[@#](?=.)/, ""))
  if (!words.length) return text
  const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")
  const parts = text.split(new RegExp(`(?<![\\p{L}\\p{N}])(${pattern})`, "giu"))
  return parts.map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part))
}
