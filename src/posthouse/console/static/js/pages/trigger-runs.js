// When a schedule runs next: on the clocks of its zone, and on those of whoever looks.
import { html } from "../lib.js"
import { Tag, Time } from "../ui/basics.js"

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone
const PARTS = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }

const clockOf = (at, zone) => {
  const precise = new Date(at).getUTCSeconds() ? { second: "2-digit" } : {}
  try {
    return new Intl.DateTimeFormat("en-GB", { ...PARTS, ...precise, timeZone: zone }).format(new Date(at))
  } catch { // a zone that the browser does not know
    return new Date(at).toISOString().replace("T", " ").slice(0, 19)
  }
}

/** Only the time of day where the day is the same. */
const hereOf = (at, zone) => {
  const [there, here] = [clockOf(at, zone), clockOf(at, HERE)]
  const day = (text) => text.replace(/,? [\d:]+$/, "")
  return day(there) === day(here) ? here.match(/[\d:]+$/)[0] : here
}

const offsetOf = (local) => local.match(/[+-]\d\d:\d\d$/)?.[0].replace("-", "−") ?? "UTC"

/** `runs` as the API tells them. */
export function Runs({ runs, zone }) {
  const elsewhere = runs.some(({ at }) => clockOf(at, zone) !== clockOf(at, HERE))
  if (!runs.length) return html`<p class="faint">It does not run again.</p>`
  return html`
    <ol class="runs" aria-label="Next runs">${runs.map((run) => html`
      <li key=${run.at}>
        <span class="figure"><b>${clockOf(run.at, zone)}</b> <small>${offsetOf(run.local)}</small></span>
        ${elsewhere && html`<span class="figure faint" title=${`On your clocks (${HERE})`}>${hereOf(run.at, zone)} <small>yours</small></span>`}
        <span class="faint"><${Time} at=${run.at} /></span>
        ${run.note && html`<${Tag} tone="warn">${run.note}<//>`}
      </li>`)}
    </ol>
    <small>${zone}${elsewhere ? `, beside your own: ${HERE}` : ", as on your clocks"}</small>`
}
