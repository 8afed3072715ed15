// A consumer of one queue in Node, by lua/README.md.
//
//     waterclock scripts export scripts
//     npm ci && node consumer.mjs redis://127.0.0.1:6379/0 mail scripts

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { createClient } from '@redis/client'

// As the deployment is set: WATERCLOCK_EXECUTION_LEASE_MS, _MAX_DELIVERIES, _HISTORY_LIMIT, _LEDGER_LIMIT.
const LEASE_MS = 10_000, MAX_DELIVERIES = 5, HISTORY = 50, LEDGER = 2_000

// A delivery is {tag, stream, entry, deliveries, fields, startedAt}. Entry, consumer and `deliveries`
// together prove that it is ours.
const nominalOf = (delivery) => Number(delivery.fields.execution_id.split('@')[1])
const hasLapsed = (delivery) => delivery.fields.lapsed === '1'
const isLate = (delivery) => delivery.fields.lapsed === 'gated'
const hasExpired = ({ fields, deliveries, startedAt }) =>
  deliveries === 1 && 'expires_at' in fields && startedAt >= Number(fields.expires_at)

// When the first attempt began, and how many attempts the retry policy is not to count.
function sinceOf({ fields, startedAt }) {
  const [beganAt, base] = (fields.since ?? '').split('.')
  return [Number(beganAt || startedAt), Number(base || 0)]
}

const pairs = (flat) =>
  Object.fromEntries(flat.flatMap((word, n) => (n % 2 ? [] : [[word, flat[n + 1]]])))

export class Consumer {
  // Reads a queue under one name, and ends what it has read.

  static async open(url, queue, name, scripts) {
    // RESP 2, so that replies are the lists of lua/README.md; an unsent command fails at once.
    const client = createClient({ url, RESP: 2, disableOfflineQueue: true })
    client.on('error', (error) => console.error(`redis: ${error.message}`))
    await client.connect()
    const reader = await client.duplicate().connect() // a blocking read keeps a connection to itself
    const layout = JSON.parse(await client.sendCommand(['GET', 'wc:layout']))
    if (layout.version !== 2) throw new Error(`layout version ${layout.version} is not known here`)
    return Object.assign(new Consumer(), {
      client, reader, queue, name, scripts, tags: layout.tags,
      streams: [`${queue}:high`, queue, `${queue}:low`],
      manifest: JSON.parse(readFileSync(join(scripts, 'scripts.json'))),
    })
  }

  close() {
    this.reader.destroy()
    this.client.destroy()
  }

  // Scripts

  // Return a script's reply. A server forgets scripts: load it then, and send again.
  async run(script, keys, args) {
    const call = ['EVALSHA', this.manifest[script].sha, String(keys.length), ...keys, ...args.map(String)]
    try {
      return await this.client.sendCommand(call)
    } catch (error) {
      if (!error.message.startsWith('NOSCRIPT')) throw error
      await this.client.sendCommand(['SCRIPT', 'LOAD', readFileSync(join(this.scripts, `${script}.lua`), 'utf8')])
      return this.client.sendCommand(call)
    }
  }

  keys(tag, stream) {
    const names = [`ready:${stream}`, 'jobs', 'buckets', 'dead', 'gates', 'outbox', 'ledger']
    return names.map((name) => `wc:{${tag}}:${name}`)
  }

  common(tag) {
    return [...['job', 'due', 'runs', 'letter', 'inputs'].map((name) => `wc:{${tag}}:${name}:`), HISTORY, LEDGER]
  }

  async now() {
    const [seconds, micros] = await this.client.sendCommand(['TIME'])
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
  }

  // Taking

  // Return new deliveries of the most urgent stream that has any, one a shard at the most; none of a
  // queue that is paused.
  async read(blockMs) {
    const settings = JSON.parse((await this.client.sendCommand(['HGET', 'wc:queues', this.queue])) ?? '{}')
    if (settings.paused) return []
    for (const stream of this.streams) {
      const found = await this.readStreams([stream])
      if (found.length) return found
    }
    return blockMs ? this.readStreams(this.streams, blockMs) : []
  }

