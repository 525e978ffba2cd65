// Requests of the gallery: the URLs of routes and pictures, and live data of a library.
import { api, apiUrl, site, useApi } from "posthouse/api.js"
import { useEffect } from "posthouse/preact.js"
import { useEventStream, useThrottled } from "posthouse/stream.js"

export const route = (path) => site(`/photos/${path}`)

/** The URL of a picture; its content is part of the URL, so that a changed picture is loaded again. */
export const fileUrl = (picture, size, tenant) => apiUrl(route(`pictures/${picture.id}/${size}`), { v: picture.sha256.slice(0, 12), tenant })

const SCAN_EVERY = 2000
const ACTIVE = new Set(["queued", "running"])
export const isActive = (job) => ACTIVE.has(job.status)

/** {libraries, pictures, jobs}: reloaded when a job changes, and every second while one is active. */
export function useLibrary(keyword, limit) {
  const jobs = useApi("/jobs", { q: "queue:photos", limit: 5 }, { every: 15_000 })
  const active = Boolean(jobs.data?.items.some(isActive))
  const libraries = useApi(route("libraries"), {}, { every: 15_000 })
  const pictures = useApi(route("pictures"), { keyword, limit }, { every: active ? 1000 : 15_000 })
  const reload = () => [jobs, libraries, pictures].forEach((each) => each.reload())
  useEventStream({ event: "job", queue: "photos" }, useThrottled(reload))
  useEffect(() => { // progress reports send no event
    const timer = active && setInterval(jobs.reload, 1000)
    return () => clearInterval(timer)
  }, [active])
  useScan()
  return { libraries, pictures, jobs, reload }
}

/** Asks the server to compare the folders with the library while the page is visible. Changes start a sync. */
function useScan() {
  useEffect(() => {
    const scan = () => document.hidden || api.post(route("scan")).catch(() => { /* the watcher scans every minute */ })
    const timer = setInterval(scan, SCAN_EVERY)
    return () => clearInterval(timer)
  }, [])
}
