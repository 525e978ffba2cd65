// Short notifications, with Undo where possible.
import { html, useEffect, useState } from "../preact.js"
import { Button } from "./display.js"

const shown = { list: [], changed: () => {} }
let numbers = 0

/** `undo` is called when the user clicks Undo; `seconds` is how long the toast stays. */
export function toast(text, { tone = "good", undo, undoText = "Undo", seconds = undo ? 10 : 5 } = {}) {
  const entry = { number: ++numbers, text, tone, undo, undoText, seconds, until: Date.now() + seconds * 1000 }
  shown.list = [...shown.list.slice(-3), entry]
  shown.changed(shown.list)
  return entry.number
}

/** Shows an error. */
export const showError = (error) => toast(error.message, { tone: "bad", seconds: 10 })

/** Runs `work` and shows the text of `done`, or the error. Returns whether it succeeded. */
export async function runWithToast(work, done) {
  try {
    const answer = await work()
    if (done) toast(typeof done === "function" ? done(answer) : done)
    return true
  } catch (error) {
    showError(error)
    return false
  }
}

const dismiss = (number) => {
  shown.list = shown.list.filter((each) => each.number !== number)
  shown.changed(shown.list)
}

export function Toasts() {
  const [list, setList] = useState(shown.list)
  useEffect(() => {
    shown.changed = setList
    return () => { shown.changed = () => {} }
  }, [])
  return html`<div class="toasts" role="status" aria-live="polite">${list.map((entry) => html`<${Toast} key=${entry.number} entry=${entry} />`)}</div>`
}

function Toast({ entry }) {
  const [left, setLeft] = useState(entry.seconds)
  useEffect(() => {
    const timer = setInterval(() => {
      const now = Math.ceil((entry.until - Date.now()) / 1000)
      setLeft(now)
      if (now <= 0) dismiss(entry.number)
    }, 250)
    return () => clearInterval(timer)
  }, [])
  const undo = () => {
    dismiss(entry.number)
    entry.undo()
  }
  return html`
    <div class="toast" data-tone=${entry.tone}>
      <span>${entry.text}</span>
      ${entry.undo && html`<${Button} small onClick=${undo}>${entry.undoText} (${Math.max(0, left)})<//>`}
      <${Button} plain small icon="close" label="Dismiss" onClick=${() => dismiss(entry.number)} />
    </div>`
}
