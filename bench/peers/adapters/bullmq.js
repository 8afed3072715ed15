// BullMQ: delayed jobs in bulk, and job schedulers for what recurs.
'use strict';
const { Queue, Worker } = require('bullmq');
const { kind, redis, PAYLOAD, atMs, dueMs, batches, recorder, ready, main } = require('./common.js');

const connection = { ...redis, maxRetriesPerRequest: null };
const CONCURRENCY = 300;

async function register() {
  const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };
  const queue = new Queue('peers', { connection, defaultJobOptions });
  await queue.waitUntilReady();
  if (kind === 'recurring') return registerSchedulers(queue);
  for (const numbers of batches(1000)) {
    await queue.addBulk(numbers.map((number) => ({
      name: 'noop',
      data: { number, payload: PAYLOAD },
      opts: kind === 'once' ? { delay: Math.max(1, dueMs(number) - Date.now()) } : {},
    })));
  }
}

async function registerSchedulers(queue) {
  const due = new Date(atMs);
  const pattern = `${due.getUTCSeconds()} ${due.getUTCMinutes()} * * * *`;
  for (const numbers of batches(200)) {
    await Promise.all(numbers.map((number) => queue.upsertJobScheduler(
      `hourly-${number}`,
      { pattern },
      { name: 'noop', data: { number, payload: PAYLOAD }, opts: { removeOnComplete: true } },
    )));
  }
}

async function work() {
  const record = recorder();
  const worker = new Worker('peers', async (job) => record(job.data.number), {
    connection,
    concurrency: CONCURRENCY,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  await worker.waitUntilReady();
  ready();
}

main({ register, work });
