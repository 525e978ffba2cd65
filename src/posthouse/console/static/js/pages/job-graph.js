// The pipeline of a job as a graph: dependencies, follow-up jobs and progress.
import { Card, Status } from "../components/display.js"
import { duration, formatInteger, humanize, plural, secondsBetween } from "../format.js"
import { html, useEffect, useMemo, useRef } from "../preact.js"
import { link } from "../router.js"
import { jobsWith } from "./job-state.js"

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
  const took = node.status === "running" ? node.progress_percent !== null && `${Math.floor(node.progress_percent)} %` : node.started_at && node.finished_at && duration(secondsBetween(node.started_at, node.finished_at))
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
    <a class="node stacked" href=${href}><b class="clip">${formatInteger(stack.length)} more ${stack[0].definition_key}</b>
      <small class="clip">${counts.map(([status, list]) => `${list.length} ${humanize(status)}`).join(", ")}</small></a>`
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
      <li key=${stage.definition_key}><span class="clip">${stage.definition_key}</span><span class="faint figure">${formatInteger(stage.succeeded)} of ${formatInteger(stage.jobs)}${stage.unsuccessful ? html`, <span class="job-bad">${formatInteger(stage.unsuccessful)} failed</span>` : ""}</span>
        <span class="job-stage" role="img" aria-label=${`${stage.definition_key}: ${Math.floor((100 * stage.done) / stage.jobs)} % done`}><i style=${{ width: `${(100 * stage.done) / stage.jobs}%` }}></i><i class="bad" style=${{ width: `${(100 * stage.unsuccessful) / stage.jobs}%` }}></i></span></li>`)}
    </ul>`
}

// Layered layout of a pipeline: columns from left to right, each job after all jobs that lead to it.

const NODE = { width: 184, height: 56, gapX: 52, gapY: 14 }
const MAX_PER_KIND = 5
const STATUS_RANK = { failed: 0, dead_letter: 0, running: 1, queued: 2 }

/** {nodes: [{key, x, y, id | stack: [ids]}], edges: [{key, path, type}], width, height}. */
function layout({ nodes, edges }, self) {
  const column = columns(nodes, edges)
  const boxes = collapseSimilar(nodes, column, self)
  const boxOf = new Map(boxes.flatMap((box) => (box.stack ?? [box.id]).map((id) => [id, box])))
  const links = new Map()
  for (const { from, to, type } of edges) {
    const [a, b] = [boxOf.get(from), boxOf.get(to)]
    const key = `${a?.key} ${b?.key}`
    if (a && b && a !== b && links.get(key)?.type !== "depends_on") links.set(key, { key, a, b, type })
  }
  const list = [...links.values()]
  const { width, height } = arrange(boxes, list)
  return { nodes: boxes, edges: list.map(({ key, a, b, type }) => ({ key, type, path: curve(a, b) })), width, height }
}

/** The column of each job: the longest path from a job without predecessors. Cycles are broken at the back edge. */
function columns(nodes, edges) {
  const before = new Map(nodes.map((node) => [node.id, []]))
  for (const { from, to } of edges) before.get(to)?.push(from)
  const found = new Map()
  const visit = (id, path) => {
    if (found.has(id)) return found.get(id)
    if (path.has(id)) return -1
    path.add(id)
    const depth = 1 + Math.max(-1, ...before.get(id).filter((each) => before.has(each)).map((each) => visit(each, path)))
    path.delete(id)
    found.set(id, depth)
    return depth
  }
  for (const node of nodes) visit(node.id, new Set())
  return found
}

/** Keeps the most relevant jobs of a kind in a column and stacks the rest in one box. */
function collapseSimilar(nodes, column, self) {
  const groups = new Map()
  for (const node of nodes) {
    const key = `${column.get(node.id)} ${node.definition_key}`
    groups.set(key, [...(groups.get(key) ?? []), node])
  }
  return [...groups.entries()].flatMap(([key, group]) => {
    const at = column.get(group[0].id)
    const alone = (node) => ({ key: node.id, id: node.id, column: at })
    if (group.length <= MAX_PER_KIND + 1) return group.map(alone)
    const loud = group.toSorted((a, b) => rank(a, self) - rank(b, self))
    const rest = new Set(loud.slice(MAX_PER_KIND).map((node) => node.id))
    return [...group.filter((node) => !rest.has(node.id)).map(alone), { key, stack: [...rest], column: at }]
  })
}

const rank = (node, self) => (node.id === self ? -1 : STATUS_RANK[node.status] ?? 3)

/** Orders each column by its predecessors and centers it vertically. */
function arrange(boxes, links) {
  const columns = Math.max(...boxes.map((box) => box.column)) + 1
  const rows = Array.from({ length: columns }, (_, index) => boxes.filter((box) => box.column === index))
  const height = Math.max(...rows.map((row) => row.length)) * (NODE.height + NODE.gapY) - NODE.gapY
  for (const [index, row] of rows.entries()) {
    const wish = new Map(row.map((box) => [box, mean(links.filter(({ b }) => b === box && b.column > 0).map(({ a }) => a.y ?? 0))]))
    row.sort((a, b) => wish.get(a) - wish.get(b) || Boolean(a.stack) - Boolean(b.stack))
    const top = (height - (row.length * (NODE.height + NODE.gapY) - NODE.gapY)) / 2
    for (const [line, box] of row.entries()) Object.assign(box, { x: index * (NODE.width + NODE.gapX), y: Math.round(top + line * (NODE.height + NODE.gapY)) })
  }
  return { width: columns * (NODE.width + NODE.gapX) - NODE.gapX, height }
}

const mean = (numbers) => (numbers.length ? numbers.reduce((sum, each) => sum + each, 0) / numbers.length : 0)

function curve(a, b) {
  const [x1, y1, x2, y2] = [a.x + NODE.width, a.y + NODE.height / 2, b.x, b.y + NODE.height / 2]
  const bend = (x2 - x1) / 2
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}`
}
