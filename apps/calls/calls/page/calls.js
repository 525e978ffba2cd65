// Addresses, times, states and highlighted words.
import { apiUrl, site } from "posthouse/api.js"
import { percent } from "posthouse/format.js"
import { html } from "posthouse/preact.js"

/** The URL of a route; `file` adds the tenant that the operator has selected, for links and players. */
export const route = (path = "") => site(`/calls${path && `/${path}`}`)
export const file = (path) => apiUrl(route(path))

/** 83.5 s as 1:23. */
export function clock(seconds) {
  const whole = Math.floor(seconds ?? 0)
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  const end = String(rest).padStart(2, "0")
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${end}` : `${minutes}:${end}`
}

const STAGES = {
  extract_audio: ["Extracting audio", 1], transcribe_start: ["Starting recognition", 2],
  transcribe_poll: ["Recognizing speech", 3], analyze: ["Analysing", 4],
}
const ENDED = { done: ["Done", "succeeded"], low_confidence: ["Low confidence", "snoozed"], failed: ["Failed", "failed"], canceled: ["Canceled", "canceled"] }

/** What happens to a call now: {text, status, percent}. `status` is one of the console, for its colour. */
export function stateOf(call) {
  const ended = ENDED[call.status]
  if (ended) return { text: call.status === "low_confidence" ? `${ended[0]}, ${percent(call.confidence)}` : ended[0], status: ended[1] }
  const [name, step] = STAGES[call.stage] ?? ["Waiting", 1]
  return { text: `${name} (${step} of 4)`, status: "running", percent: call.progress_percent }
}

const plain = (text) => text.toLowerCase().replaceAll("’", "'")
export const queryWords = (query) => plain(query).split(/[\s!-&(-/:-@[-`{-~]+/).filter(Boolean)

/** Whether one of the words of a text begins with one of these. */
export const matches = (text, wanted) => wanted.length > 0 && queryWords(text).some((word) => wanted.some((each) => word.startsWith(each)))

/** The text with the words of the query marked. */
export function Marked({ text, query }) {
  const wanted = queryWords(query)
  return text.split(/(\s+)/).map((part) => (matches(part, wanted) ? html`<mark>${part}</mark>` : part))
}
