// Paged lists: the first page can be polled, further pages are loaded on request.
import { api, apiUrl, useApi } from "../api.js"
import { html, useState } from "../preact.js"
import { Button } from "./display.js"
import { showError } from "./toast.js"

/**
 * Like useApi, but `data` is the list of all loaded items and `more`, if there are more, loads the next page. Polling
 * stops once a further page is loaded, because rows would be skipped or repeated.
 */
export function usePages(path, query, { every = 0 } = {}) {
  const [later, setLater] = useState({ key: null, items: [], cursor: null })
  const key = path && apiUrl(path, query)
  const further = later.key === key ? later.items : []
  const first = useApi(path, query, { every: further.length ? 0 : every })
  const cursor = further.length ? later.cursor : first.data?.next_cursor
  const more = async () => {
    const page = await api.get(path, { ...query, cursor })
    setLater({ key, items: [...further, ...page.items], cursor: page.next_cursor })
  }
  const reload = () => {
    setLater({ key: null, items: [], cursor: null })
    return first.reload()
  }
  return { ...first, reload, data: first.data && [...first.data.items, ...further], more: cursor ? more : null }
}

/** The button below a paged list. */
export function LoadMore({ pages }) {
  const [busy, setBusy] = useState(false)
  if (!pages.more) return null
  const load = async () => {
    setBusy(true)
    await pages.more().catch(showError)
    setBusy(false)
  }
  return html`<div class="bar"><${Button} busy=${busy} icon="down" onClick=${load}>Show more<//></div>`
}
