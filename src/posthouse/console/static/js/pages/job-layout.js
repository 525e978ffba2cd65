// Layered layout of a pipeline: columns from left to right, each job after all jobs that lead to it.
export const NODE = { width: 184, height: 56, gapX: 52, gapY: 14 }
const MOST_OF_A_KIND = 5
const LOUD = { failed: 0, dead_letter: 0, running: 1, queued: 2 }

/** {nodes: [{key, x, y, id | stack: [ids]}], edges: [{key, path, type}], width, height}. */
export function layout({ nodes, edges }, self) {
  const column = columns(nodes, edges)
  const boxes = gather(nodes, column, self)
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
function gather(nodes, column, self) {
  const groups = new Map()
  for (const node of nodes) {
    const key = `${column.get(node.id)} ${node.definition_key}`
    groups.set(key, [...(groups.get(key) ?? []), node])
  }
  return [...groups.entries()].flatMap(([key, group]) => {
    const at = column.get(group[0].id)
    const alone = (node) => ({ key: node.id, id: node.id, column: at })
    if (group.length <= MOST_OF_A_KIND + 1) return group.map(alone)
    const loud = group.toSorted((a, b) => rank(a, self) - rank(b, self))
    const rest = new Set(loud.slice(MOST_OF_A_KIND).map((node) => node.id))
    return [...group.filter((node) => !rest.has(node.id)).map(alone), { key, stack: [...rest], column: at }]
  })
}

const rank = (node, self) => (node.id === self ? -1 : LOUD[node.status] ?? 3)

/** Orders each column by its predecessors and centers it vertically. */
function arrange(boxes, links) {
  const count = Math.max(...boxes.map((box) => box.column)) + 1
  const rows = Array.from({ length: count }, (_, place) => boxes.filter((box) => box.column === place))
  const height = Math.max(...rows.map((row) => row.length)) * (NODE.height + NODE.gapY) - NODE.gapY
  for (const [place, row] of rows.entries()) {
    const wish = new Map(row.map((box) => [box, mean(links.filter(({ b }) => b === box && b.column > 0).map(({ a }) => a.y ?? 0))]))
    row.sort((a, b) => wish.get(a) - wish.get(b) || Boolean(a.stack) - Boolean(b.stack))
    const top = (height - (row.length * (NODE.height + NODE.gapY) - NODE.gapY)) / 2
    for (const [line, box] of row.entries()) Object.assign(box, { x: place * (NODE.width + NODE.gapX), y: Math.round(top + line * (NODE.height + NODE.gapY)) })
  }
  return { width: count * (NODE.width + NODE.gapX) - NODE.gapX, height }
}

const mean = (numbers) => (numbers.length ? numbers.reduce((sum, each) => sum + each, 0) / numbers.length : 0)

function curve(a, b) {
  const [x1, y1, x2, y2] = [a.x + NODE.width, a.y + NODE.height / 2, b.x, b.y + NODE.height / 2]
  const bend = (x2 - x1) / 2
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}`
}
