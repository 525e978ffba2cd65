// Validates a draft with the API while it is edited; nothing is stored.
import { api } from "../api.js"
import { useEffect, useState } from "../lib.js"

const PAUSE = 250

/** {data, error} of a POST of `body` to `path`, after a pause in typing. Previous data is kept until the next response. */
export function useTrial(path, body, query) {
  const [state, setState] = useState({ data: null, error: null })
  const key = path && JSON.stringify([path, body, query])
  useEffect(() => {
    if (!key) return undefined
    const round = new AbortController()
    const timer = setTimeout(async () => {
      try {
        setState({ data: await api.post(path, body, { query, signal: round.signal }), error: null })
      } catch (error) {
        if (error.name !== "AbortError") setState((was) => ({ ...was, error }))
      }
    }, PAUSE)
    return () => {
      clearTimeout(timer)
      round.abort()
    }
  }, [key])
  return state
}

/** {path: message} of the validation errors; the first of each path. */
export const faultsByPath = (faults = []) => Object.fromEntries([...faults].reverse().map(({ path, message }) => [path, message]))
