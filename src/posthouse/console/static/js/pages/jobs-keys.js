// j and k move through the rows, x selects one, Escape lets all go. Enter opens, since the row's link has the focus.
import { useEffect } from "../lib.js"

export function useRowKeys(box, toggle, clear) {
  useEffect(() => {
    const pressed = (event) => {
      const writing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable], .dropdown")
      if (writing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === "j") step(box.current, 1)
      else if (event.key === "k") step(box.current, -1)
      else if (event.key === "x") here(box.current) && toggle(here(box.current).dataset.key)
      else if (event.key === "Escape") clear()
      else return
      event.preventDefault()
    }
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  })
}

const here = (box) => document.activeElement?.closest?.("tr[data-key]") ?? box.querySelector("tr.at")

function step(box, by) {
  const rows = [...box.querySelectorAll("tr[data-key]")]
  const next = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(here(box)) + by))]
  next?.querySelector("a.id")?.focus({ preventScroll: true })
  next?.scrollIntoView({ block: "nearest" })
}
