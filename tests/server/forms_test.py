#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Structured outputs, function calls and thoughts of weft serve, through the `openai` package (packages.py). The demo model knows
no calls: it gets templates of families that do.

usage: forms_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import json
import os
import pathlib
import sys

from serving import not_under_sanitizers, serving, with_template

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import packages

not_under_sanitizers()
packages.need("openai")
import openai

SAY = [{"role": "user", "content": "Tell me about a fox."}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 1, "maximum": 9},
                                           "kind": {"enum": ["fox", "owl"]}}, "required": ["name", "age", "kind"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": SCHEMA, "strict": True}},
         {"type": "function", "function": {"name": "stop_it", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]
TURNS = "{% for m in messages %}{{ m.content }} {% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
STYLES = {"hermes": "<tool_call> </tool_call>", "mistral": "[TOOL_CALLS]", "llama": "<|python_tag|>", "mistral_named": "[TOOL_CALLS][ARGS]"}
TAGGED = "<tool_call> <function= <parameter="
TEXTS = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1, "maximum": 9}, "kind": {"type": "string", "enum": ["fox", "owl"]}},
         "required": ["count", "kind"], "additionalProperties": False}


def check_animal(text):
    value = json.loads(text)
    assert list(value) == ["name", "age", "kind"] and 1 <= value["age"] <= 9 and value["kind"] in ("fox", "owl"), value


def formats(client):
    for seed in range(4):
        wish = {"model": "demo", "messages": SAY, "seed": seed, "temperature": 0 if seed == 0 else 1.3, "max_tokens": 200}
        reply = client.chat.completions.create(**wish, response_format=FORMAT).choices[0]
        assert reply.finish_reason == "stop", reply
        check_animal(reply.message.content)
        text = "".join(event.choices[0].delta.content or "" for event in
                       client.chat.completions.create(**wish, response_format=FORMAT, stream=True))
        assert text == reply.message.content, (text, reply)
    reply = client.chat.completions.create(model="demo", messages=SAY, response_format={"type": "json_object"}, max_tokens=60, temperature=0)
    assert reply.choices[0].message.content.startswith("{")


def refusals(client):
    function = {"type": "function", "function": {"name": "find"}}
    for param, wish in (("response_format", {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"not": {}}}}}),
                        ("response_format.json_schema.schema", {"response_format": {"type": "json_schema"}}),
                        ("tool_choice", {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "nobody"}}}),
                        ("tools[1].function.name", {"tools": [function, function]}), ("tool_choice", {"tool_choice": "required"}),
                        ("tools", {"tools": [{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"not": {}}}}], "tool_choice": "required"})):
        try:
            client.chat.completions.create(model="demo", messages=SAY, **wish)
            raise SystemExit(f"{wish} was not refused")
        except openai.BadRequestError as error:
            assert error.param == param, (param, error)


def gather(stream):
    """A streamed answer as its message, calls put together by their numbers."""
    calls, text, reason = {}, "", None
    for event in stream:
        delta = event.choices[0].delta
        text += delta.content or ""
        for call in delta.tool_calls or []:
            one = calls.setdefault(call.index, {"id": call.id, "name": call.function.name, "arguments": ""})
            one["arguments"] += call.function.arguments or ""
        reason = event.choices[0].finish_reason or reason
    return text, [calls[n] for n in sorted(calls)], reason


