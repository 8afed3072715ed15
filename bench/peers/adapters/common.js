// What the programs in Node share: the contract (bench/peers/contract.py), and how handlers record.
'use strict';
const fs = require('fs');
const path = require('path');

const [, , role, kind, ...numbers] = process.argv;
const [count, atMs, overMs] = numbers.map(Number);
const url = new URL(process.env.PEER_URL);

const PAYLOAD = 'x'.repeat(100);
const FLUSH_MS = 100;

const dueMs = (number) => atMs + Math.floor((number * overMs) / count);
const file = (ending) => path.join(process.env.PEER_RECORDS, `${process.pid}.${ending}`);
const ready = () => fs.writeFileSync(file('ready'), '');

function* batches(size) {
  for (let first = 0; first < count; first += size) {
    yield Array.from({ length: Math.min(size, count - first) }, (_, i) => first + i);
  }
}

function recorder() {
  let ran = [];
  const records = fs.openSync(file('records'), 'a');
  setInterval(() => {
    const buffer = Buffer.alloc(16 * ran.length);
    ran.forEach(([number, at], i) => {
      buffer.writeBigInt64LE(BigInt(number), 16 * i);
      buffer.writeDoubleLE(at, 16 * i + 8);
    });
    ran = [];
    fs.writeSync(records, buffer);
  }, FLUSH_MS);
  return (number) => ran.push([number, Date.now() / 1000]);
}

async function run({ register, work }) {
  if (role === 'work') return work();
  const started = performance.now();
  await register();
  console.log((performance.now() - started) / 1000);
  process.exit(0);
}

function main(roles) {
  run(roles).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

const redis = { host: url.hostname, port: Number(url.port) };
module.exports = { kind, redis, PAYLOAD, atMs, dueMs, batches, recorder, ready, main };
