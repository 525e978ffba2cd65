// Saved filters with their columns, kept in the browser.
import { html, useState } from "../lib.js"
import { go, link } from "../router.js"
import { Button } from "../ui/basics.js"
import { Dialog } from "../ui/dialog.js"
import { Dropdown } from "../ui/dropdown.js"
import { TextField } from "../ui/fields.js"
import { toast } from "../ui/toast.js"

export const USUAL = [
  { name: "Failed and dead letter", q: "status:failed,dead_letter" },
  { name: "Waiting to retry", q: "status:queued attempts:>0" },
  { name: "Queued for more than an hour", q: "status:queued created:>1h" },
  { name: "Finished in the last hour", q: "finished:<1h" },
]

/** A value in local storage: [value, change]. Without storage it lasts while the page is open. */
export function useKept(name, first) {
  const [value, setValue] = useState(() => {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? first
    } catch {
      return first
    }
  })
  const change = (next) => {
    setValue(next)
    try {
      if (next === null) localStorage.removeItem(name)
      else localStorage.setItem(name, JSON.stringify(next))
    } catch { /* no storage */ }
  }
  return [value ?? first, change]
}

/** `columns` and `choose` are those of the table; a view stores customized columns. */
export function Views({ q, columns, choose }) {
  const [views, keep] = useKept("posthouse.jobs.views", [])
  const [naming, setNaming] = useState(null)
  const open = (view, close) => {
    if (view.columns) choose(view.columns)
    go(link("jobs", { q: view.q }))
    close()
  }
  const remove = (view) => {
    keep(views.filter((each) => each !== view))
    toast(`View “${view.name}” deleted`, { undo: () => keep(views) })
  }
  const save = () => {
    const name = naming.trim()
    keep([...views.filter((each) => each.name !== name), { name, q, columns }].toSorted((a, b) => a.name.localeCompare(b.name)))
    toast(`View “${name}” saved`)
  }
  const now = [...views, ...USUAL].find((view) => view.q === q)
  return html`
    <${Dropdown} text=${now && q ? now.name : "Views"} icon="star" label="Saved views" class="views">${(close) => html`
      ${views.map((view) => html`
        <div key=${view.name} class="with-action">
          <button type="button" class="choice" aria-current=${view === now ? "true" : undefined} onClick=${() => open(view, close)}><b>${view.name}</b><small class="code clip">${view.q || "all jobs"}</small></button>
          <${Button} plain small icon="trash" label=${`Delete view ${view.name}`} onClick=${() => remove(view)} />
        </div>`)}
      ${views.length > 0 && html`<hr />`}
      ${USUAL.map((view) => html`
        <button key=${view.name} type="button" class="choice" aria-current=${view === now ? "true" : undefined} onClick=${() => open(view, close)}><b>${view.name}</b><small class="code clip">${view.q}</small></button>`)}
      <button type="button" class="choice foot" onClick=${() => { close(); setNaming("") }}>Save view…</button>`}<//>
    ${naming !== null && html`
      <${Dialog} title="Save view" close=${() => setNaming(null)} act=${save} disabled=${!naming.trim()}>
        <${TextField} label="Name" value=${naming} change=${setNaming} maxlength="60" autofocus hint="Replaces an existing view of the same name. Views are stored in this browser." />
        <p><code>${q || "all jobs"}</code>${columns && html` <span class="faint">with ${columns.length} columns</span>`}</p>
      <//>`}`
}
