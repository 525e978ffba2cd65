// What the runner says to a peer's script, for the scripts in JavaScript.
// The commands and answers are those that protocol.py describes.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const PAD = "x".repeat(70); // with the time and the quotes: about 100 bytes of payload
const REPORT_EVERY_MS = 50;
/** The guarantees that the peer has: see protocol.py. */
export const GUARANTEES = process.env.PEER_GUARANTEES === "on";
export const LIMIT = 5_000; // running jobs, never reached
const JOBS_PER_KEY = 10;
const TENANTS = 20;
const UNCOUNTED_ENQUEUES = 50; // connections, prepared statements and caches warm up on these

/** Seconds on the monotonic clock, the one that Python's time.monotonic() reads. */
export const now = () => Number(process.hrtime.bigint()) / 1e9;

const payload = () => ({ sent: now(), pad: PAD });

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

/** An order key and a tenant for each job of a bulk: all keys have the same number of jobs, by turns. */
export function keyed(payloads) {
  const count = Math.max(1, Math.floor(payloads.length / JOBS_PER_KEY));
  return payloads.map((payload, n) => ({
    payload,
    key: `key-${n % count}`,
    tenant: `tenant-${(n % count) % TENANTS}`,
  }));
}

export function* chunks(items, size) {
  for (let start = 0; start < items.length; start += size) {
    yield items.slice(start, start + size);
  }
}

/** What this worker has run so far. */
class Tally {
  ran = 0;
  first = null;
  #delays = [];

  constructor(timed) {
    this.timed = timed;
  }

  started(payload) {
    if (this.first === null) this.first = now();
    if (this.timed) this.#delays.push((now() - payload.sent) * 1000);
    this.ran += 1;
  }

  report() {
    const delays = this.#delays;
    this.#delays = [];
    return { ran: this.ran, first: this.first, delays_ms: delays };
  }
}

const commands = {
  async setup(peer) {
    await peer.setup();
    say({ version: installedVersion(peer.package), settings: peer.settings });
  },

  async enqueue_one(peer, jobs) {
    for (let n = 0; n < UNCOUNTED_ENQUEUES; n += 1) await peer.enqueueOne(payload());
    const began = now();
    for (let n = 0; n < Number(jobs); n += 1) await peer.enqueueOne(payload());
    say({ jobs: Number(jobs), seconds: now() - began });
  },

  async enqueue_bulk(peer, jobs) {
    const payloads = Array.from({ length: Number(jobs) }, payload);
    const began = now();
    await peer.enqueueBulk(payloads);
    say({ jobs: payloads.length, seconds: now() - began });
  },

  async pace(peer, rate, seconds) {
    const interval = 1 / Number(rate);
    const jobs = Math.round(Number(rate) * Number(seconds));
    const began = now();
    for (let n = 0; n < jobs; n += 1) {
      // A little jitter, or the pace could keep step with a peer's polling.
      const due = began + (n + Math.random() * 0.5) * interval;
      await sleep(Math.max(0, (due - now()) * 1000));
      await peer.enqueueOne(payload());
    }
    say({ jobs });
  },

  async work(peer, mode) {
    const go = goSignal();
    say({ ready: true });
    await go;
    const tally = new Tally(mode === "timed");
    await peer.work(tally);
    let reported = 0;
    for (;;) {
      await sleep(REPORT_EVERY_MS);
      if (tally.ran > reported) {
        reported = tally.ran;
        say(tally.report());
      }
    }
  },
};

/** Resolves at the line `go`; the end of stdin ends the process. */
function goSignal() {
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit(0));
  return new Promise((resolve) => lines.on("line", (line) => line.trim() === "go" && resolve()));
}

function installedVersion(name) {
  const manifest = new URL(`node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}

export async function main(peer) {
  const [command, ...args] = process.argv.slice(2);
  await peer.open(process.env.PEER_DATABASE_URL);
  await commands[command](peer, ...args);
  process.exit(0); // pools and timers must not keep a finished command alive
}
