// Receive signed webhooks: node webhook.mjs PORT, with the secrets in WEBHOOK_SECRETS, a blank between two.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secrets = process.env.WEBHOOK_SECRETS.split(" ").map((text) => Buffer.from(text.slice("whsec_".length), "base64"));

/** Return the execution id of a webhook; throw for one that is not signed, or more than 5 minutes from now. */
export function verify(headers, body, now = Date.now()) {
  const [id, time, signatures] = ["id", "timestamp", "signature"].map((name) => headers[`webhook-${name}`] ?? "");
  // An id of another form could hold a part of another message's time.
  if (!/^[\w.:-]+@\d{1,15}$/.test(id)) throw new Error("webhook-id");
  if (!/^\d{1,12}$/.test(time) || Math.abs(now - time * 1000) > 300_000) throw new Error("webhook-timestamp");
  const sent = signatures.split(" ", 16).filter((part) => part.startsWith("v1,")).map((part) => Buffer.from(part.slice(3), "base64"));
  const own = secrets.map((secret) => createHmac("sha256", secret).update(`${id}.${time}.`).update(body).digest());
  if (!own.some((mac) => sent.some((one) => one.length === mac.length && timingSafeEqual(one, mac)))) throw new Error("webhook-signature");
  return id;
}

createServer(async (request, response) => {
  const chunks = await request.toArray();
  try {
    console.log(`verified ${verify(request.headers, Buffer.concat(chunks))}`);
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(400).end(`refused: ${error.message}`);
  }
}).listen(process.argv[2], "127.0.0.1", () => console.log("listening"));
