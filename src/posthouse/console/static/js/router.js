// Routing: the URL names the page and its query.
import { useEffect, useState } from "./lib.js"

const BASE = new URL(document.baseURI).pathname
const listeners = new Set()

const here = () => ({ path: location.pathname.slice(BASE.length).replace(/\/$/, ""), query: Object.fromEntries(new URLSearchParams(location.search)) })

/** `base(path)`: the address that the path of a page is below. Applications replace it, see app.js. */
export const links = { base: () => BASE }

/** The address of a page, for links. */
export function link(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "")
  const text = new URLSearchParams(given).toString()
  return links.base(path) + path + (text ? `?${text}` : "")
}

export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href)
  for (const listener of listeners) listener()
}

/** Changes the query of the URL; null removes a parameter. */
export function setQuery(changes, options) {
  const { path, query } = here()
  go(link(path, { ...query, ...changes }), options)
}

export function useLocation() {
  const [place, setPlace] = useState(here)
  useEffect(() => {
    const moved = () => setPlace(here())
    listeners.add(moved)
    addEventListener("popstate", moved)
    return () => {
      listeners.delete(moved)
      removeEventListener("popstate", moved)
    }
  }, [])
  return place
}

/** Clicks on links of the console stay in the page. */
export function followLinks(event) {
  const anchor = event.target.closest?.("a[href]")
  const aside = event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey
  if (!anchor || aside || anchor.target || anchor.hasAttribute("download")) return
  const to = new URL(anchor.href)
  if (to.origin !== location.origin || !to.pathname.startsWith(BASE)) return
  event.preventDefault()
  go(to.pathname + to.search + to.hash)
  if (!anchor.closest("[data-stay]")) scrollTo(0, 0)
}

/** {name} of a pattern like "jobs/:id" in a path, or null. */
export function match(pattern, path) {
  const [wanted, given] = [pattern.split("/"), path.split("/")]
  if (wanted.length !== given.length) return null
  const found = {}
  for (const [place, part] of wanted.entries()) {
    if (part.startsWith(":")) found[part.slice(1)] = decodeURIComponent(given[place])
    else if (part !== given[place]) return null
  }
  return found
}
