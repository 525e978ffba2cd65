// The pipeline of a job as a graph: dependencies, follow-up jobs and progress.
import { html, useEffect, useMemo, useRef } from "../lib.js"
import { between, count, duration, plural, words } from "../format.js"
import { link } from "../router.js"
import { Card, Status } from "../ui/basics.js"
import { jobsWith } from "./job-head.js"
import { layout, NODE } from "./job-layout.js"

export function Graph({ pipeline, self }) {
  const data = pipeline.data
  const shape = data && data.nodes.map((node) => node.id).join() + data.edges.length
  // The layout depends on the shape only, so boxes keep their position when a job changes its state.
  const drawn = useMemo(() => data && data.nodes.length > 1 && layout(data, self), [shape])
  const box = useRef(null)
  useEffect(() => {
    const own = box.current?.querySelector('[aria-current="true"]')
    if (own) box.current.scrollTo({ left: own.offsetLeft - box.current.clientWidth / 2 + NODE.width / 2, top: own.offsetTop - box.current.clientHeight / 2 })
  }, [Boolean(drawn)])
  if (!drawn) return null
  const byId = new Map(data.nodes.map((node) => [node.id, node]))
  return html`
    <${Card} title="Pipeline" aside=${html`<span class="faint">${plural(data.nodes.length, "job")}${data.truncated ? ", only the first are shown" : ""}</span>${data.correlation_id && html`<a href=${jobsWith("correlation", data.correlation_id)}>Show in jobs</a>`}`}>
      <${Stages} stages=${data.stages} />
      <div class="graph" ref=${box} tabindex="0" role="region" aria-label="Pipeline graph">
        <div class="graph-inner" style=${{ width: `${drawn.width}px`, height: `${drawn.height}px` }}>
          <svg width=${drawn.width} height=${drawn.height} aria-hidden="true">${drawn.edges.map(({ key, path, type }) => html`<path key=${key} d=${path} data-type=${type} />`)}</svg>
          <ul>${drawn.nodes.map(({ key, x, y, id, stack }) => html`<li key=${key} style=${{ left: `${x}px`, top: `${y}px` }}>${stack ? html`<${Stack} stack=${stack.map((each) => byId.get(each))} data=${data} />` : html`<${Node} node=${byId.get(id)} self=${id === self} />`}</li>`)}</ul>
        </div>
      </div>
    <//>`
}

function Node({ node, self }) {
  const took = node.status === "running" ? node.progress_percent !== null && `${Math.floor(node.progress_percent)} %` : node.started_at && node.finished_at && duration(between(node.started_at, node.finished_at))
  return html`
    <a class="node" href=${link(`jobs/${node.id}`)} data-status=${node.status} aria-current=${self ? "true" : undefined} title=${[node.id, node.subject, node.last_error].filter(Boolean).join("\n")}>
      <b class="clip">${node.definition_key}</b><span class="bar"><${Status} status=${node.status} />${took && html`<span class="faint figure">${took}</span>`}</span>
      ${node.status === "running" && html`<i class="node-done" style=${{ width: `${node.progress_percent ?? 0}%` }}></i>`}
    </a>`
}

/** One box for many jobs of the same kind, with their counts. */
function Stack({ stack, data }) {
  const counts = Object.entries(grouped(stack))
  const href = `${jobsWith("correlation", data.correlation_id ?? data.job_id)}+kind:${encodeURIComponent(stack[0].definition_key)}`
  return html`
    <a class="node stacked" href=${href}><b class="clip">${count(stack.length)} more ${stack[0].definition_key}</b>
      <small class="clip">${counts.map(([status, list]) => `${list.length} ${words(status)}`).join(", ")}</small></a>`
}

function grouped(list) {
  const groups = {}
  for (const each of list) (groups[each.status] ??= []).push(each)
  return groups
}

function Stages({ stages }) {
  if (stages.length < 2) return null
  return html`
    <ul class="job-stages" aria-label="Stages">${stages.map((stage) => html`
      <li key=${stage.definition_key}><span class="clip">${stage.definition_key}</span><span class="faint figure">${count(stage.succeeded)} of ${count(stage.jobs)}${stage.unsuccessful ? html`, <span class="job-bad">${count(stage.unsuccessful)} failed</span>` : ""}</span>
        <span class="job-stage" role="img" aria-label=${`${stage.definition_key}: ${Math.floor((100 * stage.done) / stage.jobs)} % done`}><i style=${{ width: `${(100 * stage.done) / stage.jobs}%` }}></i><i class="bad" style=${{ width: `${(100 * stage.unsuccessful) / stage.jobs}%` }}></i></span></li>`)}
    </ul>`
}
