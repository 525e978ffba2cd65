// Graphile Worker with its batching on: a local queue and batched completion.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { GUARANTEES, chunks, keyed, main } from "./protocol.mjs";

const BULK_SIZE = 5000;
// What its own performance page uses; other sizes were within the noise here.
const worker = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  // A local queue waits for its next poll when named queues are all taken: two seconds for each job of a queue.
  ...(!GUARANTEES && { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
};
// The default logger writes a line per job, which would measure the terminal.
const logger = new Logger(() => () => {});

const peer = {
  package: "graphile-worker",
  settings: { ...worker, bulk_size: BULK_SIZE },

  async open(connectionString) {
    this.preset = { worker: { ...worker, connectionString, logger } };
    this.utils = await makeWorkerUtils({ preset: this.preset });
  },

  async setup() {
    await this.utils.migrate();
  },

  async enqueueOne(payload) {
    await this.utils.addJob("noop", payload);
  },

  async enqueueBulk(payloads) {
    const specs = GUARANTEES
      ? keyed(payloads).map(({ payload, key }) => ({ identifier: "noop", payload, queueName: key }))
      : payloads.map((payload) => ({ identifier: "noop", payload }));
    for (const chunk of chunks(specs, BULK_SIZE)) await this.utils.addJobs(chunk);
  },

  async work(tally) {
    const noop = async (payload) => tally.started(payload);
    await run({ preset: this.preset, taskList: { noop }, noHandleSignals: true });
  },
};

await main(peer);
