// Client of the HTTP API: requests, polling hooks, and validation of drafts.
import { useCallback, useEffect, useRef, useState } from "./preact.js"

const SITE = new URL(document.documentElement.dataset.root, location.href)
const ROOT = new URL("api/v1/", SITE)
const DEFAULT_MESSAGE = "Cannot reach the server. Check that it is running, then try again."

/** An error response of the API: its message, its code and the invalid fields. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || DEFAULT_MESSAGE)
    this.status = status
    this.code = body?.code || "no_answer"
    this.errors = body?.errors || []
    this.body = body
  }
}

export const state = { csrf: null, tenant: null, onUnauthorized: () => {} }

export const configure = (changes) => Object.assign(state, changes)

/** The URL of a path outside of the API, such as the route of an application: `api.get(site("/shop/orders"))`. */
export const site = (path) => new URL(path.replace(/^\//, ""), SITE).href

/** The URL of an API path, with the tenant that the operator has selected. */
export function apiUrl(path, query = {}) {
  const url = new URL(path.replace(/^\//, ""), ROOT)
  if (state.tenant) url.searchParams.set("tenant", state.tenant)
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue
    for (const item of Array.isArray(value) ? value : [value]) url.searchParams.append(name, item)
  }
  return url.href
}

async function request(method, path, { query, body, headers, signal } = {}) {
  const requestHeaders = { Accept: "application/json", ...headers }
  if (body !== undefined) requestHeaders["Content-Type"] = "application/json"
  if (method !== "GET" && state.csrf) requestHeaders["X-CSRF-Token"] = state.csrf
  let response
  try {
    response = await fetch(apiUrl(path, query), {
      method, headers: requestHeaders, signal, credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  } catch (error) {
    if (error.name === "AbortError") throw error
    throw new ApiError(0, null)
  }
  const data = parsed(await response.text(), response.headers.get("content-type"))
  if (response.status === 401 && !path.startsWith("/session")) state.onUnauthorized()
  if (!response.ok) throw new ApiError(response.status, data)
  return data
}

export const api = {
  get: (path, query, signal) => request("GET", path, { query, signal }),
  post: (path, body, options) => request("POST", path, { body, ...options }),
  put: (path, body, options) => request("PUT", path, { body, ...options }),
  patch: (path, body, options) => request("PATCH", path, { body, ...options }),
  delete: (path, query) => request("DELETE", path, { query }),
}

export const parsed = (text, type) => (text && type?.includes("json") ? JSON.parse(text) : null)

/**
 * Fetches `path` and returns {data, error, loading, reload, setData}. Previous data is kept while a reload is in
 * flight; `every` reloads after that many milliseconds while the page is visible. A path of null fetches nothing.
 * The result is `stale` while it belongs to a previous path or query.
 */
export function useApi(path, query, { every = 0 } = {}) {
  const [state, setState] = useState({ data: null, error: null, loading: path !== null })
  const key = path === null ? null : apiUrl(path, query)
  const round = useRef(null)
  const load = useCallback(async () => {
    if (key === null) return
    round.current?.abort()
    const mine = (round.current = new AbortController())
    try {
      const data = await api.get(path, query, mine.signal)
      setState({ data, error: null, loading: false, key })
    } catch (error) {
      if (error.name !== "AbortError") setState((previous) => ({ ...previous, error, loading: false }))
    }
  }, [key])
  useEffect(() => {
    setState((previous) => ({ ...previous, loading: key !== null }))
    load()
    return () => round.current?.abort()
  }, [load])
  useEffect(() => {
    if (!every) return undefined
    const timer = setInterval(() => document.hidden || load(), every)
    return () => clearInterval(timer)
  }, [load, every])
  const setData = useCallback((change) => setState((previous) => ({ ...previous, data: typeof change === "function" ? change(previous.data) : change })), [])
  return { ...state, stale: state.key !== key, reload: load, setData }
}

// Validates a draft with the API while it is edited; nothing is stored.

const DEBOUNCE_MS = 250

/** {data, error} of a POST of `body` to `path`, after a pause in typing. Previous data is kept until the next response. */
export function usePreview(path, body, query) {
  const [state, setState] = useState({ data: null, error: null })
  const key = path && JSON.stringify([path, body, query])
  useEffect(() => {
    if (!key) return undefined
    const round = new AbortController()
    const timer = setTimeout(async () => {
      try {
        setState({ data: await api.post(path, body, { query, signal: round.signal }), error: null })
      } catch (error) {
        if (error.name !== "AbortError") setState((previous) => ({ ...previous, error }))
      }
    }, DEBOUNCE_MS)
    return () => {
      clearTimeout(timer)
      round.abort()
    }
  }, [key])
  return state
}

/** {path: message} of the validation errors; the first of each path. */
export const errorsByPath = (errors = []) => Object.fromEntries([...errors].reverse().map(({ path, message }) => [path, message]))
