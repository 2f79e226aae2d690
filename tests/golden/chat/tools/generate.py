# SPDX-License-Identifier: MIT
"""Writes cases.json: conversations with tools and documents as transformers renders them with the templates of this folder.

    pip install transformers jinja2 gguf tokenizers && python3 generate.py

The templates were written for this test; they read tools and documents in the ways that models' own do.
"""
import itertools
import json
import pathlib
import sys

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tokenizer"))
import oracle  # noqa: E402

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather <now> & \"here\" — für 漢字",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "enum": ["A", "É"], "description": "It's a\nplace\t{{ no }} {% code %}"},
                "days": {"type": "integer", "minimum": -1, "default": 3, "maximum": 1e3},
                "exact": {"type": "boolean", "default": False, "examples": [True, None, 0.5, 1e-9, 123456789012]},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}
TOOLS = [None, [WEATHER], [WEATHER, CLOCK]]
DOCUMENTS = [
    None,
    [{"title": "One", "text": "The first.\nTwo lines."}],
    [{"id": "7", "title": "Größe", "text": "<|im_start|> {{ 1 + 1 }}"}, {"text": "no title", "year": 1999, "tags": ["a", None]}],
]


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = [
    [{"role": "user", "content": "How is the weather?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hello "}],
    [
        {"role": "user", "content": "Weather and time?"},
        {"role": "assistant", "content": "", "tool_calls": [call("weather", {"place": "É", "days": 2}), call("clock", {})]},
        {"role": "tool", "name": "weather", "content": "{\"sun\": true}"},
        {"role": "tool", "name": "clock", "content": "12:00"},
        {"role": "assistant", "content": "Sun at noon."},
        {"role": "user", "content": "<tool_call> thanks"},
    ],
    [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "text first", "tool_calls": [call("weather", {"list": [1, {"x": "<&>'"}], "n": None})]},
        {"role": "tool", "content": "r"},
    ],
]


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=oracle.load(HERE.parents[1] / "tokenizer" / "llama.gguf"), bos_token="<s>", eos_token="</s>")
    cases = []
    for path in sorted(HERE.glob("*.jinja")):
        source = path.read_text().rstrip("\n")
        for messages, tools, documents, prompt in itertools.product(CONVERSATIONS, TOOLS, DOCUMENTS, (False, True)):
            # weft refuses what a template does not read
            if (tools and "tools" not in source) or (documents and "documents" not in source):
                continue
            text = tokenizer.apply_chat_template(messages, chat_template=source, tools=tools, documents=documents,
                                                 tokenize=False, add_generation_prompt=prompt)
            cases.append({"template": path.stem, "messages": messages, "tools": tools, "documents": documents, "prompt": prompt, "text": text})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (HERE / "cases.json").write_text("[\n" + lines + "\n]\n")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
