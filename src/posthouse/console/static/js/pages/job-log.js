// Log and output of a job.
import { api } from "../api.js"
import { Button, Card, ErrorBanner, Snippet } from "../components/display.js"
import { runWithToast } from "../components/toast.js"
import { formatInteger, plural } from "../format.js"
import { cls, html, useLayoutEffect, useMemo, useRef, useState } from "../preact.js"
import { isOver } from "./job-state.js"

const MAX_SHOWN = 2000
const AT_THE_END = 24
const BLOCK = 100
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" })
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g
const TONES = { error: "bad", critical: "bad", warning: "warn", stderr: "warn", debug: "quiet" }

export function Log({ job, lines: log }) {
  const [follow, setFollow] = useState(true)
  const [search, setSearch] = useState("")
  const [which, setWhich] = useState("")
  const [tall] = useState(job.status === "running")
  const wanted = search.trim().toLowerCase()
  const chosen = useMemo(() => log.lines.filter((line) => (!which || attemptOf(line) === which) && (!wanted || line.text.toLowerCase().includes(wanted))), [log.lines, which, wanted])
  const attempts = useMemo(() => [...new Set(log.lines.map(attemptOf))], [log.lines])
  const several = attempts.length > 1
  const shown = chosen.slice(-MAX_SHOWN)
  if (isOver(job) && !tall && !log.lines.length && log.from !== null) return html`<${EmptyLog} />`
  return html`
    <${Card} title="Log" class="job-log" aside=${html`<span class="faint figure">${wanted ? `${formatInteger(chosen.length)} of ${plural(log.lines.length, "line")}` : plural(chosen.length, "line")}</span>`}>
      <div class="bar">
        <input type="search" class="grow" data-filter placeholder="Search log" aria-label="Search log" value=${search} onInput=${(event) => setSearch(event.target.value)} />
        ${several && html`<select aria-label="Attempt" value=${which} onChange=${(event) => setWhich(event.target.value)}><option value="">All attempts</option>${attempts.map((each) => html`<option key=${each} value=${each}>${titleOf(each)}</option>`)}</select>`}
        <label class="job-follow"><input type="checkbox" checked=${follow} onChange=${(event) => setFollow(event.target.checked)} /> Follow</label>
        <${Button} icon="download" label="Download log" onClick=${() => runWithToast(() => download(job, which))} />
      </div>
      ${log.error && html`<${ErrorBanner} error=${log.error} onRetry=${log.load} />`}
      <${Lines} lines=${shown} several=${several && !which} wanted=${wanted} follow=${follow} setFollow=${setFollow} tall=${tall}
        earlier=${(log.earlier || chosen.length > shown.length) && html`<${Earlier} log=${log} full=${chosen.length > shown.length} />`}
        placeholder=${wanted ? "No matching lines." : isOver(job) ? "No log output." : "Log lines appear here as the job writes them."} />
    <//>`
}

const EmptyLog = () => html`
  <${Card} title="Log"><p class="job-advice">No log output. Log messages of the handler and the output of commands appear here: <${Snippet} text=${'job.log.info("halfway done")'} /></p><//>`

const attemptOf = (line) => `${line.generation}.${line.attempt_no}`
const titleOf = (key) => {
  const [generation, attempt] = key.split(".")
  return `Attempt ${attempt}${generation === "1" ? "" : ` of run ${generation}`}`
}

