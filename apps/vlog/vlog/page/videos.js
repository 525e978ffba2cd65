// Videos of the API: their addresses, live data, and states in words.
import { site, useApi } from "posthouse/api.js"
import { html, useEffect, useState } from "posthouse/preact.js"
import { useEventStream } from "posthouse/stream.js"
import { Progress } from "posthouse/components/display.js"

const ACTIVE_MS = 1500
const IDLE_MS = 10_000

export const route = (path = "") => site(`/api/videos${path}`)

/** Data of a route, reloaded when a job of a video changes, and often while `isActive(data)`. */
export function useVideos(path, query, isActive) {
  const [active, setActive] = useState(true)
  const found = useApi(path, query, { every: active ? ACTIVE_MS : IDLE_MS })
  useEffect(() => { if (found.data) setActive(isActive(found.data)) }, [found.data])
  useEventStream({ event: "job" }, ({ job, missed }) => {
    if (missed || job.some(({ definition_key: kind }) => kind.startsWith("vlog."))) found.reload()
  })
  return found
}

/** Whether its newest job waits or runs, also the one that transcodes a ready video again. */
export const isWorkedOn = (video) => video.status !== "failed" && video.version !== video.job_id

const STEPS = {
  probe: "Reading the file", thumbnail: "Creating the poster", transcode: "Transcoding",
  master_playlist: "Checking the output", finalize: "Publishing",
}

/** What happens to a video now: {text, status, percent}. `status` is one of the console, for its color. */
export function stateOf(video) {
  if (video.status === "failed") return { text: "Failed", status: "failed" }
  if (!isWorkedOn(video)) return { text: "Ready", status: "succeeded" }
  if (video.status !== "processing") return { text: video.playable ? "Ready, waiting to transcode again" : "Waiting for a worker", status: "queued" }
  return { text: STEPS[video.current_step] ?? "Starting", status: "running", percent: video.progress_percent ?? 0 }
}

export function State({ video }) {
  const { text, status } = stateOf(video)
  return html`<span class="status" data-status=${status}>${text}</span>`
}

const QUALITY_STATES = { pending: "Waiting", in_progress: "Encoding", completed: "Completed", failed: "Failed", skipped: "Skipped" }

const TONES = { completed: "good", failed: "bad" }

/** A row per quality, with its share and its segments. Without a `running` worker, the begun ones wait for the next. */
export const Qualities = ({ qualities, running }) => html`
  <ul class="vlog-qualities" aria-label="Qualities">${qualities.filter(({ status }) => status !== "skipped").map((each) => {
    const status = each.status === "in_progress" && !running ? "pending" : each.status
    return html`
      <li key=${each.quality}>
        <b>${each.quality}</b>
        <span class="status" data-status=${status} title=${each.error_message}>${QUALITY_STATES[status]}</span>
        <${Progress} percent=${status === "completed" ? 100 : each.progress_percent ?? 0} label=${each.quality} tone=${TONES[status]} />
        <small class="figure">${each.segments_completed ?? 0} of ${each.segments_total ?? "?"} segments</small>
      </li>`
  })}</ul>`

/** The size of a quality as people name it: the lines of its short side. */
export const linesOf = ({ width, height }) => `${Math.min(width, height)}p`

/** Bits per second as 2.8 Mbit/s. */
export const rate = (bits) => (bits < 1e6 ? `${Math.round(bits / 1000)} kbit/s` : `${(bits / 1e6).toFixed(1)} Mbit/s`)

/** 83.5 seconds as 1:23. */
export function clock(seconds) {
  const whole = Math.round(seconds ?? 0)
  const parts = [Math.floor(whole / 60) % 60, whole % 60].map((part) => String(part).padStart(2, "0"))
  const hours = Math.floor(whole / 3600)
  return hours ? `${hours}:${parts.join(":")}` : `${Number(parts[0])}:${parts[1]}`
}
