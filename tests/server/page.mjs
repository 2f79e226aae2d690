// SPDX-License-Identifier: MIT
// Drives the page of weft serve in a browser by its debugging port: page.mjs DEBUG_PORT. A failure is an exception.
import assert from "node:assert";

const base = `http://127.0.0.1:${process.argv[2]}`;
const sleep = ms => new Promise(done => setTimeout(done, ms));

async function page() {
  for (let n = 0; n < 100; n++, await sleep(200)) {
    const list = await fetch(base + "/json").then(r => r.json()).catch(() => []);
    const found = list.find(one => one.type === "page");
    if (found) return found.webSocketDebuggerUrl;
  }
  throw new Error("the browser shows no page");
}

const socket = new WebSocket(await page()), waiting = new Map();
await new Promise(done => { socket.onopen = done; });
let calls = 0;
socket.onmessage = event => {
  const m = JSON.parse(event.data);
  if (m.id) waiting.get(m.id)(m.result);
  else if (m.method === "Runtime.exceptionThrown") throw new Error(JSON.stringify(m.params.exceptionDetails));
};
const call = (method, params = {}) => new Promise(done => { waiting.set(++calls, done); socket.send(JSON.stringify({ id: calls, method, params })); });
async function run(text) {
  const { result, exceptionDetails } = await call("Runtime.evaluate", { expression: text, awaitPromise: true, returnByValue: true });
  assert(!exceptionDetails, JSON.stringify(exceptionDetails));
  return result.value;
}
async function until(text) {
  for (let n = 0; n < 300; n++, await sleep(100)) if (await run(text)) return;
  throw new Error("never came true: " + text + "; the page says: " + await run("document.body.innerText"));
}
const ask = text => run(`$("text").value = ${JSON.stringify(text)}; $("ask").requestSubmit()`);
const note = `[...document.querySelectorAll(".note")].at(-1).innerText`;

await call("Runtime.enable");
await until(`typeof answer === "function" && document.readyState === "complete"`);

await run(`settings.key = "wrong"`); // a key that is wrong is told
await ask("Tell me a story about a fox.");
await until(`${note}.includes("key is needed")`);
await run(`$("key").value = "a-key"; $("key").oninput()`);

await run(`[...document.querySelectorAll(".note button")].at(-1).click()`); // retry
await until(`/\\d+ tokens, [\\d.]+ tokens\\/s/.test(${note})`);
assert.equal(await run(`document.querySelectorAll(".message").length`), 2);

await run(`settings.max_tokens = ""; wish = (old => m => ({ ...old(m), ignore_eos: true }))(wish)`);
await ask("Another one.");
await until(`$("send").textContent === "Stop" && current.messages.at(-1).content.length > 20`);
await run(`$("ask").requestSubmit()`);
await until(`$("send").textContent === "Send" && ${note}.includes("stopped")`);

const html = await run(`(() => { const d = document.createElement("div"); document.body.append(d);
  markdown(d, "# a <img src=x onerror=bad=1>\\n\\n- **b** \`<i>\`\\n\\n\`\`\`js\\n<script>bad=1</scr" + "ipt>\\n\`\`\`\\n<script>bad=1</scr" + "ipt>");
  const all = d.innerHTML; d.remove(); return all; })()`);
assert(!/<(img|script|i)\b/.test(html) && html.includes("<strong>b</strong>") && html.includes("<pre>"), html);
assert.equal(await run("typeof bad"), "undefined");

await run(`$("view").open = true`);
await until(`$("figures").innerText.includes("pages used")`);
await call("Page.reload");
await sleep(300);
await until(`document.readyState === "complete" && document.querySelectorAll(".message").length === 4`);
await call("Emulation.setDeviceMetricsOverride", { width: 360, height: 640, deviceScaleFactor: 1, mobile: true });
await until(`document.documentElement.scrollWidth <= 360 && getComputedStyle(document.querySelector("aside")).display === "none"`);
await run(`$("menu").click()`);
await until(`getComputedStyle(document.querySelector("aside")).display !== "none"`);
process.exit(0);
