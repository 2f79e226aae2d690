#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of weft serve in a real browser: keys that are wrong, conversations, a stop, markup in a model's text, a reload, the
keyboard, a narrow screen, thoughts, several models. Skipped (status 77) where Chromium is not installed.

usage: page_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import json
import os
import sys

from browser import CHROMIUM, browsing
from serving import not_under_sanitizers, serving, with_template

NOTE = '[...document.querySelectorAll(".note")].at(-1).innerText'
LAST = '[...document.querySelectorAll(".message")].at(-1)'
TURNS = "{% for m in messages %}{{ m.content }} {% endfor %}<think>"
EVIL = ["<script>bad=1</script><img src=x onerror=bad=1> **bold** `<i>`"]


def opened(page):
    page.until('typeof answer === "function" && document.readyState === "complete"')


def ask(page, text):
    page.run('$("text").focus()')
    page.type(text)
    page.key("Enter", "\r", code="Enter", windowsVirtualKeyCode=13)


def ends(page):
    page.until(f'$("send").textContent === "Send" && /^\\d+ tokens\\b/.test({NOTE})')


def asks_for_a_key(page):
    page.run('settings.key = "wrong"')
    ask(page, "Tell me a story about a fox.")
    page.until(f'{NOTE}.includes("key is needed")')
    page.run('$("settings").open = true; $("key").value = ""; $("key").focus()')
    page.type("a-key")
    page.until('$("name").textContent === "demo.gguf" && $("models").hidden')
    page.run('[...document.querySelectorAll(".note button")].at(-1).click()')  # retry
    ends(page)
    assert page.run('document.querySelectorAll(".message").length') == 2


def stops(page):
    page.run('$("max_tokens").value = ""; wish = (old => m => ({ ...old(m), ignore_eos: true }))(ordinary = wish)')
    ask(page, "Another one.")
    page.until('$("send").textContent === "Stop" && current.messages.at(-1).content.length > 20')
    page.key("Escape", code="Escape", windowsVirtualKeyCode=27)
    page.until(f'$("send").textContent === "Send" && {NOTE}.includes("stopped")')
    page.run("wish = ordinary")


def never_runs_what_a_model_writes(page):
    """The model is made to write it, by a schema that allows nothing else."""
    form = {"type": "json_schema", "json_schema": {"name": "evil", "schema": {"enum": EVIL}}}
    page.run(f"wish = m => ({{ ...ordinary(m), response_format: {json.dumps(form)} }})")
    ask(page, "Write a page.")
    ends(page)
    assert page.run("current.messages.at(-1).content") == json.dumps(EVIL[0])
    html = page.run(f"{LAST}.innerHTML")
    assert "&lt;script&gt;" in html and "<strong>bold</strong>" in html and "<code>&lt;i&gt;</code>" in html, html
    assert page.run(f'{LAST}.querySelectorAll("script, img, i").length') == 0 and page.run("typeof bad") == "undefined"
    page.run("wish = ordinary")
    html = page.run('(() => { const d = document.createElement("div"); markdown(d, "# a <b>\\n\\n- one\\n- **two**\\n\\n```js\\n<script>bad=1</scr" + "ipt>\\n```"); return d.innerHTML; })()')
    assert html == "<h3>a &lt;b&gt;</h3><ul><li>one</li><li><strong>two</strong></li></ul><pre><code>&lt;script&gt;bad=1&lt;/script&gt;\n</code></pre>", html