  async readStreams(streams, blockMs) {
    const places = new Map(
      streams.flatMap((stream) => this.tags.map((tag) => [`wc:{${tag}}:ready:${stream}`, [tag, stream]])))
    const block = blockMs ? ['BLOCK', String(blockMs)] : []
    let reply
    try {
      reply = await (blockMs ? this.reader : this.client).sendCommand([
        'XREADGROUP', 'GROUP', 'workers', this.name, 'COUNT', '1', ...block,
        'STREAMS', ...places.keys(), ...Array(places.size).fill('>')])
    } catch (error) {
      if (!error.message.startsWith('NOGROUP')) throw error
      for (const key of places.keys()) await this.makeGroup(key)
      return this.readStreams(streams, blockMs)
    }
    const startedAt = await this.now()
    return (reply ?? []).flatMap(([key, entries]) => entries.map(([entry, flat]) => {
      const [tag, stream] = places.get(key)
      return { tag, stream, entry, deliveries: 1, fields: pairs(flat), startedAt }
    }))
  }

  async makeGroup(key) {
    try {
      await this.client.sendCommand(['XGROUP', 'CREATE', key, 'workers', '0', 'MKSTREAM'])
    } catch (error) {
      if (!error.message.startsWith('BUSYGROUP')) throw error
    }
  }

  // Return [what others left, taken over; how many were ended as poison].
  async reclaim(room = 1, leaseMs = LEASE_MS, maxDeliveries = MAX_DELIVERIES) {
    const found = []
    let poisoned = 0
    for (const stream of this.streams) for (const tag of this.tags) {
      let cursor = '-'
      while (cursor && found.length < room) {
        const startedAt = await this.now()
        let reply
        try {
          reply = await this.run('reclaim_executions', this.keys(tag, stream), [
            this.name, startedAt, stream, leaseMs, maxDeliveries, cursor, 100, room - found.length,
            ...this.common(tag)])
        } catch (error) {
          if (!error.message.includes('NOGROUP')) throw error
          break // nobody has read this stream yet
        }
        const [following, ended, ...rows] = reply
        cursor = following
        poisoned += ended
        for (const [entry, deliveries, flat] of rows)
          found.push({ tag, stream, entry, deliveries, fields: pairs(flat), startedAt })
      }
    }
    return [found, poisoned]
  }

  // Holding and ending

  // Extend a lease; return false if it is lost: what is being done is to be stopped.
  async heartbeat({ tag, stream, entry, deliveries }) {
    const [held] = await this.run(
      'heartbeat_executions', [`wc:{${tag}}:ready:${stream}`], [this.name, entry, deliveries])
    return held === 1
  }

  // End an attempt well; `result` is JSON text for the jobs that depend on this one.
  succeed(delivery, result = '') {
    return this.end(delivery, 'succeeded', '', '', '', result)
  }

  // End a delivery that comes too late to be started.
  skip(delivery) {
    return this.end(delivery, 'skipped', '', '', isLate(delivery) ? 'upstream_late' : 'expired')
  }

  // End a failed attempt: another one follows, as the job's retry policy says, or none.
  async fail(delivery, error, final = false) {
    const retry = JSON.parse(delivery.fields.retry ?? '{}')
    const [beganAt, base] = sinceOf(delivery)
    const now = await this.now()
    const waitMs = final ? null : nextWaitMs(retry, Number(delivery.fields.attempt) - base, now - beganAt)
    if (waitMs === null) return this.end(delivery, 'dead', final ? 'final' : 'exhausted', '', error)
    return this.end(delivery, 'failed', now + waitMs, `${beganAt}.${base}`, error)
  }

  // Return 'done', 'already' or 'stale'. Sending the same again is safe.
  async end(delivery, outcome, detail = '', since = '', error = '', result = '') {
    const { tag, stream, entry, deliveries, fields, startedAt } = delivery
    const now = await this.now(), at = nominalOf(delivery)
    const record = outcome === 'skipped'
      ? [at, 'skipped', at, 1, 1, error]
      : [at, outcome, Number(fields.attempt), deliveries, this.name, startedAt - at, now - startedAt,
          ...(error ? [null, error.slice(0, 2048)] : [])]
    const [word] = await this.run('complete_executions', this.keys(tag, stream), [
      this.name, now, stream, ...this.common(tag),
      entry, deliveries, fields.execution_id, fields.attempt, outcome, detail, since, JSON.stringify(record), result])
    return word
  }

