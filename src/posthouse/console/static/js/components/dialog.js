// Modal dialog. The browser keeps the focus inside, and Escape closes it.
import { html, useEffect, useId, useRef, useState } from "../preact.js"
import { Button, ErrorBanner } from "./display.js"

const FIELD = ".body :is(input, select, textarea):not(:disabled, [readonly])"

/** The error of `onSubmit` is shown, else the dialog closes. Without `onSubmit` there is only "Close".
 * Focuses the first field, else the primary button; never a destructive one. */
export function Dialog({ title, onClose, onSubmit, submitText = "Save", danger, wide, disabled, closeText = onSubmit ? "Cancel" : "Close", children }) {
  const box = useRef(null)
  const entered = useRef(false)
  const name = useId()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(null)
  useEffect(() => {
    const opener = document.activeElement
    box.current.showModal()
    const first = box.current.querySelector(onSubmit && !danger ? "[type=submit]" : "footer .button")
    if (!box.current.querySelector(".body").contains(document.activeElement)) first.focus()
    return () => opener?.focus?.()
  }, [])
  useEffect(() => { // fields may render after the dialog
    const field = !entered.current && box.current.querySelector(FIELD)
    if (!field) return
    entered.current = true
    if (!box.current.querySelector(".body").contains(document.activeElement)) field.focus()
  })
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      if ((await onSubmit()) !== false) onClose()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby=${name} onCancel=${(event) => { event.preventDefault(); onClose() }}
      onMouseDown=${(event) => event.target === box.current && onClose()}>
      <form onSubmit=${onSubmit ? submit : (event) => { event.preventDefault(); onClose() }} novalidate>
        <header><h2 id=${name}>${title}</h2><${Button} plain icon="close" label="Close" onClick=${onClose} /></header>
        <div class="body">${children}${error && html`<${ErrorBanner} error=${error} />`}</div>
        <footer>
          <${Button} onClick=${onClose}>${closeText}<//>
          ${onSubmit && html`<${Button} strong=${!danger} danger=${danger} type="submit" busy=${busy} disabled=${disabled}>${submitText}<//>`}
        </footer>
      </form>
    </dialog>`
}

/** A confirmation dialog. */
export const Confirm = ({ children, ...rest }) => html`<${Dialog} ...${rest}><p>${children}</p><//>`