/** Stays at the end while "Follow" is on; scrolling up turns it off, scrolling to the end turns it on. */
function Lines({ lines, several, wanted, follow, setFollow, tall, earlier, placeholder }) {
  const box = useRef(null)
  const made = useRef(new Map())
  const top = useRef(0)
  const before = useRef({ first: 0, height: 0 })
  useLayoutEffect(() => {
    const { scrollTop, scrollHeight } = box.current
    const first = lines[0]?.sequence ?? 0
    if (follow) box.current.scrollTop = scrollHeight
    else if (first < before.current.first && scrollTop === 0) box.current.scrollTop = scrollHeight - before.current.height // lines were added above
    top.current = box.current.scrollTop
    before.current = { first, height: scrollHeight }
  }, [follow, lines.length, lines[0]?.sequence, lines.at(-1)?.sequence])
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current
    const up = scrollTop < top.current
    top.current = scrollTop
    if (follow && up && scrollHeight - scrollTop - clientHeight > AT_THE_END) setFollow(false)
    else if (!follow && !up && scrollHeight - scrollTop - clientHeight < AT_THE_END) setFollow(true)
  }
  return html`
    <div class=${cls("job-lines", tall && "tall")} ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-live="off" aria-label="Log lines">
      ${earlier}
      ${blocksOf(lines, several, wanted).map((block) => memoizedBlock(made.current, block))}
      ${lines.length === 0 && html`<p class="faint">${placeholder}</p>`}
    </div>`
}

/** Blocks of lines: when a long log grows, only the first and the last block render again. */
function blocksOf(lines, several, wanted) {
  const blocks = []
  for (const [index, line] of lines.entries()) {
    const key = Math.floor(line.sequence / BLOCK)
    if (blocks.at(-1)?.key !== key) blocks.push({ key, lines: [], before: index ? attemptOf(lines[index - 1]) : null, several, wanted })
    blocks.at(-1).lines.push(line)
  }
  return blocks
}

/** Reuses the element of an unchanged block, so it does not render again. */
function memoizedBlock(made, block) {
  const { key, lines, before, several, wanted } = block
  const state = [lines[0].sequence, lines.at(-1).sequence, lines.length, before, several, wanted].join()
  if (made.get(key)?.state !== state) made.set(key, { state, element: html`<div key=${key} class="log-block">${lines.map((line, index) => renderLine(line, index ? attemptOf(lines[index - 1]) : before, several, wanted))}</div>` })
  return made.get(key).element
}

function renderLine(line, before, several, wanted) {
  const sort = (line.level ?? line.stream).toLowerCase()
  return html`${several && attemptOf(line) !== before && html`<p class="attempt-heading">${titleOf(attemptOf(line))}</p>`}
    <p class="job-line" data-tone=${TONES[sort]}><time datetime=${line.at} title=${line.at}>${clock.format(new Date(line.at))}</time><b>${sort}</b><span>${marked(line.text.replace(ESCAPES, ""), wanted)}</span></p>`
}

function marked(text, wanted) {
  if (!wanted) return text
  const low = text.toLowerCase()
  const pieces = []
  let done = 0
  for (let at = low.indexOf(wanted); at >= 0 && pieces.length < 100; at = low.indexOf(wanted, done)) {
    pieces.push(text.slice(done, at), html`<mark>${text.slice(at, at + wanted.length)}</mark>`)
    done = at + wanted.length
  }
  return [...pieces, text.slice(done)]
}

function Earlier({ log, full }) {
  const [busy, setBusy] = useState(false)
  if (full) return html`<p class="faint">Only the last ${formatInteger(MAX_SHOWN)} lines are shown. Search or download the log to see the rest.</p>`
  const more = async () => {
    setBusy(true)
    await runWithToast(log.readEarlier)
    setBusy(false)
  }
  return html`<p><${Button} small busy=${busy} onClick=${more}>Show earlier lines<//></p>`
}

/** Downloads the whole log as a file. */
async function download(job, which) {
  const [generation, attempt] = which ? which.split(".") : []
  const texts = []
  let cursor
  do {
    const page = await api.get(`/jobs/${job.id}/logs`, { limit: 1000, cursor, generation, attempt_no: attempt })
    for (const line of page.items) texts.push(`${line.at} ${line.generation}.${line.attempt_no} ${line.level ?? line.stream} ${line.text}\n`)
    cursor = page.next_cursor
  } while (cursor)
  const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob(texts, { type: "text/plain" })), download: `${job.kind}-${job.id}.log` })
  anchor.click()
  URL.revokeObjectURL(anchor.href)
}
