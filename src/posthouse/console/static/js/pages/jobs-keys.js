// j and k move through the rows, x selects one, Escape clears the selection. Enter opens the focused link.
import { useEffect } from "../lib.js"

export function useRowKeys(box, toggle, clear) {
  useEffect(() => {
    const pressed = (event) => {
      const writing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable], .dropdown")
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === "j") step(box.current, 1)
      else if (event.key === "k") step(box.current, -1)
      else if (event.key === "x") focused() && toggle(focused().dataset.key)
      else if (event.key === "Escape") clear()
      else return
      event.preventDefault()
    }
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  })
}

/** The last focused row, restored when the user returns from a job. */
let last = null

const focused = () => document.activeElement?.closest?.("tr[data-key]")

function step(box, by) {
  const rows = [...box.querySelectorAll("tr[data-key]")]
  const place = rows.indexOf(focused() ?? rows.find((row) => row.dataset.key === last))
  const next = rows[Math.max(0, Math.min(rows.length - 1, place + by))]
  if (!next) return
  last = next.dataset.key
  next.querySelector("a.id").focus({ preventScroll: true })
  next.scrollIntoView({ block: "nearest" })
}
