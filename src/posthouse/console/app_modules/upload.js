// Uploads with progress.
import { ApiError, apiUrl, parsed, state } from "posthouse/api.js"

/**
 * Sends a file or a part of it, and returns the answer. `progress` is called with the share that was sent, 0 to 1;
 * an aborted `signal` stops the transfer.
 */
export function upload(path, content, { method = "PUT", query, headers = {}, progress, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest() // fetch does not report the progress of a body
    request.open(method, apiUrl(path, query))
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    if (state.csrf) request.setRequestHeader("X-CSRF-Token", state.csrf)
    request.upload.onprogress = (event) => event.lengthComputable && progress?.(event.loaded / event.total)
    request.onerror = () => reject(new ApiError(0, null))
    request.onabort = () => reject(new DOMException("The upload was stopped.", "AbortError"))
    request.onload = () => {
      const data = parsed(request.responseText, request.getResponseHeader("content-type"))
      if (request.status === 401) state.onUnauthorized()
      if (request.status >= 200 && request.status < 300) resolve(data)
      else reject(new ApiError(request.status, data))
    }
    signal?.addEventListener("abort", () => request.abort(), { once: true })
    if (signal?.aborted) return request.abort()
    request.send(content)
  })
}
