// Uploads in parts. They continue after a lost connection, and after a reload when the same file is chosen again.
import { api } from "posthouse/api.js"
import { useEffect, useState } from "posthouse/preact.js"
import { upload } from "posthouse/upload.js"
import { route } from "./videos.js"

const PART_BYTES = 8 * 2 ** 20
const MAX_WAIT = 30

/** Transfers of this browser: {key, id, name, size, sent, state, message}; state: queued, sending, interrupted or failed. */
const store = { name: null, list: [], listeners: new Set(), queue: Promise.resolve() }

const keyOf = (file) => [file.name, file.size, file.lastModified].join("/")

/** The transfers of this user, and those that were interrupted before the page was loaded. */
export function useTransfers(session) {
  const [list, setList] = useState(store.list)
  useEffect(() => {
    open(`vlog.uploads/${session.name}/${session.tenant ?? ""}`)
    store.listeners.add(setList)
    setList(store.list)
    return () => store.listeners.delete(setList)
  }, [])
  return list
}

function open(name) {
  if (store.name === name) return
  Object.assign(store, { name, list: loadStored(name).map((each) => ({ ...each, state: "interrupted" })) })
  for (const transfer of store.list) refreshOffset(transfer)
}

const loadStored = (name) => { try { return JSON.parse(localStorage.getItem(name)) ?? [] } catch { return [] } }

async function refreshOffset(transfer) {
  try {
    change(transfer.key, { sent: (await offsetOf(transfer.id)) })
  } catch (error) {
    if (error.status === 404) remove(transfer.key)
  }
}

const offsetOf = async (id) => (await api.get(route(`/uploads/${id}`))).offset

function publish(list) {
  store.list = list
  const kept = list.filter(({ id }) => id).map(({ key, id, name, size, sent }) => ({ key, id, name, size, sent }))
  try { localStorage.setItem(store.name, JSON.stringify(kept)) } catch { /* no storage: kept for this page only */ }
  for (const listener of store.listeners) listener(list)
}

const find = (key) => store.list.find((each) => each.key === key)
const change = (key, changes) => publish(store.list.map((each) => (each.key === key ? { ...each, ...changes } : each)))
const remove = (key) => publish(store.list.filter((each) => each.key !== key))

/** Starts to send files, one after the other; `done` is called after each. */
export function send(files, done) {
  for (const file of files) {
    const key = keyOf(file)
    const before = find(key)
    if (before && ["queued", "sending"].includes(before.state)) continue
    if (before) change(key, { state: "queued", message: null })
    else publish([...store.list, { key, id: null, name: file.name, size: file.size, sent: 0, state: "queued" }])
    store.queue = store.queue.then(() => transfer(key, file)).then(done)
  }
}

/** Stops a transfer and deletes what the server has of it. */
export async function discard(key) {
  const { id, stop } = find(key)
  remove(key)
  stop?.abort()
  if (id) await api.delete(route(`/uploads/${id}`)).catch((error) => { if (error.status !== 404) throw error })
}

async function transfer(key, file) {
  const stop = new AbortController()
  let wait = 1
  change(key, { state: "sending", stop })
  while (find(key)) {
    try {
      await sendRest(key, file, stop.signal, () => { wait = 1 })
      return remove(key)
    } catch (error) {
      if (stop.signal.aborted) return undefined
      if (!(await isTemporary(error, key, file))) return change(key, { state: "failed", message: error.message })
      change(key, { message: `Connection lost. Trying again in ${wait} s.` })
      await new Promise((resolve) => setTimeout(resolve, wait * 1000))
      wait = Math.min(2 * wait, MAX_WAIT)
    }
  }
  return undefined
}

async function sendRest(key, file, signal, proceeded) {
  const id = find(key).id ?? (await create(key, file))
  let offset = await offsetOf(id)
  while (offset < file.size) {
    const part = file.slice(offset, offset + PART_BYTES)
    const progress = (share) => change(key, { sent: offset + share * part.size })
    const answer = await upload(route(`/uploads/${id}`), part, { method: "PATCH", query: { offset }, progress, signal })
    offset = answer.offset
    change(key, { sent: offset, message: null })
    proceeded()
  }
  await api.post(route(`/uploads/${id}/finish`))
}

async function create(key, file) {
  const title = file.name.replace(/\.[^.]*$/, "").slice(0, 300) || file.name
  const { id } = await api.post(route("/uploads"), { title, filename: file.name.slice(-300), size: file.size })
  change(key, { id })
  return id
}

/** Whether the same request may succeed later. An upload that the server has deleted starts anew. */
async function isTemporary(error, key, file) {
  if (error.status === 404) change(key, { id: null, sent: 0 })
  if (error.status === 0) await file.slice(0, 1).arrayBuffer().catch(() => { error = new Error("The file can no longer be read. Choose it again.") })
  return [0, 404, 409, 429].includes(error.status) || error.status >= 500
}
