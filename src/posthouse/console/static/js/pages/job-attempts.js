// The error of a job, and its attempts side by side.
import { html } from "../lib.js"
import { between, duration, exactly, words } from "../format.js"
import { link, setQuery } from "../router.js"
import { Card, Copy, Status } from "../ui/basics.js"
import { WorkerName } from "./job-head.js"

/** An error with its collapsed traceback. */
export function Trouble({ fault, kind, open = false }) {
  const where = fault.traceback?.trimEnd()
  return html`
    <div class="job-trouble">
      <p class="job-error"><b>${fault.type}</b>${fault.message && html`<span>${fault.message}</span>`}</p>
      ${fault.fingerprint && html`<p><a href=${link(`failures/${fault.fingerprint}`, { kind })}>View failure group</a></p>`}
      ${where && html`<details class="more" open=${open && where.split("\n").length <= 14}><summary>Traceback <span class="faint">${lastPlace(where)}</span></summary>
        <div class="job-output"><${Copy} text=${where} label="Copy traceback" /><pre tabindex="0" aria-label="Traceback">${where}</pre></div></details>`}
    </div>`
}

/** File and line of the innermost frame. */
function lastPlace(traceback) {
  const [, file, line, name] = [...traceback.matchAll(/File "(?:.*\/)?([^"/]+)", line (\d+), in (.+)/g)].at(-1) ?? []
  return file ? `${file}:${line} in ${name}` : ""
}

const keyOf = (attempt) => `${attempt.generation}.${attempt.attempt_no}.${attempt.started_at.slice(11, 23)}`
const nameOf = (attempt, several) => `Attempt ${attempt.attempt_no}${several ? ` of run ${attempt.generation}` : ""}`

/** Without the snoozes before another run of the same attempt. */
const folded = (attempts) => attempts.filter((each, place) => {
  const next = attempts[place + 1]
  return each.status !== "snoozed" || next?.attempt_no !== each.attempt_no || next.generation !== each.generation
})

/** Two attempts side by side. The URL names them. */
export function Attempts({ attempts, timeline, query }) {
  const ended = folded((attempts ?? []).filter(({ finished_at }) => finished_at))
  if (!ended.length || (ended.length === 1 && !worthIt(ended[0]))) return null
  const several = ended.at(-1).generation > 1
  const find = (key, otherwise) => ended.find((each) => keyOf(each) === key) ?? otherwise
  const right = find(query.right, ended.at(-1))
  const left = ended.length > 1 && find(query.left, ended.filter((each) => each !== right).at(-1))
  const shown = [left, right].filter(Boolean)
  const spans = timeline?.spans ?? []
  const choose = (side) => (event) => setQuery({ [side]: event.target.value }, { replace: true })
  return html`
    <${Card} title=${ended.length > 1 ? "Attempts" : "Attempt"} aside=${html`<span class="faint">${ended.length > 1 ? `${ended.length} finished` : ""}</span>`}>
      <div class="job-compare" data-sides=${shown.length}>${shown.map((attempt, place) => {
        const side = place + 1 < shown.length ? "left" : "right"
        return html`
          <section key=${side} aria-label=${nameOf(attempt, several)}>
            ${ended.length > 2 ? html`<select aria-label=${side === "left" ? "Left attempt" : "Right attempt"} value=${keyOf(attempt)} onChange=${choose(side)}>
              ${ended.map((each) => html`<option key=${keyOf(each)} value=${keyOf(each)}>${nameOf(each, several)} · ${words(each.status)}</option>`)}</select>` : html`<h3>${nameOf(attempt, several)}</h3>`}
            <${Attempt} attempt=${attempt} other=${shown.find((each) => each !== attempt)} spans=${spans} />
          </section>`
      })}</div>
    <//>`
}

const worthIt = (attempt) => Boolean(attempt.stdout_tail || attempt.stderr_tail || attempt.exit_code || attempt.signal)

function Attempt({ attempt, other, spans }) {
  const took = (each) => each && duration(between(each.started_at, each.finished_at))
  const facts = [
    ["Outcome", html`<${Status} status=${attempt.status} />`, attempt.status !== other?.status],
    ["Started", exactly(attempt.started_at), false],
    ["Duration", html`<span class="figure">${took(attempt)}</span>`, took(attempt) !== took(other)],
    ["Worker", html`<${WorkerName} id=${attempt.worker_id} spans=${spans} />`, attempt.worker_id !== other?.worker_id],
    ["Exit code", attempt.exit_code, attempt.exit_code !== other?.exit_code],
    ["Signal", attempt.signal, attempt.signal !== other?.signal],
    ["Process id", attempt.pid, false],
  ].filter(([, value]) => value !== null && value !== undefined)
  return html`
    <dl class="job-pairs">${facts.map(([name, value, differs]) => html`<div key=${name} data-differs=${(other && differs) || undefined}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${attempt.error_type && html`<div data-differs=${(other && attempt.error_text !== other.error_text) || undefined}><${Trouble} fault=${{ type: attempt.error_type, message: attempt.error_text, traceback: attempt.traceback }} /></div>`}
    ${["stdout", "stderr"].map((stream) => attempt[`${stream}_tail`] && html`
      <div key=${stream} class="job-output"><h3>Last lines of ${stream}</h3><${Copy} text=${attempt[`${stream}_tail`]} label=${`Copy ${stream}`} /><pre tabindex="0" aria-label=${`Last lines of ${stream}`}>${attempt[`${stream}_tail`]}</pre></div>`)}`
}