  // Give back a delivery that was not started; return false if it is somebody else's.
  async handBack({ tag, stream, entry, deliveries, fields }) {
    const keys = ['ready:' + stream, 'buckets', 'gates'].map((name) => `wc:{${tag}}:${name}`)
    const [back] = await this.run('hand_back_executions', keys, [
      this.name, `wc:{${tag}}:job:`, `wc:{${tag}}:due:`, '', entry, deliveries, fields.execution_id, fields.attempt])
    return back === 1
  }

  // Record what a side effect gave, once; return what stands. Throws if the lease is lost.
  effect({ tag, stream, entry, deliveries, fields }, name, result) {
    return this.run('record_effect', [`wc:{${tag}}:ready:${stream}`, `wc:{${tag}}:effects:${fields.execution_id}`],
      [entry, this.name, deliveries, name, result, 7 * 86_400_000])
  }

  // Take the name off the groups, where it holds nothing; return off how many.
  async leave() {
    let count = 0
    for (const stream of this.streams) for (const tag of this.tags)
      count += await this.run('forget_consumers', [`wc:{${tag}}:ready:${stream}`], [0, this.name])
    return count
  }
}

const random = (low, high) => low + Math.floor(Math.random() * (high - low + 1))

// Return how long to wait after an attempt failed, null if no further one may begin.
export function nextWaitMs(retry, attempt, elapsedMs) {
  const { max_attempts = 3, backoff = 'exponential', base_ms = 1_000, max_ms = 3_600_000 } = retry
  const { waits_ms = [], jitter = 'equal', max_elapsed_ms = Infinity, deadline_ms = Infinity } = retry
  if (attempt >= max_attempts) return null
  const grown = {
    exponential: base_ms * 2 ** (attempt - 1),
    linear: base_ms * attempt,
    fixed: base_ms,
    list: waits_ms[Math.min(attempt, waits_ms.length) - 1],
  }
  let waitMs = Math.min(grown[backoff], max_ms)
  if (jitter === 'equal') waitMs = random(Math.floor(waitMs / 2), waitMs)
  if (jitter === 'full') waitMs = random(0, waitMs)
  if (jitter === 'decorrelated') {
    waitMs = base_ms
    for (let n = 0; n < attempt; n++) waitMs = Math.min(max_ms, random(base_ms, 3 * waitMs))
  }
  const beginsMs = elapsedMs + waitMs
  return beginsMs > max_elapsed_ms || beginsMs >= deadline_ms ? null : waitMs
}

// Run deliveries one by one until `stop.aborted`, keep the leases of all there are, and give back what
// was not started.
export async function work(consumer, handle, stop) {
  let held = []
  const beats = setInterval(() => {
    // What is lost is told by 'stale' when it ends; a handler that can be stopped would be stopped here.
    for (const delivery of held) consumer.heartbeat(delivery).catch((error) => console.error(error.message))
  }, LEASE_MS / 3)
  const run = async (delivery) => {
    if (hasLapsed(delivery)) return consumer.fail(delivery, 'timeout: the target fell silent')
    if (isLate(delivery) || hasExpired(delivery)) return consumer.skip(delivery)
    try {
      await handle(delivery)
    } catch (error) {
      return consumer.fail(delivery, String(error))
    }
    return consumer.succeed(delivery)
  }
  while (!stop.aborted) {
    const [taken] = await consumer.reclaim()
    held = taken.length ? taken : await consumer.read(500)
    if (!held.length) await sleep(100)
    while (held.length && !stop.aborted) {
      console.log(`${held[0].fields.execution_id}: ${await run(held[0])}`)
      held.shift()
    }
  }
  for (const delivery of held) await consumer.handBack(delivery)
  clearInterval(beats)
  await consumer.leave()
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [url, queue, scripts] = process.argv.slice(2)
  if (!scripts) throw new Error('usage: node consumer.mjs REDIS_URL QUEUE SCRIPTS')
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort())
  const consumer = await Consumer.open(url, queue, 'node-1', scripts)
  // Handlers must stand being called twice: the execution id is the key by which to know.
  await work(consumer, ({ fields }) => console.log(`${fields.execution_id}: ${fields.payload}`), stop.signal)
  consumer.close()
}
