// Figures of a call: talk and silence, speakers, keywords, and its jobs.
import { site, useApi } from "posthouse/api.js"
import { duration, percent, plural } from "posthouse/format.js"
import { html, useEffect } from "posthouse/preact.js"
import { link } from "posthouse/router.js"
import { AsyncContent, Card, StatTile } from "posthouse/components/display.js"
import { route } from "./calls.js"

export function Figures({ figures }) {
  return html`
    <div class="tiles calls-tiles">
      <${StatTile} name="Talk" value=${duration(figures.talk_seconds)} hint=${figures.overlap_seconds ? `${duration(figures.overlap_seconds)} at the same time` : "No overlap"} />
      <${StatTile} name="Silence" value=${percent(figures.silence_share)} hint=${`${duration(figures.silence_seconds)}, longest ${duration(figures.longest_silence_seconds)}`} />
      <${StatTile} name="Confidence" value=${percent(figures.confidence)} hint="Of the speaker read worst" />
    </div>`
}

export function Speakers({ speakers }) {
  const names = Object.keys(speakers)
  if (!names.length) return null
  return html`
    <${Card} title="Speakers"><ul class="calls-speakers" aria-label="Speakers">${names.map((name) => {
      const about = speakers[name]
      return html`
        <li key=${name} data-speaker=${name}><b class="calls-speaker">Speaker ${name}</b>
          <span class="calls-share"><span style=${{ width: `${100 * about.talk_share}%` }}></span></span><span class="figure">${percent(about.talk_share)}</span>
          <small>${duration(about.talk_seconds)} in ${plural(about.turns, "turn")}, longest ${duration(about.longest_turn_seconds)} · ${about.words_per_minute} words per minute · confidence ${percent(about.confidence)}</small></li>`
    })}</ul><//>`
}

export function Keywords({ keywords }) {
  if (!keywords.length) return null
  return html`
    <${Card} title="Keywords"><ul class="calls-keywords" aria-label="Keywords">${keywords.map(({ word, count }) => html`
      <li key=${word}><a class="tag" href=${link("", { q: word })}>${word}${count > 1 && html` <span class="faint figure">${count}</span>`}</a></li>`)}</ul><//>`
}

export function Jobs({ call }) {
  const jobs = useApi(route(`${call.call_id}/jobs`))
  useEffect(() => { jobs.reload() }, [call.stage, call.stage_status])
  const status = { queued: "queued", processing: "running", done: "succeeded", failed: "failed", canceled: "canceled" }
  const tries = (job) => (job.polls > 1 ? plural(job.polls, "poll") : job.attempts > 1 ? plural(job.attempts, "attempt") : "")
  return html`
    <${Card} title="Jobs"><${AsyncContent} request=${jobs} lines=${4}>${(found) => html`
      <ul class="calls-jobs" aria-label="Jobs">${found.map((job) => html`
        <li key=${job.id}><a href=${site(`/console/jobs/${job.id}`)}>${job.stage.replace("_", " ")}</a>
          <small class="figure">${tries(job)}</small><span class="status" data-status=${status[job.status]}>${job.status}</span></li>`)}</ul>`}<//><//>`
}
