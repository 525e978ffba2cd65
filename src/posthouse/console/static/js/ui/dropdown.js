// A button that opens a panel. Escape, a click outside and Tab out of it close the panel.
import { cls, html, useEffect, useId, useRef, useState } from "../lib.js"
import { Button } from "./basics.js"

/** `children(close)` is what the panel shows. */
export function Dropdown({ text, icon, label, small, children, class: more }) {
  const [open, setOpen] = useState(false)
  const box = useRef(null)
  const id = useId()
  const close = () => {
    setOpen(false)
    box.current?.querySelector("button")?.focus()
  }
  useEffect(() => {
    if (!open) return undefined
    const beside = (event) => box.current?.contains(event.target) || setOpen(false)
    addEventListener("pointerdown", beside)
    return () => removeEventListener("pointerdown", beside)
  }, [open])
  const keys = (event) => {
    if (event.key === "Escape" && open) {
      event.stopPropagation()
      close()
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.type !== "text") {
      event.preventDefault()
      step(box.current, event.key === "ArrowDown" ? 1 : -1)
    }
  }
  const left = (event) => event.relatedTarget && !box.current.contains(event.relatedTarget) && setOpen(false)
  return html`
    <div class=${cls("dropdown", more)} ref=${box} onKeyDown=${keys} onFocusOut=${left}>
      <${Button} icon=${icon} small=${small} aria-expanded=${open} aria-controls=${open ? id : undefined} title=${label} onClick=${() => setOpen(!open)}>${text}<//>
      ${open && html`<div class="panel" id=${id} role="group" aria-label=${label}>${children(close)}</div>`}
    </div>`
}

function step(box, by) {
  const stops = [...box.querySelectorAll("button, a[href], input")]
  stops[(stops.indexOf(document.activeElement) + by + stops.length) % stops.length].focus()
}