def calls(client):
    for seed in range(4):
        wish = {"model": "demo", "messages": SAY, "tools": TOOLS, "seed": seed, "temperature": 0 if seed == 0 else 1.2, "max_tokens": 300,
                "parallel_tool_calls": seed % 2 == 1}
        reply = client.chat.completions.create(**wish, tool_choice="required").choices[0]
        assert reply.finish_reason in (("tool_calls", "length") if seed % 2 else ("tool_calls",)), reply
        assert reply.message.tool_calls and not reply.message.content, reply
        for call in reply.message.tool_calls[:-1] if reply.finish_reason == "length" else reply.message.tool_calls:
            assert call.function.name in ("find", "stop_it"), reply
            check_animal(call.function.arguments) if call.function.name == "find" else json.loads(call.function.arguments)
        text, streamed, reason = gather(client.chat.completions.create(**wish, tool_choice="required", stream=True))
        assert reason == reply.finish_reason and not text, (text, streamed)
        assert [(one["name"], one["arguments"]) for one in streamed] == \
            [(call.function.name, call.function.arguments) for call in reply.message.tool_calls], (streamed, reply)
        named = client.chat.completions.create(**wish, tool_choice={"type": "function", "function": {"name": "find"}}).choices[0]
        assert [call.function.name for call in named.message.tool_calls] == ["find"], named
        check_animal(named.message.tool_calls[0].function.arguments)
    free = client.chat.completions.create(model="demo", messages=SAY, tools=TOOLS, temperature=0, max_tokens=20).choices[0]
    assert free.message.content and not free.message.tool_calls, free
    history = SAY + [named.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": named.message.tool_calls[0].id, "content": "found"}]
    client.chat.completions.create(model="demo", messages=history, tools=TOOLS, tool_choice="none", max_tokens=4)


def tagged(client):
    """Arguments between tags: strings are written as they are."""
    tools = [{"type": "function", "function": {"name": "count", "parameters": TEXTS, "strict": True}}]
    for seed in range(3):
        reply = client.chat.completions.create(model="demo", messages=SAY, tools=tools, tool_choice="required", seed=seed, temperature=1.2, max_tokens=200,
                                               parallel_tool_calls=False).choices[0]
        assert reply.finish_reason == "tool_calls" and not reply.message.content, reply
        value = json.loads(reply.message.tool_calls[0].function.arguments)
        assert 1 <= value["count"] <= 9 and value["kind"] in ("fox", "owl"), value


def notes(client):
    """Parameters that are not served are taken as any object, which the answer's head says."""
    tool = {"name": "any", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}
    wish = {"model": "demo", "messages": SAY, "max_tokens": 4}
    for stream in (False, True):
        reply = client.chat.completions.with_raw_response.create(**wish, stream=stream, tools=[{"type": "function", "function": tool}])
        assert "tools[0].function.parameters" in reply.headers["weft-note"] and "'not'" in reply.headers["weft-note"], reply.headers
    assert "weft-note" not in client.chat.completions.with_raw_response.create(**wish, tools=TOOLS).headers


def responses(client):
    """The same calls from /v1/responses, as items and as events."""
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    wish = {"model": "demo", "input": "Tell me about a fox.", "tools": tools, "temperature": 0, "max_output_tokens": 300, "tool_choice": {"type": "function", "name": "find"}}
    reply = client.responses.create(**wish)
    assert reply.status == "completed" and [item.type for item in reply.output] == ["function_call"], reply
    call = reply.output[0]
    assert call.name == "find" and call.call_id and reply.tool_choice.name == "find" and reply.tools[0].name == "find", reply
    check_animal(call.arguments)
    events = list(client.responses.create(**wish, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    names = [event.type for event in events]
    assert names[:3] == ["response.created", "response.in_progress", "response.output_item.added"] and names[-3:] == \
        ["response.function_call_arguments.done", "response.output_item.done", "response.completed"], names
    assert "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta") == call.arguments
    assert events[-1].response.output[0].arguments == events[-3].arguments == call.arguments
    history = [{"role": "user", "content": "Find."}, {"type": "reasoning", "id": "r", "summary": []}, call.model_dump(exclude_none=True),
               {"type": "function_call_output", "call_id": call.call_id, "output": "found"}]
    free = client.responses.create(**{**wish, "input": history, "tool_choice": "auto", "max_output_tokens": 8})
    assert [item.type for item in free.output] == ["message"] and free.output_text, free
    for param, change in (("tool_choice", {"tool_choice": {"type": "function", "name": "nobody"}}), ("input[0]", {"input": [{"type": "function_call", "name": "a"}]}),
                          ("input[0].call_id", {"input": [{"type": "function_call_output", "output": "a"}]}), ("tools[0].type", {"tools": [{"type": "web_search"}]})):
        try:
            client.responses.create(**{**wish, **change})
            raise SystemExit(f"{change} was not refused")
        except openai.BadRequestError as error:
            assert error.param == param, (param, error)


def thoughts(client):
    reply = client.chat.completions.create(model="demo", messages=SAY, temperature=0, max_tokens=12).choices[0]
    assert reply.message.reasoning_content and not reply.message.content, reply
    told = client.responses.create(model="demo", input=SAY[0]["content"], temperature=0, max_output_tokens=12)
    assert [item.type for item in told.output] == ["reasoning"] and told.output[0].content[0].text == reply.message.reasoning_content, told


def main():
    weft, model, scratch = sys.argv[1:4]
    os.makedirs(scratch, exist_ok=True)

    def served(path, *tests):
        with serving(weft, path, "--invariant", "--ctx", "1024") as server:
            with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
                for test in tests:
                    test(client)

    served(model, formats)
    for name, mark in STYLES.items():
        path = with_template(model, os.path.join(scratch, f"forms_{name}.gguf"), TURNS + "{# " + mark + " #}")
        served(path, *([calls, formats, refusals, notes, responses] if name == "hermes" else [calls]))
        os.remove(path)
    path = with_template(model, os.path.join(scratch, "forms_tagged.gguf"), TURNS + "{# " + TAGGED + " #}")
    served(path, tagged)
    os.remove(path)
    path = with_template(model, os.path.join(scratch, "forms_thoughts.gguf"), TURNS + "<think>")
    served(path, thoughts)
    os.remove(path)


if __name__ == "__main__":
    main()
