// Bee-Queue: delayed jobs in bulk; nothing recurs.
'use strict';
const Queue = require('bee-queue');
const { kind, redis, PAYLOAD, dueMs, batches, recorder, ready, main } = require('./common.js');

const CONCURRENCY = 200;
const settings = {
  redis,
  activateDelayedJobs: true,
  removeOnSuccess: true,
  storeJobs: false,
  sendEvents: false,
  getEvents: false,
};

async function register() {
  const queue = new Queue('peers', { ...settings, isWorker: false });
  await queue.ready();
  for (const numbers of batches(1000)) {
    const failed = await queue.saveAll(numbers.map((number) => {
      const job = queue.createJob({ number, payload: PAYLOAD });
      return kind === 'once' ? job.delayUntil(dueMs(number)) : job;
    }));
    for (const error of failed.values()) throw error;
  }
}

async function work() {
  const record = recorder();
  const queue = new Queue('peers', settings);
  queue.process(CONCURRENCY, async (job) => record(job.data.number));
  await queue.ready();
  ready();
}

main({ register, work });
