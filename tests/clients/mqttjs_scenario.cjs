// One round with mqtt.js: MODULES ADDRESS VERSION; prints what came, as JSON.
const [modules, address, version] = process.argv.slice(2);
const mqtt = require(require.resolve("mqtt", { paths: [modules] }));

const five = version === "5";
const base = `mqttjs/${process.pid}`;
const protocol = { 3: { protocolId: "MQIsdp", protocolVersion: 3 }, 4: { protocolVersion: 4 }, 5: { protocolVersion: 5 } };

function options(clientId, more = {}) {
  return { ...protocol[version], clientId, connectTimeout: 10000, reconnectPeriod: 100, ...more };
}

function kept(clientId) {
  const forever = five ? { properties: { sessionExpiryInterval: 60 } } : {};
  return options(clientId, { clean: false, ...forever });
}

class Listener {
  constructor(client) {
    this.came = [];
    this.waiting = [];
    client.on("message", (topic, payload, packet) => {
      this.came.push([topic, payload.toString(), packet.qos, packet.retain]);
      this.waiting.shift()?.();
    });
  }
  async take(count) {
    while (this.came.length < count) await new Promise((done) => this.waiting.push(done));
    return this.came.splice(0, count);
  }
}

async function main() {
  const told = {};
  const publisher = await mqtt.connectAsync(address, options(`pub-${process.pid}`));
  await publisher.publishAsync(`${base}/kept`, "kept", { qos: 1, retain: true });

  const subscriber = mqtt.connect(address, kept(`sub-${process.pid}`));
  const listener = new Listener(subscriber);
  await new Promise((done) => subscriber.once("connect", done));
  await subscriber.subscribeAsync(`${base}/#`, { qos: 2 });
  told.retained = await listener.take(1);

  for (const qos of [0, 1, 2]) await publisher.publishAsync(`${base}/q`, `message ${qos}`, { qos });
  told.messages = await listener.take(3);

  // The connection is lost, and what was missed comes once the client is back.
  const back = new Promise((done) => subscriber.once("connect", done));
  const gone = new Promise((done) => subscriber.once("close", done));
  subscriber.options.reconnectPeriod = 1000;
  subscriber.stream.destroy();
  await gone;
  for (const number of [0, 1, 2]) await publisher.publishAsync(`${base}/missed`, `${number}`, { qos: 2 });
  const answer = await back;
  told.session = version === "3" || answer.sessionPresent;
  told.missed = await listener.take(3);

  const will = { topic: `${base}/will`, payload: Buffer.from("gone"), qos: 1, retain: false };
  const dying = await mqtt.connectAsync(address, options(`dying-${process.pid}`, { will, reconnectPeriod: 0 }));
  dying.stream.destroy();
  told.will = await listener.take(1);

  await publisher.publishAsync(`${base}/kept`, "", { qos: 1, retain: true });
  await subscriber.endAsync();
  await publisher.endAsync();
  console.log(JSON.stringify(told).replaceAll(base, "base"));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
