// Drives examples/node/consumer.mjs by lines on stdin; driver.py says how.
//
//     node driver.mjs EXAMPLE_FOLDER REDIS_URL QUEUE SCRIPTS

import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const [example, url, queue, scripts] = process.argv.slice(2)
const { Consumer } = await import(pathToFileURL(join(example, 'consumer.mjs')))
let consumers = {}, held = {}

// Return what was handed over, and keep it under the names.
function shown(deliveries, names) {
  deliveries.forEach((delivery, n) => { held[names?.[n] ?? delivery.fields.execution_id.split('@')[0]] = delivery })
  return deliveries.map(({ fields, deliveries }) => ({
    execution_id: fields.execution_id, attempt: Number(fields.attempt), deliveries, payload: JSON.parse(fields.payload),
  }))
}

function reset() {
  for (const consumer of Object.values(consumers)) consumer.close()
  consumers = {}
  held = {}
  return null
}

async function answer(ask) {
  if (ask.do === 'reset') return reset()
  const consumer = consumers[ask.consumer] ??= await Consumer.open(url, queue, ask.consumer, scripts)
  const delivery = held[ask.of]
  switch (ask.do) {
    case 'read': return shown(await consumer.read(ask.block_ms), ask.as)
    case 'reclaim': {
      const [found, poisoned] = await consumer.reclaim(100, ask.lease_ms, ask.max_deliveries ?? 5)
      return { taken: shown(found, ask.as), poisoned }
    }
    case 'heartbeat': return consumer.heartbeat(delivery)
    case 'succeed': return consumer.succeed(delivery)
    case 'skip': return consumer.skip(delivery)
    case 'fail': return consumer.fail(delivery, ask.error ?? '', ask.final)
    case 'hand_back': return consumer.handBack(delivery)
    case 'effect': return consumer.effect(delivery, ask.name, ask.result)
      .catch((error) => ({ refused: error.message.split(' ')[0] }))
    case 'leave': return consumer.leave()
    default: throw new Error(ask.do)
  }
}

for await (const line of createInterface({ input: process.stdin }))
  console.log(JSON.stringify(await answer(JSON.parse(line))))
reset()
