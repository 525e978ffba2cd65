// Selection of jobs: single rows, or all jobs that match the query.
import { html, useEffect, useRef, useState } from "../lib.js"
import { count, plural } from "../format.js"
import { hold } from "../live.js"
import { Button } from "../ui/basics.js"

const NONE = { ids: new Set(), all: false }
const WHOLE = { retry: "status:failed,dead_letter", cancel: "status:queued,running" }

/** The selection of the page with this `key`; another page starts empty. Updates pause while rows are selected. */
export function useSelection(key) {
  const [chosen, setChosen] = useState(NONE)
  const last = useRef({ id: null, shift: false })
  useEffect(() => setChosen(NONE), [key])
  const size = chosen.ids.size
  useEffect(() => (size ? hold() : undefined), [size > 0])
  useShift(last)
  const toggleId = (id) => setChosen(({ ids }) => ({ ids: changed(ids, [id], !ids.has(id)), all: false }))
  const of = (rows) => ({
    has: ({ id }) => chosen.ids.has(id),
    all: size > 0 && rows.every(({ id }) => chosen.ids.has(id)),
    toggle: ({ id }) => {
      const span = last.current.shift ? between(rows, last.current.id, id) : [id]
      last.current.id = id
      setChosen(({ ids }) => ({ ids: changed(ids, span, !ids.has(id)), all: false }))
    },
    toggleAll: () => setChosen(rows.every(({ id }) => chosen.ids.has(id)) ? NONE : { ids: new Set(rows.map(({ id }) => id)), all: false }),
  })
  return {
    size, all: chosen.all, toggleId, of,
    clear: () => setChosen(NONE),
    chooseAll: () => setChosen({ ...chosen, all: true }),
    line: (q, action) => (chosen.all ? q || WHOLE[action] : `id:${[...chosen.ids].join(",")}`),
  }
}

function changed(ids, some, there) {
  const next = new Set(ids)
  for (const id of some) there ? next.add(id) : next.delete(id)
  return next
}

/** The ids between two rows, in either direction. */
function between(rows, one, other) {
  const places = [one, other].map((id) => rows.findIndex((row) => row.id === id)).toSorted((a, b) => a - b)
  return places[0] < 0 ? [other] : rows.slice(places[0], places[1] + 1).map(({ id }) => id)
}

/** Whether Shift was down at the last click: a change event does not tell. */
function useShift(last) {
  useEffect(() => {
    const clicked = (event) => { last.current.shift = event.shiftKey }
    addEventListener("click", clicked, true)
    return () => removeEventListener("click", clicked, true)
  }, [])
}

export function SelectionBar({ selection, total, more, act }) {
  const matching = total ? `${total.exact ? "" : "at least "}${count(total.count)} matching` : "jobs"
  return html`
    <div class="selection" role="group" aria-label="Selected jobs">
      <b>${selection.all ? `All ${matching}` : plural(selection.size, "job")} selected</b>
      ${more && !selection.all && html`<${Button} small plain onClick=${selection.chooseAll}>Select all ${matching}<//>`}
      <${Button} small icon="retry" onClick=${() => act("retry")}>Retry…<//>
      <${Button} small icon="stop" onClick=${() => act("cancel")}>Cancel…<//>
      <${Button} small plain icon="close" label="Clear selection" onClick=${selection.clear} />
    </div>`
}
