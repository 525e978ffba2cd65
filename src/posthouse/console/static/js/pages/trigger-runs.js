// Next runs of a schedule, in its time zone and in the time zone of the browser.
import { html } from "../lib.js"
import { Tag, Time } from "../ui/basics.js"

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone
const PARTS = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }

export const clockOf = (at, zone) => {
  const precise = new Date(at).getUTCSeconds() ? { second: "2-digit" } : {}
  try {
    return new Intl.DateTimeFormat("en-GB", { ...PARTS, ...precise, timeZone: zone }).format(new Date(at))
  } catch { // unknown to the browser
    return new Date(at).toISOString().replace("T", " ").slice(0, 19)
  }
}

/** Only the time of day if the day is the same. */
const hereOf = (at, zone) => {
  const [there, here] = [clockOf(at, zone), clockOf(at, HERE)]
  const day = (text) => text.replace(/,? [\d:]+$/, "")
  return day(there) === day(here) ? here.match(/[\d:]+$/)[0] : here
}

const offsetOf = (local) => local.match(/[+-]\d\d:\d\d$/)?.[0].replace("-", "−") ?? "UTC"

/** `runs` as returned by the API. */
export function Runs({ runs, zone }) {
  const elsewhere = runs.some(({ at }) => clockOf(at, zone) !== clockOf(at, HERE))
  if (!runs.length) return html`<p class="faint">No further runs.</p>`
  return html`
    <ol class="runs" aria-label="Next runs">${runs.map((run) => html`
      <li key=${run.at}>
        <span class="figure"><b>${clockOf(run.at, zone)}</b> <small>${offsetOf(run.local)}</small></span>
        ${elsewhere && html`<span class="figure faint" title=${`Your time zone (${HERE})`}>${hereOf(run.at, zone)} <small>your time</small></span>`}
        <span class="faint"><${Time} at=${run.at} /></span>
        ${run.note && html`<${Tag} tone="warn">${run.note}<//>`}
      </li>`)}
    </ol>
    <small>${zone}${elsewhere ? `; your time zone: ${HERE}` : ", same as your time"}</small>`
}