def keeps_conversations(page):
    page.key("n", code="KeyN", windowsVirtualKeyCode=78, modifiers=1)  # Alt+N
    page.until('document.querySelectorAll("#list li").length === 2 && !document.querySelectorAll(".message").length')
    page.run('$("max_tokens").value = "8"; $("max_tokens").oninput(); $("system").value = "You tell stories."; $("system").oninput()')
    ask(page, "And another.")
    ends(page)
    assert page.run("wish([]).messages[0].content") == "You tell stories."
    page.call("Page.reload")
    page.until('window.performance.getEntriesByType("navigation")[0]?.type === "reload" && document.readyState === "complete"')
    page.until('document.querySelectorAll("#list li").length === 2 && document.querySelectorAll(".message").length === 2')
    page.run('document.querySelectorAll("#list li")[1].firstChild.click()')
    page.until('document.querySelectorAll(".message").length === 6')
    assert page.run("settings.max_tokens + settings.system") == "8You tell stories."


def shows_the_server(page):
    page.run('$("view").open = true')
    page.until('$("figures").innerText.includes("pages shared") && [...document.querySelectorAll("canvas")].length === 5')
    page.run('select(conversations[0]); $("max_tokens").value = "200"; $("max_tokens").oninput()')
    page.run("wish = (old => m => ({ ...old(m), ignore_eos: true }))(wish)")
    ask(page, "A long one.")
    page.until('Math.max(...courses.speed) > 0 && courses.speed.length > 1')
    ends(page)
    page.until(f'/200 tokens, [\\d.]+ tokens\\/s/.test({NOTE})')


def is_light_and_dark(page):
    back = "getComputedStyle(document.body).backgroundColor"
    colours = []
    for theme in ("light", "dark", ""):
        page.run(f'$("theme").value = "{theme}"; $("theme").oninput()')
        colours.append(page.run(back))
    assert colours[0] != colours[1], colours
    for scheme, colour in (("dark", colours[1]), ("light", colours[0])):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.until(f'{back} === "{colour}"')


def fits_a_phone(page):
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=True)
    aside = 'getComputedStyle(document.querySelector("aside")).display'
    page.until(f'document.documentElement.scrollWidth <= 360 && {aside} === "none"')
    assert page.run('(r => r.bottom <= innerHeight + 1 && r.right <= innerWidth + 1)($("send").getBoundingClientRect())')
    page.run('$("menu").click()')
    page.until(f'{aside} !== "none"')
    page.call("Emulation.clearDeviceMetricsOverride")


def chooses_a_model(page):
    opened(page)
    page.until('!$("models").hidden && $("model").options.length === 2')
    page.run('$("settings").open = true; $("max_tokens").value = "24"; $("max_tokens").oninput(); $("model").value = "thinker"')
    page.run('$("model").dispatchEvent(new Event("input"))')
    assert page.run('$("name").textContent') == "thinker"
    ask(page, "A story.")
    ends(page)
    assert page.run(f'{LAST}.querySelector("details summary").textContent') == "Thoughts"
    assert page.run("current.messages.at(-1).thoughts.length") > 20


def main():
    weft, model, scratch = sys.argv[1:4]
    not_under_sanitizers()
    if not CHROMIUM:
        print("page_test: skipped: Chromium is not installed (scripts/install-deps --browser)")
        sys.exit(77)
    os.makedirs(scratch, exist_ok=True)
    keys = os.path.join(scratch, "keys_page")
    with open(keys, "w", encoding="utf-8") as file:
        file.write("a-key\n")
    with serving(weft, model, "--api-key-file", keys, "--grace", "5") as server, browsing(f"http://127.0.0.1:{server.port}/") as page:
        opened(page)
        for part in (asks_for_a_key, stops, never_runs_what_a_model_writes, keeps_conversations, shows_the_server, is_light_and_dark, fits_a_phone):
            part(page)
            print("fine:", part.__name__, flush=True)
    thinker = with_template(model, os.path.join(scratch, "page_thinker.gguf"), TURNS)
    with serving(weft, f"--model=plain={model}", f"--model=thinker={thinker}", "--grace", "5") as server:
        with browsing(f"http://127.0.0.1:{server.port}/") as page:
            chooses_a_model(page)
            print("fine: chooses_a_model", flush=True)
    os.remove(thinker)


if __name__ == "__main__":
    main()
